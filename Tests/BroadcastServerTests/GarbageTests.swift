import BroadcastChannels
import Foundation
import TestSupport
import Testing

@Suite struct GarbageTests {
  @Test(arguments: [5_121, 65_536, 65_537, 1_048_576])
  func aBodyThatIsTooLargeIsRefusedAndTheServerLives(_ bytes: Int) throws {
    try withServer { server in
      let channel = try server.createChannel()
      for var request in [Request.broadcast(to: channel), .create()] {
        request.body = [UInt8](repeating: 0x61, count: bytes)
        let answer = try server.send(request)
        #expect(answer.status == 413 && answer.reason == "PayloadTooLarge")
      }
      #expect(try server.send(.broadcast(to: channel)).status == 200)
    }
  }

  @Test(arguments: loopCounts) func curlUploadsAMegabyteAndReadsTheRefusal(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let folder = try TestFolder()
      let file = "\(folder.path)/body"
      try Data(repeating: 0x20, count: 1_048_576).write(to: URL(fileURLWithPath: file))
      let output = try run(
        "/usr/bin/curl",
        [
          "-s", "-w", " %{http_code}", "--data-binary", "@\(file)",
          "http://127.0.0.1:\(server.port)/v1/channels",
        ])
      #expect(output.contains(#""reason":"PayloadTooLarge""#) && output.hasSuffix(" 413"))
    }
  }

  /// What a stranger may ask for, and the status and reason that it gets.
  @Test(arguments: [
    ("GET", "/v1/events", 426, "UpgradeRequired"), ("GET", "/nothing", 404, "BadPath"),
    ("GET", "/v1", 404, "BadPath"), ("GET", "/1", 404, "BadPath"), ("POST", "/5/x", 404, "BadPath"),
    ("GET", "/v1/channels/nothing", 404, "ChannelNotRegistered"), ("GET", "//", 404, "BadPath"),
    ("GET", "/v1/channels/%2A", 400, "BadChannelId"), ("GET", "/v1/channels/", 400, "BadChannelId"),
    ("GET", "/v1/channels/a/b", 404, "BadPath"), ("BREW", "/healthz", 405, "MethodNotAllowed"),
    ("GET", "/%00", 400, "BadPath"),
  ])
  func everyRequestGetsAReason(_ method: String, _ path: String, _ status: Int, _ reason: String) throws {
    try withServer { server in
      let answer = try server.send(Request(method: method, path: path))
      #expect(answer.status == status && answer.reason == reason)
      #expect(answer.headers["upgrade"] == (status == 426 ? "websocket" : nil))
      #expect(answer.headers["content-type"] == "application/json")
    }
  }

  @Test(arguments: [
    (Limits.suggestedWords, #"no channel has the id or alias "match-x"; did you mean "match-0"?"#),
    (Limits.suggestedWords + 1, #"no channel has the id or alias "match-x""#),
  ])
  func anUnknownNameIsComparedWithAFewHundredAtMost(_ count: Int, _ message: String) throws {
    try withServer {
      $0.definitions = try (0..<count).map { try definition("match-\($0)") }
    } _: { server in
      struct Body: Decodable { let message: String }
      let body = try server.send(.get("/v1/channels/match-x")).json(Body.self)
      #expect(body.message == message)
    }
  }

  /// What costs a reader the most in 64 KB: deep types, many findings, long keys that are compared with known ones.
  @Test(arguments: [
    #""content-state":{"a":"\#(String(repeating: "[", count: 30_000))Int\#(String(repeating: "]", count: 30_000))"}"#,
    #""content-state":{"a":"Int\#(String(repeating: "?", count: 60_000))"}"#,
    (0..<5_000).map { #""k\#($0)":1"# }.joined(separator: ","),
    #""\#(String(repeating: "k", count: 60_000))":1"#,
  ])
  func aDefinitionThatIsHardToReadIsRefusedAndTheServerLives(_ members: String) throws {
    try withServer { server in
      var request = Request(method: "POST", path: "/v1/channels")
      request.body = Array(#"{"definition":{"app":"com.example.scores",\#(members)}}"#.utf8)
      try #require(request.body.count < Limits.requestBodyBytes)
      let answer = try server.send(request)
      #expect(answer.status == 400 && answer.reason == "BadDefinition")
      #expect(try server.health().status == "ok")
    }
  }

  @Test(arguments: loopCounts) func headIsAnsweredWithoutABody(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let connection = try ProviderConnection(server)
      for path in ["/healthz", "/", "/v1/channels"] {
        let get = try connection.send(.get(path))
        let head = try connection.send(Request(method: "HEAD", path: path))
        #expect(head.status == 200 && head.headers["content-type"] == get.headers["content-type"])
        // The next answer on the connection is whole: no stray body came before it.
        #expect(try connection.send(.get("/healthz")).json(ServerFixture.Health.self).status == "ok")
      }
    }
  }

  @Test(arguments: [
    ("", "BadRequestPayload"), ("{", "BadRequestPayload"), ("[]", "BadRequestParams"),
    (#"{"alias":"a"}"#, "BadRequestParams"), (#"{"definition":{},"more":1}"#, "BadRequestParams"),
    (#"{"alias":"a b","definition":{"app":"a.b"}}"#, "BadRequestParams"),
    (#"{"alias":7,"definition":{"app":"a.b"}}"#, "BadRequestParams"),
    (#"{"definition":{}}"#, "BadDefinition"), (#"{"definition":{"app":"a.b","budgets":1}}"#, "BadDefinition"),
    (#"{"alias":"final","definition":{"app":"a.b"}}"#, "AliasTaken"),
  ])
  func aChannelOfTheLocalInterfaceIsNotMadeFrom(_ body: String, _ reason: String) throws {
    try withServer {
      $0.definitions = [try definition("final")]
    } _: { server in
      let answer = try server.send(Request(method: "POST", path: "/v1/channels").body(body))
      #expect(answer.status == (reason == "AliasTaken" ? 409 : 400) && answer.reason == reason)
      #expect(try server.health().channels == 1)
    }
  }

  @Test(arguments: loopCounts) func aChannelOfTheLocalInterfaceIsMadeFoundAndDeleted(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let body = #"{"alias":"final","definition":{"app":"com.example.scores","message-storage-policy":1}}"#
      let created = try server.send(Request(method: "POST", path: "/v1/channels").body(body))
      let report = try created.json(ServerFixture.ChannelReport.self)
      #expect(created.status == 201 && report.alias == "final" && report.seq == 0)
      #expect(created.headers["location"] == "/v1/channels/\(pathSegment(report.id))")
      #expect(try server.send(.get("/v1/channels/final")).status == 200)
      #expect(try server.send(.read(report.id)).text.contains(#""message-storage-policy":1"#))
      #expect(try server.send(Request(method: "DELETE", path: "/v1/channels/final")).status == 204)
      #expect(try server.send(.get("/v1/channels/final")).status == 404)
    }
  }
}
