import Foundation
import TestSupport
import Testing

/// The versions of HTTP that the provider API speaks, each on its own port.
enum HTTPVersion: String, CaseIterable, CustomTestStringConvertible {
  case one = "HTTP/1.1"
  case two = "HTTP/2"

  var testDescription: String { rawValue }

  private struct Work: Encodable {
    let base: String
    let ca: String
    let http2: Bool
    let keys: [String: String]
    let connections: [[Ask]]
  }

  /// Sends lists of requests, each over one connection, by a client that isn't ours.
  ///
  /// - Parameter deviceTokens: what is put in the place of `{live}`, `{ended}` and `{gone}`.
  func ask(
    _ server: ProviderServer, _ connections: [[Ask]], deviceTokens: [String: String] = [:]
  ) async throws -> [[SeenAnswer]] {
    let (own, other) = (server.key, server.otherKey)
    let filled = connections.map { asks in
      asks.map { ask in
        var filled = ask
        for (name, token) in deviceTokens {
          filled.path = filled.path.replacingOccurrences(of: "{\(name)}", with: token)
        }
        if ask.token == nil, !ask.isWithoutToken { filled.token = .init(keyID: own.id, team: own.team) }
        return filled
      }
    }
    let work = Work(
      base: self == .one ? "http://127.0.0.1:\(server.port)" : "https://127.0.0.1:\(server.providerPort)",
      ca: server.authority, http2: self == .two, keys: [own.id: own.file, other.id: other.file],
      connections: filled)
    let output = try await Sender.python("ask.py", [], input: try JSONEncoder().encode(work))
    return try JSONDecoder().decode([[SeenAnswer]].self, from: output)
  }
}

@Suite("Every documented reason, over HTTP/1.1 and HTTP/2")
struct ReasonTests {
  private static let channels = [
    "final": openChannel,
    "rivals": #"{"app": "com.example.rivals"}"#,
    "slow": #"{"app": "com.example.scores", "publish-rate": {"per-second": 0.01, "burst": 1}}"#,
  ]

  private func check(
    _ rows: [Refused], _ server: ProviderServer, _ version: HTTPVersion,
    _ deviceTokens: [String: String] = [:]
  ) async throws {
    let answers = try await version.ask(server, rows.map(\.asks), deviceTokens: deviceTokens)
    try #require(answers.count == rows.count)
    for (row, seen) in zip(rows, answers) {
      let answer = try #require(seen.last)
      let told: Comment =
        "\(row.testDescription) over \(version.rawValue), not \(answer.status) \(answer.body)"
      #expect(answer.http == version.rawValue, told)
      #expect(seen.dropLast().allSatisfy { $0.status < 300 }, told)
      #expect(answer.status == row.status, told)
      let body = try JSONDecoder().decode(Body.self, from: Data(answer.body.utf8))
      #expect(body.reason == row.reason, told)
      // Since when, in milliseconds: Apple sends it with 410 alone.
      #expect((body.timestamp != nil) == (row.status == 410), told)
      #expect(answer.headers["content-type"] == "application/json", told)
      #expect(answer.headers["touchline-detail"]?.isEmpty == false, told)
      #expect((answer.headers["retry-after"] != nil) == (row.reason == "TooManyRequests"), told)
      let id = row.asks.last?.path.hasPrefix("/3/") == true ? "apns-id" : "apns-request-id"
      #expect(UUID(uuidString: answer.headers[id] ?? "") != nil, told)
    }
  }

  private struct Body: Decodable {
    let reason: String
    let timestamp: Int?
  }

  @Test("channel management is refused with its reason", arguments: HTTPVersion.allCases)
  func channels(_ version: HTTPVersion) async throws {
    try await withProviderServer(channels: Self.channels) { server in
      try await check(Refused.channels, server, version)
    }
  }

  @Test("a broadcast is refused with its reason", arguments: HTTPVersion.allCases)
  func broadcasts(_ version: HTTPVersion) async throws {
    try await withProviderServer(channels: Self.channels) { server in
      try await check(Refused.broadcasts, server, version)
      #expect(try await server.counts("final")["accepted"] == 0)
    }
  }

  @Test("a provider token is refused with its reason", arguments: HTTPVersion.allCases)
  func tokens(_ version: HTTPVersion) async throws {
    try await withProviderServer(channels: Self.channels) { server in
      try await check(Refused.tokens(server), server, version)
    }
  }

  @Test("a push to one activity is refused with its reason", arguments: HTTPVersion.allCases)
  func devices(_ version: HTTPVersion) async throws {
    try await withProviderServer(channels: Self.channels) { server in
      let live = try await WatchedActivity(server, "final")
      let ended = try await WatchedActivity(server, "slow").endedToken(server)
      let gone = try await WatchedActivity(server, "slow").switchedOffToken(server)
      let tokens = ["live": live.token, "ended": ended, "gone": gone]
      try await check(Refused.devices(server), server, version, tokens)
    }
  }

  @Test("a strict server refuses what real senders do all the same", arguments: HTTPVersion.allCases)
  func strict(_ version: HTTPVersion) async throws {
    try await withProviderServer(channels: Self.channels, options: ["--strict"]) { server in
      try await check(Refused.strict(server), server, version)
    }
  }
}
