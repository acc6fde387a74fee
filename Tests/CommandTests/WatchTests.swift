import Foundation
import TestSupport
import Testing

@Suite("watch")
struct WatchTests {
  private func watched(_ program: RunningProgram, _ count: Int) async throws -> [WatchedLine] {
    try await program.lines(count).map { try decoded($0) }
  }

  @Test("the life of an activity: live, stale at its date without a message, fresh again, ended, dismissed")
  func life() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try await server.watch("final")
      let plain = try server.start("watch", "final")
      try await plain.notice("subscribed")
      let staleDate = Int(Date().timeIntervalSince1970.rounded(.up)) + 1
      try await server.succeed("publish", "final", "--state", #"{"n":1}"#, "--stale-at", "\(staleDate)")
      _ = try await watched(watch, 2)
      let staleSeen = Date().timeIntervalSince1970
      try await server.succeed(
        "publish", "final", "--state", #"{"n":2}"#, "--alert-title", "Goal", "--alert-body", "Messi")
      try await server.succeed("publish", "final", "--event", "end", "--dismiss-in", "1s")
      let lines = try await watched(watch, 5)
      #expect(lines.map(\.cause) == ["update", "stale-date", "update", "end", "dismissal"])
      #expect(lines.map(\.state) == ["active", "stale", "active", "ended", "dismissed"])
      #expect(lines.map(\.contentState) == [["n": 1], ["n": 1], ["n": 2], ["n": 2], ["n": 2]])
      #expect(lines.map(\.priority) == [10, nil, 10, 10, nil])
      #expect(lines[2].alert == .init(title: "Goal", body: "Messi", sound: nil))
      #expect(abs(lines[1].at - Double(staleDate)) < 0.05)
      #expect(staleSeen >= Double(staleDate))
      // Dismissed: the command ends by itself.
      #expect(try await watch.ending().code == 0)

      let ending = try await plain.ending()
      #expect(ending.code == 0)
      let words = [
        "live       n 1", "stale      n 1", "live       n 2  🔔 Goal: Messi", "final      n 2",
        "dismissed  n 2",
      ]
      #expect(ending.lines.map { String($0.dropFirst(10)) } == words)
    }
  }

