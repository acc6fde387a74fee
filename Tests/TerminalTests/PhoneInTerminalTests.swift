import Foundation
import LiveActivities
import Testing

/// The real program in a real terminal. tmux is the terminal: what it shows is what a person would see.
@Suite(.serialized, .timeLimit(.minutes(5))) struct PhoneInTerminalTests {
  static let match = """
    {"app": "com.example.scores", "content-state": {"home": "Int", "away": "Int"},
     "presentations": {"lock-screen": "Zu\\u0308rich {home}–{away} 日本\\nالمغرب 👩‍👩‍👧 👍🏽 ❤️ 🇦🇷", "banner": "{home}–{away}",
       "compact-leading": "🇨🇭", "compact-trailing": "{home}–{away}", "minimal": "{home}", "small": "{home}–{away}",
       "standby": "{home}–{away}", "expanded-leading": "ZRH {home}", "expanded-trailing": "{away} JPN",
       "expanded-center": "centre", "expanded-bottom": "bottom"}}
    """

  private func watch(
    _ server: TestServer, _ channels: String, in pane: Pane, options: String = ""
  ) throws {
    try pane.type("'\(server.touchline)' watch \(channels) --server \(server.address) \(options)")
  }

  private func started(
    _ columns: Int = 80, _ rows: Int = 24, _ environment: [String: String] = [:]
  ) async throws -> (TestServer, Pane) {
    let server = try TestServer(definitions: ["match": Self.match, "other": Self.match])
    let pane = try Pane(columns, rows, environment)
    try watch(server, "match other", in: pane)
    try await pane.wait(for: "online", "match · scores", "other · scores")
    try server.publish("match", #"{"home":2,"away":1}"#)
    try await pane.wait(for: "rich 2–1")
    return (server, pane)
  }

  /// At 60× a stale date of 7 minutes passes in 7 seconds, and the minute ticks every 5.
  @Test
  func `the final at 60×: live, offline and stale, back and fresh, a card dismissed, the shell as it was`()
    async throws
  {
    let channels = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appendingPathComponent("Channels")
    let server = try TestServer(definitions: ["other": Self.match])
    let pane = try Pane(80, 24)
    try watch(server, "final other", in: pane, options: "--wait")
    try server.play(
      channels.appendingPathComponent("world-cup-final-2022.match.jsonl").path, "--speed", "60", "--channel",
      "final")
    try await pane.wait(for: "🔔 Kick-off: Argentina v France", "Argentina 0–0 France", "live")
    try pane.press("n")
    try await pane.wait(for: "network off")
    try await pane.wait(for: "stale", "last updated")
    try pane.press("n")
    try await pane.wait("the card fresh again") {
      $0.contains("online") && $0.contains("live") && !$0.contains("stale")
    }
    #expect(!pane.text.contains("missed 0"), "ticks were missed meanwhile")
    try pane.press("d")
    try await pane.wait("the card gone") { $0.contains("final is dismissed") && !$0.contains("Argentina") }
    #expect(pane.text.contains("▸ other"))
    try pane.press("q")
    try await pane.expectSane()
  }

  @Test func `keys: the island, the help, StandBy, small, always-on, lock`() async throws {
    let (server, pane) = try await started()
    defer { withExtendedLifetime(server) {} }
    try pane.press("e")
    try await pane.wait(for: "ZRH 2", "1 JPN", "centre")
    try pane.press("e", "?")
    try await pane.wait(for: "dismiss the card, for good")
    try pane.press("x", "s")
    try await pane.wait(for: "StandBy")
    try pane.press("w")
    try await pane.wait(for: "no buttons in the watch")
    try pane.press("w", "l")
    try await pane.wait(for: "🔒")
    try pane.press("Down")
    try await pane.wait(for: "▸ other")
    try pane.press("Up")
    try await pane.wait(for: "▸ match")
    try pane.press("q")
    try await pane.expectSane()
  }

  @Test func `wide, composed and right-to-left text lines up, at every width`() async throws {
    let (server, pane) = try await started()
    defer { withExtendedLifetime(server) {} }
    for (columns, rows) in [(80, 24), (40, 12), (200, 50), (57, 16), (120, 30)] {
      try pane.resize(columns, rows)
      try await pane.wait("\(columns) columns drawn") { text in
        text.split(separator: "\n").contains { $0.contains("online") && DisplayWidth.of($0) <= columns }
          && pane.lines.first { $0.contains("┏") }.map { DisplayWidth.of($0) <= columns } ?? false
          && pane.lines.filter { $0.contains("┃") }.count >= 3
      }
      let cards = pane.lines.filter { $0.contains("┃") || $0.contains("┏") || $0.contains("┗") }
      let edges = Set(cards.map(Self.rightEdge))
      #expect(edges.count == 1, "at \(columns): \(cards)")
    }
  }

  /// The column of a card's right border.
  private static func rightEdge(_ line: String) -> Int {
    let end = line.lastIndex { "┃┓┛".contains($0) } ?? line.startIndex
    return DisplayWidth.of(line[..<end])
  }

  @Test func `without colours with NO_COLOR, with them otherwise`() async throws {
    let (first, plain) = try await started(80, 24, ["NO_COLOR": "1"])
    let (second, coloured) = try await started()
    defer { withExtendedLifetime((first, second)) {} }
    #expect(!plain.colouredText.contains(/\x1B\[[0-9;]*(3[0-7]|38;)/))
    #expect(coloured.colouredText.contains(/\x1B\[[0-9;]*38;5;/))
  }

  @Test(arguments: ["C-c", "TERM", "HUP", "SEGV", "ABRT"])
  func `however it ends, the terminal is restored`(end: String) async throws {
    let (server, pane) = try await started()
    try pane.press("q")
    try await pane.wait("the prompt") { $0.contains("READY>") }
    let file = server.path("pid")
    try pane.type(
      "clear; sh -c 'echo $$ > \(file); exec \"\(server.touchline)\" watch match --server \(server.address)'")
    try await pane.wait(for: "online")
    if end == "C-c" {
      try pane.press("C-c")
    } else {
      let id = try String(contentsOfFile: file, encoding: .utf8).trimmingCharacters(
        in: .whitespacesAndNewlines)
      try Program.output("kill", ["-\(end)", id])
    }
    try await pane.expectSane()
  }

  @Test func `a server that crashes leaves the last state and says offline`() async throws {
    let (server, pane) = try await started()
    server.crash()
    try await pane.wait(for: "○ offline", "rich 2–1")
    try pane.press("q")
    try await pane.expectSane()
  }

  @Test func `no server: the reason is told on the normal screen`() async throws {
    let server = try TestServer()
    server.crash()
    let pane = try Pane(160, 24)
    try watch(server, "match", in: pane)
    try await pane.wait(for: "is a server running at")
    try await pane.expectSane()
  }

  @Test func `a device file brings the card back, but not the one that was dismissed`() async throws {
    let (server, pane) = try await started()
    try pane.press("q")
    try await pane.wait("the prompt") { $0.contains("READY>") }
    let file = server.path("phone.state")
    try watch(server, "match other", in: pane, options: "--device \(file)")
    try await pane.wait(for: "online", "match · scores", "other · scores")
    try server.publish("match", #"{"home":3,"away":1}"#)
    try server.publish("other", #"{"home":7,"away":7}"#)
    try await pane.wait(for: "rich 3–1", "rich 7–7")
    try pane.press("d", "q")
    try await pane.wait("the prompt") { $0.contains("READY>") }
    try watch(server, "match", in: pane, options: "--device \(file)")
    try await pane.wait("the kept card") { text in
      text.contains("rich 7–7") && text.contains("✗ match: the person dismissed")
        && !text.contains("rich 3–1")
    }
    try pane.press("q")
    try await pane.expectSane()
  }
}
