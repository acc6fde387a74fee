import Foundation
import TestSupport
import Testing

@Suite("publish --lines")
struct FeedTests {
  /// Each line of a feed, and what its answer begins with; nil for a line without an answer.
  private static let feed: [(line: [UInt8], answer: String?)] = [
    (Array(#"{"n":1}"#.utf8), "delivered "),
    (Array(#"{"n":"#.utf8), "refused not JSON: column 6: "),
    (Array(#"{"n":""#.utf8) + [0xFF, 0xFE] + Array("\"}".utf8), "refused not JSON: column 7: "),
    ([], nil),
    (Array("  \t\r".utf8), nil),
    (
      Array(#"{"text":""#.utf8) + Array(repeating: 0x78, count: 1_200_000) + Array("\"}".utf8),
      "refused the line has more than 1048576 bytes"
    ),
    // Larger than a frame, and larger than a payload.
    (
      Array(#"{"text":""#.utf8) + Array(repeating: 0x78, count: 20_000) + Array("\"}".utf8),
      "refused PayloadTooLarge: "
    ),
    (
      Array(#"{"text":""#.utf8) + Array(repeating: 0x78, count: 6_000) + Array("\"}".utf8),
      "refused PayloadTooLarge: "
    ),
    (Array(#"{"n":9}"#.utf8) + [0x0D], "delivered "),
    (Array("[1]".utf8), "refused the line is an array; an object was expected"),
    (
      Array(#"{"aps":{"timestamp":1893456000,"event":"start","content-state":{}}}"#.utf8),
      "refused BadRequestPayload: aps.event is \"start\""
    ),
    (
      Array(#"{"aps":{"event":"update","content-state":{}}}"#.utf8),
      "refused BadRequestPayload: aps.timestamp is missing"
    ),
    (
      Array(#"{"aps":{"timestamp":1893456000,"event":"update","content-state":{"n":13}}}"#.utf8), "delivered "
    ),
  ]

  private static let expected = feed.enumerated().compactMap { index, entry in
    entry.answer.map { "\(index + 1) \($0)" }
  }

  @Test(
    "each line gets one answer, in order and with its number; bad lines don't keep good ones back",
    arguments: ["pipe", "file"])
  func mixedFeed(_ source: String) async throws {
    try await withFolder { folder in
      try await withServer { server in
        try await server.succeed("channel", "create", "final")
        let watch = try await server.watch("final")
        // The last line has no line break.
        let bytes = Array(Self.feed.map(\.line).joined(separator: [0x0A]))
        let ending: Ending
        if source == "pipe" {
          ending = try await server.run("publish", "final", "--lines", input: bytes)
        } else {
          try Data(bytes).write(to: URL(fileURLWithPath: folder.path("feed")))
          let executable = try #require(Touchline.executable).path
          let shell = try RunningProgram(
            URL(fileURLWithPath: "/bin/sh"),
            ["-c", "\"$1\" publish final --lines <\"$2\"", "sh", executable, folder.path("feed")],
            environment: ["TOUCHLINE_SERVER": server.address])
          ending = try await shell.ending()
        }
        #expect(ending.code == 1)
        #expect(ending.lines.count == Self.expected.count)
        for (line, start) in zip(ending.lines, Self.expected) { #expect(line.hasPrefix(start), "\(line)") }
        #expect(ending.errors == "touchline publish: 8 of 13 lines refused\n")
        let lines: [WatchedLine] = try await watch.lines(3).map { try decoded($0) }
        #expect(lines.map(\.contentState) == [["n": 1], ["n": 9], ["n": 13]])
      }
    }
  }

  @Test("a feed of nothing but lines that are too large is answered to its end")
  func onlyTooLarge() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let line = Array(#"{"text":""#.utf8) + Array(repeating: 0x78, count: 5_200) + Array("\"}\n".utf8)
      let ending = try await server.run(
        "publish", "final", "--lines", input: Array(repeatElement(line, count: 700).joined()))
      #expect(ending.code == 1)
      #expect(ending.lines.count == 700)
      #expect(ending.lines.allSatisfy { $0.contains(" refused PayloadTooLarge: ") })
    }
  }

  @Test("the answers of a feed as JSON have line, outcome and reason")
  func feedAsJSON() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let ending = try await server.run(
        "publish", "final", "--lines", "--format", "json",
        input: Array("{}\n\n{\n{\"aps\":{}}\n".utf8))
      let answers: [AnsweredLine] = try ending.lines.map { try decoded($0) }
      #expect(answers.map(\.line) == [1, 3, 4])
      #expect(answers.map(\.outcome) == ["delivered", "refused", "refused"])
      #expect(answers.map(\.reason) == [nil, nil, "BadRequestPayload"])
    }
  }

  @Test("--fail-fast stops at the first refused line, and says which")
  func failFast() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      // The feed stays open: only the refusal ends the command.
      let feed = try server.start("publish", "final", "--lines", "--fail-fast")
      feed.send("{\"n\":1}\n")
      try await feed.lines(1)
      feed.send("{\"n\":2\n{\"n\":3}\n")
      let ending = try await feed.ending()
      #expect(ending.code == 1)
      #expect(ending.lines.count == 2 && ending.lines[1].hasPrefix("2 refused "))
      #expect(ending.errors.contains("touchline publish: line 2 was refused: not JSON"))
      #expect(try await server.channel("final").counts["accepted"] == 1)
    }
  }

  @Test("--fail-fast publishes nothing behind a line that the server refuses")
  func failFastAtServer() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final", "--publish-rate", "none")
      let lines = ["{\"n\":1}", "{\"n\":2}", "{\"aps\":{\"event\":\"start\"}}", "{\"n\":4}", "{\"n\":5}"]
      let ending = try await server.run(
        "publish", "final", "--lines", "--fail-fast", input: Array(lines.joined(separator: "\n").utf8))
      #expect(ending.code == 1)
      #expect(ending.lines.map { $0.prefix(11) } == ["1 delivered", "2 delivered", "3 refused B"])
      #expect(try await server.channel("final").counts["accepted"] == 2)
    }
  }

  @Test("a feed that isn't let in has every line refused, however slowly they come")
  func refusedFeed() async throws {
    try await withFolder { folder in
      _ = try await Touchline.run([
        "token", "new-key", "--dir", folder.path("keys"), "--team", "TEAM123456", "--app",
        "com.example.scores",
      ])
      try await withServer(["--keys", folder.path("keys")]) { server in
        let feed = try Touchline.start(
          ["publish", "final", "--lines"],
          environment: ["TOUCHLINE_SERVER": server.address, "TOUCHLINE_TOKEN": "no.good.token"])
        for number in 1...3 {
          feed.send("{\"n\":\(number)}\n")
          let lines = try await feed.lines(number)
          #expect(lines[number - 1].hasPrefix("\(number) refused "), "\(lines)")
        }
        feed.closeInput()
        #expect(try await feed.ending().code == 1)
      }
    }
  }

  @Test("an empty feed publishes nothing and is no failure")
  func emptyFeed() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let ending = try await server.succeed("publish", "final", "--lines")
      #expect(ending.output == "" && ending.errors == "")
    }
  }

  /// States `{"n":1}` to `{"n":count}`, one a line.
  private static func numbers(_ count: Int) -> [UInt8] {
    Array((1...count).map { "{\"n\":\($0)}\n" }.joined().utf8)
  }

  /// Checks that a feed of ``numbers(_:)`` was published in order and exactly once: by the answers, by the server's
  /// count, and by what a subscriber saw. Of a fast feed a subscriber may get the newest instead of each.
  private func expectPublished(
    _ count: Int, _ ending: Ending, _ watch: RunningProgram, _ server: Server
  ) async throws {
    #expect(ending.code == 0, "\(ending.errors)")
    #expect(
      ending.lines.map { $0.split(separator: " ").prefix(2).joined(separator: " ") }
        == (1...count).map { "\($0) delivered" })
    let channel = try await server.channel("final")
    #expect(channel.counts["accepted"] == count)
    #expect(channel.seq == count)
    let last = "\"content-state\":{\"n\":\(count)}"
    _ = try await eventually("the last message") {
      watch.output.lines.last?.contains(last) == true ? () : nil
    }
    let lines: [WatchedLine] = try watch.output.lines.map { try decoded($0) }
    let seen = lines.compactMap { $0.contentState?["n"] }
    #expect(zip(seen, seen.dropFirst()).allSatisfy { $0 < $1 }, "\(seen)")
    #expect(seen.count + (lines.last?.missed ?? 0) == count)
    #expect(lines.allSatisfy { $0.contentState?["n"] == $0.seq })
  }

  @Test("2,000 pipelined lines are published in order, none twice")
  func pipelined() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final", "--publish-rate", "none", "--budget", "none")
      let watch = try await server.watch("final")
      let ending = try await server.run("publish", "final", "--lines", input: Self.numbers(2_000))
      try await expectPublished(2_000, ending, watch, server)
    }
  }

  @Test("429: a feed that is too fast is slowed down to the channel's rate, and nothing is lost")
  func publishRate() async throws {
    try await withServer { server in
      try await server.succeed(
        "channel", "create", "final", "--publish-rate", "20", "--burst", "5", "--budget", "none")
      let watch = try await server.watch("final")
      let start = ContinuousClock.now
      let ending = try await server.run("publish", "final", "--lines", input: Self.numbers(60))
      // 5 at once and 55 more at 20 a second: no faster.
      #expect(ContinuousClock.now - start > .milliseconds(2_700))
      try await expectPublished(60, ending, watch, server)
    }
  }

  @Test("a budget that rejects is waited for, in order")
  func rejectingBudget() async throws {
    try await withServer { server in
      try await server.succeed(
        "channel", "create", "final", "--publish-rate", "none", "--budget", "5", "--refill-per-hour", "72000",
        "--over-budget", "reject")
      let watch = try await server.watch("final")
      let ending = try await server.run("publish", "final", "--lines", input: Self.numbers(30))
      #expect(ending.errors.contains("TooManyRequests; trying again in "))
      try await expectPublished(30, ending, watch, server)
    }
  }

  @Test("what is still refused after --retry-for is told, exit 1")
  func patienceEnds() async throws {
    try await withServer { server in
      try await server.succeed(
        "channel", "create", "final", "--budget", "1", "--refill-per-hour", "1", "--over-budget", "reject")
      let ending = try await server.run(
        "publish", "final", "--lines", "--retry-for", "1s", input: Self.numbers(3))
      #expect(ending.code == 1)
      #expect(ending.lines.count == 3 && ending.lines[0].hasPrefix("1 delivered "))
      #expect(ending.lines.dropFirst().allSatisfy { $0.contains(" refused TooManyRequests: ") })
    }
  }

  @Test("after a lost connection every line is published, none twice")
  func lostConnection() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final", "--publish-rate", "none", "--budget", "none")
      let watch = try await server.watch("final")
      // The server got these bytes and carried them out; its answers are lost.
      let proxy = try CuttingProxy(to: server.port, cutAfter: [5_000, 40_000, 40_000])
      let ending = try await Touchline.run(
        ["publish", "final", "--lines", "--server", proxy.address], input: Self.numbers(1_200))
      #expect(proxy.lossCount == 3)
      #expect(ending.errors.contains("was lost; trying again in "), "\(ending.errors)")
      try await expectPublished(1_200, ending, watch, server)
    }
  }

  @Test("a server that doesn't come back: every line is answered, exit 1")
  func serverGone() async throws {
    let server = try await Server()
    try await server.succeed("channel", "create", "final", "--publish-rate", "none", "--budget", "none")
    let feed = try server.start("publish", "final", "--lines", "--retry-for", "1s")
    feed.send(Self.numbers(1))
    try await feed.lines(1)
    try await server.stop()
    // More than are under way at once.
    feed.send(Self.numbers(2_000))
    feed.closeInput()
    let ending = try await feed.ending()
    #expect(ending.code == 1)
    #expect(ending.lines.count == 2_001)
    #expect(ending.lines.dropFirst().allSatisfy { $0.contains(" refused ") })
    #expect(ending.errors.hasSuffix("touchline publish: 2000 of 2001 lines refused\n"))
  }

  @Test("a restarted server: every line is answered as delivered and the channel is the same")
  func restartedServer() async throws {
    try await withFolder { folder in
      let store = ["--store", folder.path("channels.sqlite")]
      let first = try await Server(store)
      try await first.succeed("channel", "create", "final", "--publish-rate", "none", "--budget", "none")
      let feed = try first.start("publish", "final", "--lines")
      feed.send(Self.numbers(1))
      try await feed.lines(1)
      first.program.signal(SIGKILL)
      _ = try await first.program.ending()
      feed.send("{\"n\":2}\n{\"n\":3}\n")
      let second = try await Server(store, port: first.port)
      feed.closeInput()
      let ending = try await feed.ending()
      #expect(ending.code == 0, "\(ending.errors)")
      #expect(ending.lines.map { $0.prefix(11) } == ["1 delivered", "2 delivered", "3 delivered"])
      #expect(try await second.channel("final").counts["accepted"] == 2)
      try await second.stop()
    }
  }

  @Test("a feed that can't be read is a failure, after the answers to what came")
  func unreadable() async throws {
    try await withFolder { folder in
      try await withServer { server in
        let executable = try #require(Touchline.executable).path
        let shell = try RunningProgram(
          URL(fileURLWithPath: "/bin/sh"),
          ["-c", "\"$1\" publish final --lines <\"$2\"", "sh", executable, folder.url.path],
          environment: ["TOUCHLINE_SERVER": server.address])
        let ending = try await shell.ending()
        #expect(ending.code == 1, "\(ending.output)")
        #expect(
          ending.errors
            == "touchline publish: standard input can't be read: Is a directory; 0 lines were read\n")
      }
    }
  }
}
