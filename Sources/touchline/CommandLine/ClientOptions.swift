import BroadcastClient
import EventLoop
import Foundation
import MatchScripts

/// The options that every client command takes.
enum ClientOptions {
  static let server = Option(
    "--server", "URL", "where the server is (default http://127.0.0.1:8080, or TOUCHLINE_SERVER)")
  static let format = Option(
    "--format", "plain|json", "for a person, or one JSON object a line (default plain)")

  /// Where the server is.
  static func server(_ arguments: Arguments) throws(UsageError) -> ServerAddress {
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
