import Foundation
import TestSupport
import Testing

@Suite("requests")
struct RequestsTests {
  private struct Line: Decodable {
    let id, method, path: String
    let status: Int
    let reason, outcome, alias, verdict: String?
  }

  private func withFinal(_ body: (Server) async throws -> Void) async throws {
    try await withFolder(["final.json": #"{"app": "com.example.scores"}"#]) { folder in
      try await withServer(["--channels", folder.url.path], body)
    }
  }

  /// Publishes into `final` what is wrong in two ways, and into a channel that isn't there.
  private func publishSomething(_ server: Server) async throws {
    let curl = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/curl"),
      [
        "-s", "-H", "apns-channel-id: final", "-H", "apns-push-type: liveactivity", "-d",
        #"{"aps":{"timestamp":\#(Int(Date().timeIntervalSince1970)),"event":"end","state-date":1}}"#,
        "\(server.address)/4/broadcasts/apps/com.example.scores",
      ])
    #expect(try await curl.ending().code == 0)
    #expect(try await server.run("publish", "nobody", "--state", "{}", "--retry-for", "0").code == 1)
  }

  @Test("a request is a line with its answer, and below it what is likely wrong")
  func lines() async throws {
    try await withFinal { server in
      let nothing = try await server.succeed("requests")
      #expect(nothing.output == "" && nothing.errors == "no such requests yet\n")
      try await publishSomething(server)
      let plain = try await server.succeed("requests")
      try #require(plain.lines.count == 5, "\(plain.output)")
      func words(_ line: Int) -> [Substring] { plain.lines[line].split(separator: " ") }
      #expect(words(0).dropFirst().prefix(3) == ["200", "delivered", "POST"])
      #expect(plain.lines[0].hasSuffix(" final                     to 0, received 0, displayed 0"))
      #expect(
        plain.lines[1]
          == "          accepted, but nobody was subscribed to the channel; aps.state-date is no key of"
          + " aps; the system ignores it silently; did you mean \"stale-date\"?")
      #expect(
        plain.lines[2] == "          without apns-priority (taken as 10), apns-expiration (taken as 0)")
      #expect(words(3).dropFirst() == ["400", "ChannelNotRegistered", "publish", "/v1/events", "nobody"])
      #expect(plain.lines[4].hasPrefix("          no channel has the id or alias \"nobody\""))
      #expect(plain.errors == "" && !plain.output.contains("\u{1B}"))

      let json = try await server.succeed("requests", "--format", "json")
      let lines: [Line] = try json.lines.map { try decoded($0) }
      #expect(lines.map(\.status) == [200, 400] && lines[0].alias == "final")
      #expect(lines[0].verdict?.contains("nobody was subscribed") == true)
    }
  }

  @Test("--failed, --channel, --app and --limit choose") func choosing() async throws {
    try await withFinal { server in
      try await publishSomething(server)
      func statuses(_ options: String...) async throws -> [Int] {
        let ending = try await Touchline.run(
          ["requests", "--format", "json", "--server", server.address] + options)
        #expect(ending.code == 0, "\(ending.errors)")
        return try ending.lines.map { try (decoded($0) as Line).status }
      }
      #expect(try await statuses("--failed") == [400])
      #expect(try await statuses("--channel", "final") == [200])
      #expect(try await statuses("--channel", "a/b c&d") == [])
      #expect(try await statuses("--app", "com.example.scores") == [200])
      #expect(try await statuses("--limit", "1") == [400])
    }
  }

  @Test("--follow goes on after a lost connection, shows nothing twice, and ends well with a signal")
  func following() async throws {
    try await withFinal { server in
      try await publishSomething(server)
      let proxy = try CuttingProxy(to: server.port)
      let requests = try Touchline.start(
        ["requests", "--follow", "--format", "json", "--server", proxy.address])
      _ = try await requests.lines(2)
      proxy.cut()
      try await requests.notice("trying again in")
      try await publishSomething(server)
      proxy.restore()
      _ = try await requests.lines(4)
      try await publishSomething(server)
      let lines: [Line] = try await requests.lines(6).map { try decoded($0) }
      #expect(lines.map(\.status) == [200, 400, 200, 400, 200, 400])
      #expect(Set(lines.map(\.id)).count == 6)
      requests.signal(SIGINT)
      let ending = try await requests.ending()
      #expect(ending.code == 0 && ending.lines.count == 6)
    }
  }

  @Test("without a server, or with what can't be asked, it says so") func failures() async throws {
    for options in [[], ["--follow"]] {
      let nobody = try await Touchline.run(["requests", "--server", "http://127.0.0.1:1"] + options)
      #expect(nobody.code == 1 && nobody.errors.contains("is a server running at http://127.0.0.1:1?"))
    }
    for (words, expected) in [
      (["--limit", "0"], "--limit is \"0\"; a whole number from 1 to 1000 was expected"),
      (["--limit", "1001"], "was expected"), (["final"], "\"final\" is one argument too many"),
      (["--folow"], "did you mean \"--follow\"?"),
    ] {
      let ending = try await Touchline.run(["requests"] + words)
      #expect(ending.code == 2 && ending.errors.contains(expected), "\(ending.errors)")
    }
  }
}