  @Test("the plain line is the definition's banner")
  func banner() async throws {
    let text = """
      {"app": "com.example.scores", "attributes": {"home": "Argentina"},
       "presentations": {"banner": "{attributes.home} {home}–{away}"}}
      """
    try await withFolder(["final.json": text]) { folder in
      try await withServer(["--channels", folder.url.path]) { server in
        let watch = try server.start("watch", "final")
        try await watch.notice("subscribed")
        try await server.succeed("publish", "final", "--state", #"{"home":3,"away":2}"#)
        #expect(try await watch.lines(1)[0].hasSuffix("  live       Argentina 3–2"))
        watch.signal(SIGINT)
        #expect(try await watch.ending().code == 0)
      }
    }
  }

  @Test("older messages, and those after the end, are shown as ignored")
  func ignored() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try await server.watch("final")
      func line(_ timestamp: Int, _ event: String, _ n: Int) -> String {
        #"{"aps":{"timestamp":\#(timestamp),"event":"\#(event)","content-state":{"n":\#(n)}}}"# + "\n"
      }
      let now = Int(Date().timeIntervalSince1970)
      let feed =
        line(now, "update", 1) + line(now - 1, "update", 2) + line(now, "end", 3) + line(now, "update", 4)
      try await server.succeed("publish", "final", "--lines", input: Array(feed.utf8))
      let lines = try await watched(watch, 4)
      #expect(lines.map(\.cause) == ["update", "ignored-older", "end", "ignored-after-end"])
      #expect(lines.map { $0.contentState?["n"] } == [1, 1, 3, 3])
    }
  }

  @Test("--until ended exits 0 at the end", arguments: ["ended", "dismissed"])
  func until(_ goal: String) async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try await server.watch("final", "--until", goal)
      let dismissal = goal == "ended" ? "1h" : "0"
      try await server.succeed("publish", "final", "--event", "end", "--dismiss-in", dismissal)
      let ending = try await watch.ending()
      #expect(ending.code == 0)
      let last: WatchedLine = try decoded(try #require(ending.lines.last))
      #expect(last.state == goal)
    }
  }

  @Test("--for ends the watch: 0, or 1 when --until was not reached")
  func forDuration() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      #expect(try await server.run("watch", "final", "--for", "200ms").code == 0)
      let ending = try await server.run("watch", "final", "--for", "200ms", "--until", "ended")
      #expect(ending.code == 1)
      #expect(ending.errors.contains("not ended after 200ms"))
    }
  }

  @Test("a server that ends is told of with its own close code")
  func closeCode() async throws {
    let server = try await Server()
    try await server.succeed("channel", "create", "final")
    let watch = try server.start("watch", "final")
    try await watch.notice("final: subscribed")
    try await server.stop()
    try await watch.notice("was lost (1012 the server is shutting down; come back in ")
    watch.signal(SIGTERM)
    _ = try await watch.ending()
  }

  @Test("--wait waits for the server and for the channel")
  func waits() async throws {
    let first = try await Server()
    try await first.stop()
    let watch = try first.start("watch", "final", "--wait", "--until", "ended")
    try await watch.notice("trying again in ")
    let second = try await Server(port: first.port)
    try await watch.notice("waiting for the channel \"final\"")
    try await second.succeed("channel", "create", "final")
    try await watch.notice("final: subscribed")
    try await second.succeed("publish", "final", "--event", "end", "--state", #"{"n":1}"#)
    #expect(try await watch.ending().code == 0)
    try await second.stop()
  }

  @Test(
    "after a lost connection it resumes by itself and tells what it missed", arguments: ["none", "latest"])
  func resumes(_ storage: String) async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final", "--storage", storage)
      let proxy = try CuttingProxy(to: server.port)
      let watch = try Touchline.start(
        ["watch", "final", "--format", "json", "--server", proxy.address])
      try await watch.notice("final: subscribed")
      func publish(_ n: Int) async throws {
        let expiry = storage == "latest" ? ["--expires-in", "1h"] : []
        let ending = try await Touchline.run(
          ["publish", "final", "--server", server.address, "--state", "{\"n\":\(n)}"] + expiry)
        try #require(ending.code == 0, "\(ending.errors)")
      }
      try await publish(1)
      _ = try await watched(watch, 1)
      proxy.cut()
      try await watch.notice("was lost")
      for n in 2...4 { try await publish(n) }
      proxy.restore()
      if storage == "none" {
        try await watch.notice("final: resumed, 3 messages missed")
        try await publish(5)
        let line = try await watched(watch, 2)[1]
        #expect(line.contentState == ["n": 5] && line.missed == 3 && line.seq == 5)
      } else {
        // The newest is stored: two are missed, and it comes.
        try await watch.notice("final: 2 messages missed before this one")
        let line = try await watched(watch, 2)[1]
        #expect(line.contentState == ["n": 4] && line.missed == 2 && line.seq == 4)
        try await publish(5)
        #expect(try await watched(watch, 3)[2].missed == 2)
      }
      watch.signal(SIGINT)
      #expect(try await watch.ending().code == 0)
    }
  }

  @Test("--since resumes from a position of an earlier watch")
  func since() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let first = try await server.watch("final")
      try await server.succeed("publish", "final", "--state", #"{"n":1}"#)
      let line = try await watched(first, 1)[0]
      first.signal(SIGTERM)
      #expect(try await first.ending().code == 0)
      let position = "\(try #require(line.epoch)):\(try #require(line.seq))"
      let none = try server.start("watch", "final", "--since", position)
      try await none.notice("final: resumed, nothing missed")
      try await server.succeed("publish", "final", "--state", #"{"n":2}"#)
      try await server.succeed("publish", "final", "--state", #"{"n":3}"#)
      let some = try server.start("watch", "final", "--since", position)
      try await some.notice("final: resumed, 2 messages missed")
      let foreign = try server.start("watch", "final", "--since", "another:1")
      try await foreign.notice("final: the server counts anew; messages may have been missed")
    }
  }

  @Test(
    "an unknown channel is told with the reason, exit 1", arguments: ["finl", "AAAAAAAAAAAAAAAAAAAAAA=="])
  func unknownChannel(_ name: String) async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let ending = try await server.run("watch", name)
      #expect(ending.code == 1)
      #expect(ending.output == "")
      #expect(ending.errors.hasPrefix("touchline watch: \(name): ChannelNotRegistered: "), "\(ending.errors)")
    }
  }

  @Test("of several channels an unknown one is told at once, the others go on, exit 1")
  func oneOfTwoUnknown() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try server.start("watch", "final", "nowhere", "--format", "json")
      try await watch.notice("nowhere: ChannelNotRegistered: ")
      try await watch.notice("final: subscribed")
      try await server.succeed("publish", "final", "--state", #"{"n":1}"#)
      _ = try await watched(watch, 1)
      watch.signal(SIGINT)
      let ending = try await watch.ending()
      #expect(ending.code == 1)
      #expect(
        ending.errors.hasSuffix("touchline watch: 1 of 2 channels failed: nowhere\n"), "\(ending.errors)")
    }
  }

  @Test("a channel that is named twice, by id and alias, is followed once and told, exit 1")
  func namedTwice() async throws {
    try await withServer { server in
      let id = String(try await server.succeed("channel", "create", "final").output.dropLast())
      let watch = try server.start("watch", "final", id, "--until", "ended")
      try await watch.notice("\(id): is the same channel as \"final\"; name it once")
      try await server.succeed("publish", "final", "--event", "end")
      let ending = try await watch.ending()
      #expect(ending.code == 1)
      #expect(ending.lines.count == 1)
    }
  }

  @Test("a channel that is deleted while it is watched: says so, exit 1")
  func deleted() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try await server.watch("final")
      try await server.succeed("channel", "delete", "final")
      let ending = try await watch.ending()
      #expect(ending.code == 1)
      #expect(ending.errors.hasSuffix("touchline watch: final: the channel was deleted\n"))
    }
  }

  @Test("SIGINT and SIGTERM end a watch with 0", arguments: [SIGINT, SIGTERM])
  func signals(_ signal: Int32) async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try await server.watch("final")
      watch.signal(signal)
      let ending = try await watch.ending()
      #expect(ending.code == 0)
      #expect(ending.errors == "final: subscribed\n")
    }
  }

  @Test("two channels at once: each line says which, and it ends when both have")
  func twoChannels() async throws {
    try await withServer { server in
      for name in ["final", "semi"] { try await server.succeed("channel", "create", name) }
      let json = try server.start("watch", "final", "semi", "--format", "json", "--until", "ended")
      let plain = try server.start("watch", "final", "semi", "--until", "ended")
      for watch in [json, plain] {
        for name in ["final", "semi"] { try await watch.notice("\(name): subscribed") }
      }
      try await server.succeed("publish", "semi", "--event", "end", "--state", #"{"n":1}"#)
      _ = try await watched(json, 1)
      try await server.succeed("publish", "final", "--state", #"{"n":2}"#)
      try await server.succeed("publish", "final", "--event", "end")
      let lines: [WatchedLine] = try await json.ending().lines.map { try decoded($0) }
      #expect(lines.map(\.name) == ["semi", "final", "final"])
      #expect(lines.map(\.cause) == ["end", "update", "end"])
      let words = try await plain.ending().lines.map { $0.dropFirst(10).split(separator: " ").prefix(2) }
      #expect(words == [["semi", "final"], ["final", "live"], ["final", "final"]])
    }
  }

  @Test("a reader that goes away ends it quietly")
  func closedOutput() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let executable = try #require(Touchline.executable).path
      let pipe = try RunningProgram(
        URL(fileURLWithPath: "/bin/bash"),
        ["-c", "\"$1\" watch final --format json | head -1; echo \"${PIPESTATUS[0]}\"", "bash", executable],
        environment: ["TOUCHLINE_SERVER": server.address])
      try await pipe.notice("subscribed")
      try await server.succeed("publish", "final", "--state", #"{"n":1}"#)
      try await pipe.lines(1)
      try await server.succeed("publish", "final", "--state", #"{"n":2}"#)
      let ending = try await pipe.ending()
      #expect(ending.lines.count == 2 && ending.lines[1] == "0")
      #expect(ending.errors == "final: subscribed\n")
    }
  }
}
