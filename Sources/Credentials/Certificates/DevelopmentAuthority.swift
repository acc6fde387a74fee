// Why: senders written for Apple insist on TLS and on the host name they connect to. For development the server is its
// own certificate authority: trusted once by hand, it signs a server certificate that also has Apple's host names, so
// that a sender needs another address and another CA file, and nothing else. The authority's key can sign for any
// host name, so it stays in a folder that only its owner can enter, and pathlen 0 lets nobody sign further authorities.

import COpenSSL
import Foundation

/// The development certificate authority and the server certificate, in a folder: made on first use, then kept.
public struct DevelopmentAuthority: Sendable {
  /// Files that can't be used or written, and what to do.
  public struct Failure: Error, CustomStringConvertible {
    /// What is wrong, where, and what to do.
    public let description: String
  }

  /// What was done with the server certificate.
  public enum Outcome: String, Sendable {
    /// Everything was there and good.
    case kept
    /// The authority is new.
    case created
    /// The authority was there; the server certificate is new.
    case renewed
  }

  /// The folder.
  public let folder: String
  /// What was done.
  public let outcome: Outcome
  /// SHA-256 of the authority's certificate, `AB:CD:…`.
  public let fingerprint: String
  /// The last second in which the authority's certificate is good.
  public let authorityExpires: Date
  /// The last second in which the server's certificate is good.
  public let certificateExpires: Date
  /// The names and addresses that the server's certificate is for.
  public let names: [String]
  /// What is not as it should be, though it works: one sentence each.
  public let notes: [String]

  /// The authority's certificate, which clients trust.
  public var authorityPath: String { path(Self.authorityFile) }
  /// The server's certificate and the authority's, as a TLS server sends them.
  public var certificatePath: String { path(Self.certificateFile) }
  /// The server's private key.
  public var keyPath: String { path(Self.keyFile) }

  /// Apple's host names for sending, and for managing channels.
  public static let appleNames = [
    "api.push.apple.com", "api.sandbox.push.apple.com", "api.development.push.apple.com",
    "api-manage-broadcast.push.apple.com", "api-manage-broadcast.sandbox.push.apple.com",
  ]

  /// Days for which an authority is good.
  public static let authorityDays: Double = 3_650
  /// Days for which a server certificate is good: browsers take no more than 398.
  public static let certificateDays: Double = 397
  /// Days before its end from which on a server certificate is made anew.
  public static let renewalDays: Double = 30

  private static let authorityFile = "ca.pem"
  private static let authorityKeyFile = "ca-key.pem"
  private static let certificateFile = "server.pem"
  private static let keyFile = "server-key.pem"
  private static let day: Double = 86_400
  /// How far a new certificate reaches back, for clients whose clock is behind.
  private static let backdated: Double = 3_600

  /// Where the files are when nobody says otherwise.
  ///
  /// - Parameters:
  ///   - store: the store's file; nil or `memory` when there is none.
  ///   - environment: for `XDG_DATA_HOME` and `HOME` (XDG Base Directory Specification: a relative path doesn't count).
  /// - Returns: `touchline-tls` beside the store's file, otherwise `touchline/tls` in the user's data folder, or
  ///   `touchline-tls` in the current folder for a user without a home.
  public static func standardFolder(store: String?, environment: [String: String]) -> String {
    if let store, !store.isEmpty, store != "memory" {
      guard let slash = store.lastIndex(of: "/") else { return "touchline-tls" }
      return "\(store[...slash])touchline-tls"
    }
    if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") { return "\(data)/touchline/tls" }
    if let home = environment["HOME"], home.hasPrefix("/") { return "\(home)/.local/share/touchline/tls" }
    return "touchline-tls"
  }

  /// The name of this machine.
  public static var machineName: String { ProcessInfo.processInfo.hostName }

  /// Takes the files of a folder, making what isn't there.
  ///
  /// The server certificate is made anew when it has under ``renewalDays`` left, when the names changed, or when it is
  /// missing; the authority stays, so that whoever trusts it goes on doing so. A file that can't be read is an error, and
  /// is never overwritten. Two programs that start at once wait for each other.
  ///
  /// - Parameter hostName: the machine's name, for which the certificate is too.
  public init(folder: String, hostName: String = Self.machineName, now: Date) throws(Failure) {
    self.folder = folder
    names = Self.names(hostName: hostName)
    let lock: FolderLock
    do throws(FileAccess.Failure) {
      try FileAccess.makePrivateFolder(folder)
      lock = try FolderLock(folder)
    } catch {
      throw Failure(description: "\(error)")
    }
    let files = AuthorityFiles(folder: folder)
    defer { withExtendedLifetime(lock) {} }
    let (authority, isNew) = try Self.authority(files, hostName: hostName, now: now)
    let (certificate, isKept) = try Self.certificate(files, authority, names: names, now: now)
    guard let authorityEnd = authority.certificate.until, let end = certificate.until else {
      throw Failure(
        description: "\(folder): a certificate has no date that can be read; \(Self.startOver(folder))")
    }
    outcome = isNew ? .created : isKept ? .kept : .renewed
    fingerprint = authority.certificate.fingerprint
    authorityExpires = authorityEnd
    certificateExpires = end
    notes = [Self.authorityKeyFile, Self.keyFile].map(files.path).filter(FileAccess.isOpenToOthers)
      .map { "\($0): others on this machine can read this private key; chmod 600 it" }
  }

  private func path(_ name: String) -> String { AuthorityFiles(folder: folder).path(name) }

  // MARK: The authority

