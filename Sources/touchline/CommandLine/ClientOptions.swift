import BroadcastClient
import Credentials
import EventLoop
import Foundation
import MatchScripts

/// The options that every client command takes.
enum ClientOptions {
  static let server = Option(
    "--server", "URL", "where the server is (default http://127.0.0.1:8080, or TOUCHLINE_SERVER)")
  /// Where the server is, and how to get in.
  static let access = [
    server,
    Option("--ca", "FILE", "trust these authorities of an https server (default: the system's and our own)"),
    Option("--key", "FILE", "make provider tokens with this key, AuthKey_<key id>.p8 (or TOUCHLINE_KEY)"),
    Option("--team", "TEAM", "the key's team (default: what teams.json beside the key says)"),
    Option("--token-file", "FILE", "show the token in this file (or TOUCHLINE_TOKEN, the token itself)"),
  ]
  static let format = Option(
    "--format", "plain|json", "for a person, or one JSON object a line (default plain)")

  /// Where the server is, and how to get in.
  static func server(_ arguments: Arguments) throws -> ServerAccess {
    var access = try strangersAccess(arguments)
    access.credential = try credential(arguments)
    return access
  }

  /// Where the server is, for somebody who shows nothing.
  static func strangersAccess(_ arguments: Arguments) throws(UsageError) -> ServerAccess {
    let address = try address(arguments)
    return ServerAccess(address, tls: address.isSecure ? trust(arguments) : ClientTLS())
  }

  /// Where the server is.
  static func address(_ arguments: Arguments) throws(UsageError) -> ServerAddress {
    if let address = try arguments.value("--server", ServerAddress.rule, { ServerAddress($0) }) {
      return address
    }
    guard let text = ProcessInfo.processInfo.environment["TOUCHLINE_SERVER"], !text.isEmpty else {
      return .standard
    }
    guard let address = ServerAddress(text) else {
      throw arguments.error("TOUCHLINE_SERVER is \"\(text)\"; \(ServerAddress.rule) was expected")
    }
    return address
  }

  /// Whom an https server is trusted by. A server on this machine has a certificate of the development authority.
  private static func trust(_ arguments: Arguments) -> ClientTLS {
    if let path = arguments["--ca"] ?? environment("TOUCHLINE_CA") {
      return ClientTLS(authority: .file(path))
    }
    let folder = DevelopmentAuthority.standardFolder(
      store: nil, environment: ProcessInfo.processInfo.environment)
    let own = "\(folder)/ca.pem"
    return ClientTLS(authority: FileManager.default.fileExists(atPath: own) ? .file(own) : nil)
  }

  private static func credential(_ arguments: Arguments) throws -> ClientCredential? {
    if arguments.has("--key"), arguments.has("--token-file") {
      throw arguments.error("--key and --token-file don't go together")
    }
    if let path = arguments["--token-file"] { return ClientCredential(file: path) { try Files.read(path) } }
    if let path = arguments["--key"] ?? environment("TOUCHLINE_KEY") {
      let signer = try ProviderKey(file: path, arguments)
      return ClientCredential(key: signer.key, keyID: signer.keyID, team: signer.team)
    }
    return environment("TOUCHLINE_TOKEN").map { ClientCredential(token: $0) }
  }

  /// The environment variables of the client commands.
  static let environmentHelp = [
    (name: "TOUCHLINE_SERVER", help: "where the server is, when --server doesn't say"),
    (name: "TOUCHLINE_CA", help: "the authorities to trust, when --ca doesn't say"),
    (name: "TOUCHLINE_KEY", help: "the key to make tokens with, when --key doesn't say"),
    (name: "TOUCHLINE_TOKEN", help: "the token itself, when --token-file and --key don't say"),
  ]
  /// Their names.
  static let variables = Set(environmentHelp.map(\.name))

  /// What a variable says; nil when it is empty.
  static func environment(_ name: String) -> String? {
    ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Whether JSON is asked for.
  static func isJSON(_ arguments: Arguments) throws(UsageError) -> Bool {
    try arguments.value("--format", "plain or json") { ["plain": false, "json": true][$0] } ?? false
  }

  /// How long a message is tried again.
  static func patience(_ arguments: Arguments) throws(UsageError) -> Double {
    try arguments.value("--retry-for", "\(DurationText.rule), not below 0,") { text in
      DurationText.seconds(text).flatMap { $0 >= 0 ? $0 : nil }
    } ?? 60
  }

  /// A duration, such as `90s` or `2m`.
  static func duration(_ name: String, _ arguments: Arguments) throws(UsageError) -> Double? {
    try arguments.value(name, DurationText.rule) { DurationText.seconds($0) }
  }
}

/// Runs a client on a loop of its own until it says how it ended.
final class ClientRun {
  let loop: EventLoop
  private var outcome: Result<Int32, CommandFailure> = .success(0)
  private var isFinished = false

  init() throws(CommandFailure) {
    do {
      loop = try EventLoop()
    } catch {
      throw CommandFailure("\(error)")
    }
  }

  /// Ends the run with an exit code. What comes later counts no more.
  func finish(_ code: Int32) { finish(.success(code)) }

  /// Ends the run with a failure.
  func fail(_ message: String) { finish(.failure(CommandFailure(message))) }

  private func finish(_ result: Result<Int32, CommandFailure>) {
    guard !isFinished else { return }
    isFinished = true
    outcome = result
    // Not at once: what was just sent, such as a close frame, goes out first.
    loop.schedule(after: 0.02) { [loop] in loop.stop() }
  }

  /// Runs until the end.
  func run() throws(CommandFailure) -> Int32 {
    loop.run()
    return try outcome.get()
  }
}
