import Foundation
import TestSupport
import Testing

@Suite("publish")
struct PublishTests {
  /// An event of the stream, as curl gets it.
  private struct Event: Decodable {
    struct Aps: Decodable {
      struct Alert: Decodable, Equatable { let title, body, sound: String? }
      let timestamp: Int
      let event: String
      let contentState: [String: Int]?
      let staleDate, dismissalDate: Int?
      let relevanceScore: Double?
      let alert: Alert?
    }
    let priority: Int
    let seq: Int
    let aps: Aps
  }

  /// Follows a channel as server-sent events.
  private func curl(_ server: Server, _ channel: String) async throws -> RunningProgram {
    let curl = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/curl"), ["-sN", "\(server.address)/v1/channels/\(channel)/events"])
    _ = try await eventually("the stream") { curl.output.text.contains("event: subscribed") ? () : nil }
    return curl
  }

  private func events(_ curl: RunningProgram, _ count: Int) async throws -> [Event] {
    try await eventually("event \(count) of \(curl.output.text)") {
      let data = curl.output.lines.filter { $0.hasPrefix("data: ") && $0.contains("\"aps\"") }
      guard data.count >= count else { return nil }
      return try data.map { try decoded(String($0.dropFirst(6))) }
    }
  }

  @Test("flags become the aps object that a subscriber gets")
  func flags() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let stream = try await curl(server, "final")
      let before = Int(Date().timeIntervalSince1970)
      let update = try await server.succeed(
        "publish", "final", "--state", #"{"home": 1, "away": 0}"#, "--stale-in", "2m", "--relevance", "75.5",
        "--alert-title", "Goal!", "--alert-body", "Messi, 23′", "--sound", "default", "--priority", "10")
      #expect(update.output.hasPrefix("delivered ") && update.lines.count == 1)
      try await server.succeed(
        "publish", "final", "--state", #"{"home":1}"#, "--stale-at", "2030-01-01T00:00:00Z", "--priority", "5"
      )
      // Before the end would take the place of what still waits in its window.
      _ = try await events(stream, 2)
      try await server.succeed("publish", "final", "--event", "end", "--dismiss-in", "15m")
      let events = try await events(stream, 3)
      let after = Int(Date().timeIntervalSince1970) + 1

      let goal = events[0].aps
      #expect((before...after).contains(goal.timestamp))
      #expect(goal.event == "update" && goal.contentState == ["home": 1, "away": 0])
      #expect((before + 120...after + 120).contains(try #require(goal.staleDate)))
      #expect(goal.relevanceScore == 75.5)
      #expect(goal.alert == .init(title: "Goal!", body: "Messi, 23′", sound: "default"))
      #expect(events.map(\.priority) == [10, 5, 10])
      // 2030-01-01T00:00:00Z in Unix seconds.
      #expect(events[1].aps.staleDate == 1_893_456_000 && events[1].aps.alert == nil)
      let end = events[2].aps
      #expect(end.event == "end" && end.contentState == nil)
      #expect((before + 900...after + 900).contains(try #require(end.dismissalDate)))
    }
  }

  @Test("the state comes from the argument, a file or standard input, and --format json tells everything")
  func stateSources() async throws {
    try await withFolder(["state.json": "{\"n\":\n 2}\n"]) { folder in
      try await withServer { server in
        try await server.succeed("channel", "create", "final")
        let watch = try await server.watch("final")
        try await server.succeed("publish", "final", "--state", #"{"n":1}"#)
        try await server.succeed("publish", "final", "--state", "@" + folder.path("state.json"))
        let json = try await server.succeed(
          "publish", "final", "--state", "-", "--format", "json", input: Array(#"{"n": 3}"#.utf8))
        let answer: AnsweredLine = try decoded(json.output)
        #expect(answer.outcome == "delivered" && answer.uniqueId != nil && answer.line == nil)
        let lines: [WatchedLine] = try await watch.lines(3).map { try decoded($0) }
        #expect(lines.map(\.contentState) == [["n": 1], ["n": 2], ["n": 3]])

        for (text, message) in [
          ("@/nowhere.json", "/nowhere.json: there is no such file"),
          ("@" + folder.url.path, "is a folder; a file was expected"), ("-", "-: not JSON: line 1, column 1"),
        ] {
          let ending = try await server.run("publish", "final", "--state", text)
          #expect(ending.code == 1)
          #expect(ending.errors.contains(message), "\(ending.errors)")
        }
      }
    }
  }

  @Test("a refused message is told with the reason, exit 1")
  func refused() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let large = #"{"text":""# + String(repeating: "x", count: 6_000) + "\"}"
      for (words, message) in [
        (["finl", "--state", "{}"], "did you mean \"final\"?"),
        (["final", "--state", large], "PayloadTooLarge: the payload is "),
        (["final", "--state", "{}", "--expires-in", "1h"], "BadExpirationDate: "),
      ] {
        let ending = try await Touchline.run(["publish", "--server", server.address] + words)
        #expect(ending.code == 1)
        #expect(ending.errors.contains(message), "\(ending.errors)")
      }
    }
  }
}