  private typealias Issuer = (certificate: Certificate, key: KeyHandle)

  private static func authority(
    _ files: AuthorityFiles, hostName: String, now: Date
  ) throws(Failure) -> (Issuer, isNew: Bool) {
    guard let pem = try files.read(authorityFile) else {
      return (try makeAuthority(files, hostName: hostName, now: now), true)
    }
    let path = files.path(authorityFile)
    guard let certificate = Certificate(pem: pem), let start = certificate.from,
      let end = certificate.until
    else {
      throw Failure(description: "\(path) holds no certificate that can be read; \(startOver(files.folder))")
    }
    guard certificate.isAuthority else {
      throw Failure(
        description:
          "\(path) is no authority's certificate; move it away, or give the server's own with --tls-cert and --tls-key"
      )
    }
    guard start <= now else {
      throw Failure(
        description:
          "\(path) is good from \(start.formatted(.iso8601)) on, which has yet to come; set this machine's clock, or \(startOver(files.folder))"
      )
    }
    guard end > now else {
      throw Failure(description: "\(path) ended on \(end.formatted(.iso8601)); \(startOver(files.folder))")
    }
    guard let key = try files.key(authorityKeyFile) else {
      throw Failure(
        description:
          "\(files.path(authorityKeyFile)) is missing beside ca.pem; put it back, or \(startOver(files.folder))"
      )
    }
    guard certificate.belongs(to: key) else {
      throw Failure(
        description:
          "\(files.path(authorityKeyFile)) is not the key of ca.pem; put the right one back, or \(startOver(files.folder))"
      )
    }
    return ((certificate, key), false)
  }

  /// The key is written first. If the program ends between the two files, the next one goes on with that key.
  private static func makeAuthority(_ files: AuthorityFiles, hostName: String, now: Date) throws(Failure)
    -> Issuer
  {
    let key = try files.keyOrNew(authorityKeyFile)
    let from = now.addingTimeInterval(-backdated)
    let content = Certificate.Content(
      commonName: "Touchline development CA \(hostName)", from: from,
      until: from.addingTimeInterval(authorityDays * day),
      extensions: [
        (NID_basic_constraints, "critical,CA:TRUE,pathlen:0"),
        (NID_key_usage, "critical,keyCertSign,cRLSign"),
        (NID_subject_key_identifier, "hash"),
      ])
    guard let certificate = Certificate.make(content, for: key, issuer: nil), let pem = certificate.pem else {
      throw Failure(description: "OpenSSL can't make the authority's certificate")
    }
    try files.write(pem, authorityFile, mode: 0o644)
    return (certificate, key)
  }

  // MARK: The server's certificate

  private static func certificate(
    _ files: AuthorityFiles, _ authority: Issuer, names: [String], now: Date
  ) throws(Failure) -> (Certificate, isKept: Bool) {
    let path = files.path(certificateFile)
    var old: Certificate?
    if let pem = try files.read(certificateFile) {
      guard let certificate = Certificate(pem: pem), certificate.until != nil else {
        throw Failure(
          description: "\(path) holds no certificate that can be read; delete it, and a new one is made")
      }
      guard certificate.isIssued(by: authority.certificate) else {
        throw Failure(
          description:
            "\(path) is not issued by ca.pem; move it away, or give it with --tls-cert and --tls-key"
        )
      }
      old = certificate
    }
    let oldKey = try files.key(keyFile)
    if let old, let oldKey, let start = old.from, let end = old.until, old.belongs(to: oldKey), start <= now,
      end.timeIntervalSince(now) >= renewalDays * day,
      old.hasExtension(NID_subject_alt_name, alternatives(names))
    {
      return (old, true)
    }
    // The key stays: then one file alone changes, and no program ever finds a certificate with another one's key.
    let key = try files.keyOrNew(keyFile)
    let from = now.addingTimeInterval(-backdated)
    let content = Certificate.Content(
      commonName: "Touchline development server", from: from,
      until: min(from.addingTimeInterval(certificateDays * day), authority.certificate.until ?? .distantPast),
      extensions: [
        (NID_basic_constraints, "critical,CA:FALSE"), (NID_key_usage, "critical,digitalSignature"),
        (NID_ext_key_usage, "serverAuth"), (NID_subject_key_identifier, "hash"),
        (NID_authority_key_identifier, "keyid:always"), (NID_subject_alt_name, alternatives(names)),
      ])
    guard let made = Certificate.make(content, for: key, issuer: authority), let pem = made.pem,
      let authorityPEM = authority.certificate.pem
    else {
      throw Failure(description: "OpenSSL can't make the server's certificate")
    }
    try files.write(pem + authorityPEM, certificateFile, mode: 0o644)
    return (made, false)
  }

  private static func names(hostName: String) -> [String] {
    var names = ["localhost", "127.0.0.1", "::1"]
    // A name that is none could say anything in the list that OpenSSL reads.
    let isName =
      !hostName.isEmpty && hostName.utf8.count <= 253
      && hostName.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == ".") }
    if isName, !names.contains(hostName.lowercased()) { names.append(hostName.lowercased()) }
    return names + appleNames
  }

  private static func alternatives(_ names: [String]) -> String {
    names.map { name in
      let isAddress = name.contains(":") || name.allSatisfy { $0.isNumber || $0 == "." }
      return (isAddress ? "IP:" : "DNS:") + name
    }.joined(separator: ",")
  }

  private static func startOver(_ folder: String) -> String {
    "to start over, move the folder \(folder) away and trust the new ca.pem that is then made"
  }
}
