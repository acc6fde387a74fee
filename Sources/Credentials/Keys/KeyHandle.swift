// Why: a key of OpenSSL (EVP_PKEY) is freed by hand and may be of any algorithm. This class owns one, and lets only
// P-256 through, the curve of ES256 (RFC 7518, 3.4). Everything that a person can put in a key file by mistake has
// its own sentence: with OpenSSL's own words ("no start line", "unsupported") nobody mends a file.

import BroadcastChannels
import COpenSSL

/// A key that can't be used.
public struct KeyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The file, or what else the key was read from.
  public let source: String
  /// What is wrong and what was expected. Never part of the key.
  public let message: String

  /// The file and what is wrong with it.
  public var description: String { "\(source): \(message)" }
}

/// Owns an EVP_PKEY on P-256. It never changes once it is made.
final class KeyHandle {
  let pointer: OpaquePointer

  private init(owning pointer: OpaquePointer) { self.pointer = pointer }

  deinit { EVP_PKEY_free(pointer) }

  /// Makes a new private key.
  ///
  /// - Returns: nil when OpenSSL has no random numbers, or no memory.
  static func generate() -> KeyHandle? {
    defer { ERR_clear_error() }
    guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { return nil }
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_group_name(context, "P-256") == 1,
      EVP_PKEY_generate(context, &key) == 1, let key
    else { return nil }
    return KeyHandle(owning: key)
  }

  /// Which half of a key a text holds.
  enum Half {
    case secret
    case open
  }

  /// Reads PEM.
  static func read(pem: [UInt8], source: String) throws(KeyError) -> (key: KeyHandle, half: Half) {
    func wrong(_ message: String) -> KeyError { KeyError(source: source, message: message) }
    let half = try half(of: pem, source: source)
    let pointer = OpenSSLMemory.reading(pem) { bio in
      switch half {
      case .secret: PEM_read_bio_PrivateKey(bio, nil, refusePassword, nil)
      case .open: PEM_read_bio_PUBKEY(bio, nil, refusePassword, nil)
      }
    }
    guard let pointer else {
      throw wrong("the PEM text holds no key that can be read; is it cut short, or changed by an editor?")
    }
    let key = KeyHandle(owning: pointer)
    let type = EVP_PKEY_get0_type_name(pointer).map { String(cString: $0) } ?? "unknown"
    guard type == "EC" else {
      throw wrong("holds a key of the type \(type); an elliptic-curve key on P-256 (ES256) was expected")
    }
    guard let curve = key.curve, curve == "prime256v1" else {
      throw wrong(
        "holds a key on the curve \(key.curve ?? "with parameters of its own"); P-256 (prime256v1) was expected"
      )
    }
    guard half == .open || key.isWhole else {
      throw wrong("holds a private key whose two halves don't belong together; is the file damaged?")
    }
    return (key, half)
  }

  /// Whether the private half belongs to the public one: reading takes both as they stand (EVP_PKEY_pairwise_check(3)).
  private var isWhole: Bool {
    defer { ERR_clear_error() }
    guard let context = EVP_PKEY_CTX_new_from_pkey(nil, pointer, nil) else { return false }
    defer { EVP_PKEY_CTX_free(context) }
    return EVP_PKEY_pairwise_check(context) == 1
  }

  /// The curve in OpenSSL's name for it.
  private var curve: String? {
    defer { ERR_clear_error() }
    var name = [CChar](repeating: 0, count: 64)
    var length = 0
    guard EVP_PKEY_get_group_name(pointer, &name, name.count, &length) == 1 else { return nil }
    return String(decoding: name.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Finds out from the labels what a text holds (RFC 7468).
  private static func half(of pem: [UInt8], source: String) throws(KeyError) -> Half {
    func wrong(_ message: String) -> KeyError { KeyError(source: source, message: message) }
    guard !pem.isEmpty else { throw wrong("is empty; a key in PEM was expected") }
    guard pem.count <= Limits.keyFileBytes else {
      throw wrong("has more than \(Limits.keyFileBytes) bytes; that is no key")
    }
    let text = String(decoding: pem, as: UTF8.self)
    let labels = text.split(whereSeparator: \.isNewline).compactMap { line -> Substring? in
      let line = line.trimmingSuffix(while: \.isWhitespace)
      guard line.hasPrefix("-----BEGIN "), line.hasSuffix("-----"), line.count > 16 else { return nil }
      return line.dropFirst(11).dropLast(5)
    }
    let keys = labels.filter { $0.hasSuffix("KEY") }
    guard keys.count <= 1 else { throw wrong("holds \(keys.count) keys; one was expected") }
    switch keys.first {
    case "PRIVATE KEY", "EC PRIVATE KEY":
      guard !text.contains("ENCRYPTED") else { throw wrong(encrypted) }
      return .secret
    case "PUBLIC KEY": return .open
    case "ENCRYPTED PRIVATE KEY": throw wrong(encrypted)
    case "RSA PRIVATE KEY", "RSA PUBLIC KEY":
      throw wrong("holds an RSA key; an elliptic-curve key on P-256 (ES256) was expected")
    case .some(let label): throw wrong("holds a \(label.prefix(40)); a key on P-256 in PEM was expected")
    case nil: break
    }
    switch labels.first {
    case "CERTIFICATE":
      throw wrong("holds a certificate; a key was expected (openssl x509 -pubkey -noout takes it out)")
    case .some(let label): throw wrong("holds \(label.prefix(40)) and no key; a key in PEM was expected")
    case nil:
      throw wrong("is not PEM: it has no line \"-----BEGIN PRIVATE KEY-----\" or \"… PUBLIC KEY-----\"")
    }
  }

  private static let encrypted =
    "holds an encrypted key; take the password off with: openssl pkcs8 -topk8 -nocrypt -in FILE -out NEW"
}

extension Substring {
  fileprivate func trimmingSuffix(while isTrimmed: (Character) -> Bool) -> Substring {
    var text = self
    while let last = text.last, isTrimmed(last) { text.removeLast() }
    return text
  }
}
