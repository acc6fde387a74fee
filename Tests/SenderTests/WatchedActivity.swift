import Foundation
import TestSupport
import Testing

/// `touchline watch --push-token`: a simulated activity, with the token that pushes reach it by.
struct WatchedActivity {
  /// A line of `watch --format json`.
  struct Line: Decodable {
    let cause: String
    let token: String?
    /// "push" for what came to the activity alone.
    let by: String?
    let contentState: [String: Int]?

    private enum CodingKeys: String, CodingKey {
      case cause, token, by
      case contentState = "content-state"
    }
  }

  let watch: RunningProgram
  let token: String

  /// Starts watching a channel, and waits for the token.
  init(_ server: ProviderServer, _ channel: String) async throws {
    watch = try Touchline.start(
      ["watch", channel, "--push-token", "--format", "json"],
      environment: ["TOUCHLINE_SERVER": "http://127.0.0.1:\(server.port)"])
    token = try #require(try await Self.line(cause: "push-token", of: watch).token)
  }

  /// The first line with a cause.
  func line(cause: String) async throws -> Line { try await Self.line(cause: cause, of: watch) }

  private static func line(cause: String, of watch: RunningProgram) async throws -> Line {
    try await eventually("\(cause) of \(watch.output.text)\(watch.errors.text)") {
      try watch.output.lines.map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
        .first { $0.cause == cause }
    }
  }

  /// Ends the activity by its channel, and gives its token once the server knows that nobody listens to it.
  func endedToken(_ server: ProviderServer) async throws -> String {
    let end = Ask.push.at("/3/device/\(token)")
      .body(#"{"aps":{"timestamp":1700000000,"event":"end","content-state":{"home":2,"away":1}}}"#)
    try #require(try await HTTPVersion.two.ask(server, [[end]])[0][0].status == 200)
    _ = try await line(cause: "end")
    return try await tokenOnceGone(server)
  }

  /// Switches the device off, and gives its token once the server knows that nobody listens to it.
  func switchedOffToken(_ server: ProviderServer) async throws -> String {
    watch.signal(SIGTERM)
    try #require(try await watch.ending().code == 0)
    return try await tokenOnceGone(server)
  }

  /// The device tells the server on a connection of its own: pushes to it are accepted until that came.
  private func tokenOnceGone(_ server: ProviderServer) async throws -> String {
    let push = Ask.push.at("/3/device/\(token)")
    for _ in 0..<100 where try await HTTPVersion.two.ask(server, [[push]])[0][0].status == 410 {
      return token
    }
    throw WaitedInVain(for: "410 for the token of an activity that is no more", "it is still accepted")
  }
}
