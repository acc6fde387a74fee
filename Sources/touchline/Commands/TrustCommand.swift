import BroadcastChannels
import Credentials
import Foundation

/// `touchline trust`: the development certificate authority, and how senders trust it.
enum TrustCommand: Command {
  static let usage = CommandUsage(
    name: "trust", synopsis: "[--tls-dir DIR | --store PATH] [--format plain|json]",
    summary: "Show the development CA and how a sender trusts it.",
    options: [
      Option("--tls-dir", "DIR", "the folder of the certificates"),
      Option(
        "--store", "PATH|memory", "the server's store: the certificates are in touchline-tls beside its file"),
      ClientOptions.format,
    ],
    notes: """
      Makes the CA and a server certificate when there are none, as 'serve' does. Without options the folder is
      $XDG_DATA_HOME/touchline/tls, or ~/.local/share/touchline/tls. The certificate is for this machine and for Apple's
      host names; ca-key.pem can sign for any name, so it must stay on this machine.
      """,
    examples: [
      "touchline trust",
      "touchline trust --store channels.sqlite",
      "curl --cacert \"$(touchline trust --format json | jq -r .ca)\" https://localhost:8443/v1/channels",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.positional(0...0, "no argument")
    guard !arguments.has("--tls-dir") || !arguments.has("--store") else {
      throw arguments.error("--tls-dir and --store don't go together")
    }
    let isJSON = try ClientOptions.isJSON(arguments)
    for name in ["--tls-dir", "--store"] where arguments[name]?.isEmpty == true {
      throw arguments.error("\(name) is empty; a path was expected")
    }
    let folder =
      arguments["--tls-dir"]
      ?? DevelopmentAuthority.standardFolder(
        store: arguments["--store"], environment: ProcessInfo.processInfo.environment)
    // Absolute, so that what is printed works in any folder.
    let path = URL(fileURLWithPath: folder).standardizedFileURL.path
    let authority = try DevelopmentAuthority(folder: path, now: Date())
    switch authority.outcome {
    case .created: Console.note("made a new certificate authority in \(path)")
    case .renewed: Console.note("made a new server certificate; the authority is the same")
    case .kept: break
    }
    for note in authority.notes { Console.note("note: \(note)") }
    Console.print(isJSON ? json(authority) : plain(authority))
    return 0
  }

  private static func json(_ authority: DevelopmentAuthority) -> String {
    JSONWriter.object([
      "ca": JSONWriter.quoted(authority.authorityPath), "sha256": JSONWriter.quoted(authority.fingerprint),
      "ca-ends": JSONWriter.seconds(authority.authorityExpires.timeIntervalSince1970),
      "certificate": JSONWriter.quoted(authority.certificatePath),
      "key": JSONWriter.quoted(authority.keyPath),
      "certificate-ends": JSONWriter.seconds(authority.certificateExpires.timeIntervalSince1970),
      "names": "[\(authority.names.map(JSONWriter.quoted).joined(separator: ","))]",
    ])
  }

  private static func plain(_ authority: DevelopmentAuthority) -> String {
    let ca = shellQuoted(authority.authorityPath)
    let apple = DevelopmentAuthority.appleNames
    return """
      CA           \(authority.authorityPath)
      SHA-256      \(authority.fingerprint)
      good until   \(authority.authorityExpires.formatted(.iso8601))
      certificate  \(authority.certificatePath), until \(authority.certificateExpires.formatted(.iso8601))
      names        \(authority.names.joined(separator: ", "))

      A sender trusts it with
        curl       --cacert \(ca)
        Python     SSL_CERT_FILE=\(ca) python3 sender.py    (httpx and ssl; or ssl.create_default_context(cafile=…))
        Node       NODE_EXTRA_CA_CERTS=\(ca) node sender.mjs
        Go         SSL_CERT_FILE=\(ca) go run .             (on Linux)
      SSL_CERT_FILE replaces the system's authorities for that program.

      A sender that can only speak to Apple's host names comes here with
        curl       --connect-to \(apple[1]):443:127.0.0.1:8443
        others     a line in /etc/hosts, removed again afterwards:
                   127.0.0.1 \(apple.joined(separator: " "))
                   and 'serve --provider-listen 127.0.0.1:443', or 2197 where the sender can use Apple's other port
      """
  }

  /// A path as one word of a shell.
  private static func shellQuoted(_ path: String) -> String {
    let isPlain = path.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/._-+".contains($0)) }
    return isPlain ? path : "'\(path.replacing("'", with: "'\\''"))'"
  }
}
