import Foundation
import TestSupport
import Testing

@Suite("play")
struct PlayTests {
  /// Two minutes, which take 10 ms at speed 12,000.
  private static let steps = """
    {"at": 0, "content-state": {"n": 0}}
    {"at": "0:30", "content-state": {"n": 1}, "alert": {"title": "Goal!", "body": "1–0", "sound": "default"}}
    {"at": 90, "content-state": {"n": 2}}
    {"at": "2m", "event": "end", "content-state": {"n": 2}, "dismiss-in": "4h"}

    """

  private static let ownDefinition =
    #"{"channel": {"app": "com.example.own", "publish-rate": {"per-second": null}}}"# + "\n"

  /// Where the rules of a channel that isn't there yet come from.
  enum Source: CaseIterable {
    case script, sibling, defaults
  }

  @Test(
    "a channel that isn't there is made: with the script's definition, the file beside it, or defaults",
    arguments: Source.allCases)
  func createsChannel(_ source: Source) async throws {
    let (head, channel, app) =
      switch source {
      case .script: (Self.ownDefinition, "friendly", "com.example.own")
      case .sibling: (#"{"channel": "semi-final"}"# + "\n", "semi-final", "com.example.beside")
      case .defaults: ("", "friendly", "com.example.scores")
      }
    try await withFolder([
      "friendly.match.jsonl": head + Self.steps, "semi-final.json": #"{"app": "com.example.beside"}"#,
    ]) { folder in
      try await withServer { server in
        let watch = try server.start("watch", channel, "--wait", "--until", "ended", "--format", "json")
        try await watch.notice("waiting for the channel")
        let ending = try await server.succeed("play", folder.path("friendly.match.jsonl"), "--speed", "12000")
        #expect(
          ending.lines == [
            "0:00:00  delivered   priority 10  update", "0:00:30  delivered   priority 10  update  Goal!",
            "0:01:30  delivered   priority 10  update", "0:02:00  delivered   priority 10  end",
          ])
        #expect(ending.errors.contains("created the channel \(channel), its rules running at 12000× speed\n"))
        #expect(ending.errors.contains("playing 4 messages, 2m00s at 12000×, about 0s\n"))
        #expect(ending.errors.hasSuffix("played 4 messages: 4 delivered\n"))
        #expect(try await server.channel(channel).definition.app == app)
        let lines: [WatchedLine] = try await watch.ending().lines.map { try decoded($0) }
        #expect(lines.filter { $0.cause != "stale-date" }.map { $0.contentState?["n"] } == [0, 1, 2, 2])

        // A second time the channel is there.
        let again = try await server.succeed("play", folder.path("friendly.match.jsonl"), "--speed", "12000")
        #expect(!again.errors.contains("created"))
      }
    }
  }

  @Test("rules run at any speed, within what a definition may say")
  func rulesAtSpeed() async throws {
    try await withFolder(["friendly.match.jsonl": Self.steps]) { folder in
      try await withServer { server in
        // Windows of 100 and 500 s, and a rate of 0.2 a second.
        let slow = try server.start("play", folder.path("friendly.match.jsonl"), "--speed", "0.01")
        try await slow.notice("created the channel friendly")
        let definition = try await server.channel("friendly").definition
        #expect(definition.windows == ["5": 60, "1": 60] && definition.publishRate.perSecond == 0.2)
        slow.signal(SIGTERM)
        _ = try await slow.ending()
        // 1/3,000 s, which is no number of milliseconds.
        try await server.succeed(
          "play", folder.path("friendly.match.jsonl"), "--speed", "3000", "--channel", "quick")
        #expect(try await server.channel("quick").definition.windows == ["5": 1.0 / 3_000, "1": 5.0 / 3_000])
      }
    }
  }

  @Test("--channel chooses another channel, and --format json gives an object a message with its line")
  func otherChannel() async throws {
    try await withFolder(["friendly.match.jsonl": Self.ownDefinition + Self.steps]) { folder in
      try await withServer { server in
        let ending = try await server.succeed(
          "play", folder.path("friendly.match.jsonl"), "--speed", "12000", "--channel", "rehearsal",
          "--format", "json")
        let answers: [AnsweredLine] = try ending.lines.map { try decoded($0) }
        #expect(answers.map(\.line) == [2, 3, 4, 5])
        #expect(answers.map(\.outcome) == ["delivered", "delivered", "delivered", "delivered"])
        #expect(try await server.channel("rehearsal").counts["accepted"] == 4)
      }
    }
  }

  @Test("a message that is refused is told with its line, the others are played, exit 1")
  func refusedMessage() async throws {
    let large = String(repeating: "x", count: 6_000)
    let script = """
      {"at": 0, "content-state": {"n": 0}}
      {"at": 1, "content-state": {"text": "\(large)"}}
      {"at": 2, "event": "end"}
      """
    try await withFolder(["friendly.match.jsonl": script]) { folder in
      try await withServer { server in
        let ending = try await server.run("play", folder.path("friendly.match.jsonl"), "--speed", "1000")
        #expect(ending.code == 1)
        #expect(ending.lines.map { $0.split(separator: " ")[1] } == ["delivered", "refused", "delivered"])
        #expect(ending.errors.contains("\nline 2: PayloadTooLarge: "))
        #expect(ending.errors.contains("played 3 messages: 2 delivered, 1 refused\n"))
        #expect(ending.errors.hasSuffix("touchline play: 1 of 3 messages refused\n"))
      }
    }
  }

  // MARK: openfootball

  private static let cup = """
    {"name": "World Cup 2022", "matches": [
      {"round": "Final", "date": "2022-12-18", "team1": "Argentina", "team2": "France",
       "score": {"ft": [1, 0], "ht": [0, 0]}, "goals1": [{"name": "Messi", "minute": 63}], "goals2": []},
      {"round": "Semi-finals", "date": "2022-12-14", "team1": "France", "team2": "Morocco",
       "score": {"ft": [2, 0], "ht": [1, 0]},
       "goals1": [{"name": "Hernández", "minute": 5}, {"name": "Kolo Muani", "minute": 79}], "goals2": []},
      {"round": "Third place", "date": "2026-07-18", "team1": "Ghana", "team2": "Norway"}]}
    """

  @Test("a match of an openfootball file is played to its official score")
  func openFootball() async throws {
    try await withFolder(["cup.json": Self.cup]) { folder in
      try await withServer { server in
        let stream = try server.start("watch", "argentina-france", "--wait", "--until", "ended")
        try await stream.notice("waiting for the channel")
        let ending = try await server.succeed(
          "play", "--openfootball", folder.path("cup.json"), "--match", "argentina france", "--speed",
          "100000")
        #expect(ending.errors.contains("created the channel argentina-france"))
        let played = try #require(ending.errors.split(separator: "\n").last)
        #expect(played.hasPrefix("played \(ending.lines.count) messages: "), "\(played)")
        #expect(
          ending.lines.last?.hasSuffix("  end  Full time") == true
            || ending.lines.last?.contains("  end") == true)
        let last = try #require(try await stream.ending().lines.last)
        // At this speed the card may be due to leave when its end arrives.
        #expect(last.contains("  final ") || last.contains("  dismissed "), "\(last)")
        #expect(last.contains("Argentina 1–0 France"), "\(last)")
      }
    }
  }

  @Test(
    "a match that can't be played is told with what is near, exit 1", .serialized,
    arguments: [
      ("argentna", "did you mean \"Argentina\"?"),
      ("argentina morocco", "nearest:\n  "),
      ("france", "\"france\" names 2 matches; add a date or a round:\n  "),
      ("ghana", "has no final score"),
      ("zzzz", "give both teams, such as \"Argentina France\""),
    ])
  func unknownMatch(_ words: String, _ message: String) async throws {
    try await withFolder(["cup.json": Self.cup]) { folder in
      let ending = try await Touchline.run(
        ["play", "--openfootball", folder.path("cup.json"), "--match", words, "--server", "127.0.0.1:1"])
      #expect(ending.code == 1)
      #expect(ending.errors.hasPrefix("touchline play: \(folder.path("cup.json")): "))
      #expect(ending.errors.contains(message), "\(ending.errors)")
    }
  }

  // MARK: What can't be played

  @Test(
    "a broken script is refused with line and key before anything is sent, exit 1", .serialized,
    arguments: [
      (
        "{\"at\": 0, \"content-state\": {}}\n{\"at\": 1, \"stale\": 2, \"content-state\": {}}",
        ":2:11: error: stale: "
      ),
      (
        "{\"at\": 5, \"content-state\": {}}\n{\"at\": 1, \"content-state\": {}}",
        ":2:8: error: at: is earlier"
      ),
      ("{\"at\": 0, \"content-state\": {}}\n{\"at\": 1,", ":2:10: error: not JSON: "),
      ("{\"at\": 0}", ":1:1: error: content-state: is missing"),
      (
        "{\"at\": 0, \"content-state\": {}, \"stale-in\": \"soon\"}",
        ":1:44: error: stale-in: is the string \"soon\""
      ),
      ("{\"channel\": {\"app\": \"x y\"}}\n{\"at\": 0, \"event\": \"end\"}", ":1:21: error: app: "),
      ("\n", ":1:1: error: the script has no message"),
    ])
  func brokenScript(_ script: String, _ place: String) async throws {
    try await withFolder(["friendly.match.jsonl": script]) { folder in
      let path = folder.path("friendly.match.jsonl")
      let ending = try await Touchline.run(["play", path, "--server", "127.0.0.1:1"])
      #expect(ending.code == 1)
      #expect(ending.output == "")
      #expect(ending.errors.contains(path + place), "\(ending.errors)")
    }
  }

  @Test("a missing script, a script without a name, and a server that isn't there are told")
  func notPlayed() async throws {
    try await withFolder(["friendly.match.jsonl": Self.steps, "-.jsonl": Self.steps]) { folder in
      let script = folder.path("friendly.match.jsonl")
      let missing = try await Touchline.run(["play", folder.path("none.jsonl")])
      #expect(missing.code == 1 && missing.errors.contains("none.jsonl: there is no such file"))
      let alone = try await Touchline.run(["play", script, "--server", "127.0.0.1:1"])
      #expect(alone.code == 1 && alone.errors.contains("Start one with: touchline serve"))
      let nameless = try await Touchline.run(["play", "-"], input: Array(Self.steps.utf8))
      #expect(nameless.code == 2 && nameless.errors.contains("say --channel NAME"), "\(nameless.errors)")
    }
  }
}
