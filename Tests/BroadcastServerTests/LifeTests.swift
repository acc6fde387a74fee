import BroadcastChannels
import BroadcastServer
import ChannelStore
import EventLoop
import Foundation
import TestSupport
import Testing

@Suite struct ShutDownTests {
  @Test(arguments: loopCounts) func everyWebSocketIsClosedWith1012EveryStreamEndsAndTheLoopReturns(
    _ loops: Int
  ) throws {
    let server = try ServerFixture(loops: loops) { $0.definitions = [try definition("final")] }
    let stream = try SubscriberSocket(server, streamOf: "final")
    let session = try SubscriberSocket(sessionOn: server)
    let events = try Program(
      "/usr/bin/curl",
      ["-sN", "--max-time", "20", "http://127.0.0.1:\(server.port)/v1/channels/final/events"])
    let client = try Program(
      "/usr/bin/python3",
      [
        "-c",
        """
        import asyncio, websockets
        async def main():
          async with websockets.connect("ws://127.0.0.1:\(server.port)/v1/channels/final/events") as ws:
            try:
              while True: await ws.recv()
            except websockets.ConnectionClosed as e:
              print(e.code)
        asyncio.run(main())
        """,
      ])
    try server.waitForSubscribers(3, of: "final")
    server.shutDown()
    for subscriber in [stream, session] { #expect(try subscriber.closeCode() == 1012) }
    #expect(client.output() == "1012\n")
    #expect(events.output().contains("event: subscribed\n"))
    try server.waitForEnd()
    #expect(server.log.value.last == "info shutting down; 4 sessions are told")
    // The port is free again.
    let next = try ServerFixture(loops: loops) { $0.port = server.port }
    next.shutDown()
    try next.waitForEnd()
  }

  @Test(arguments: loopCounts) func aRequestThatArrivesMeanwhileIsToldShutdown(_ loops: Int) throws {
    let server = try ServerFixture(loops: loops) { $0.definitions = [try definition("final")] }
    let channel = try server.report("final").id
    // A subscriber that doesn't answer its close frame holds the shutdown up.
    let silent = try SubscriberSocket(server, streamOf: "final")
    _ = try silent.receive("subscribed")
    let requests: [(Request, Int, String?)] = [
      (.broadcast(to: channel), 503, "Shutdown"), (.create(), 503, "Shutdown"), (.read(channel), 200, nil),
      (.get("/healthz"), 503, nil),
    ]
    let connections = try requests.map { request, _, _ in
      let connection = try ProviderConnection(server)
      connection.socket.write(Array(request.bytes.prefix(20)))
      return connection
    }
    // Connections are served in their order: these are known to the server once it has answered a later one.
    _ = try server.health()
    server.shutDown()
    try server.log.wait("the shutdown") { $0.last?.contains("shutting down") == true }
    for (connection, expected) in zip(connections, requests) {
      connection.socket.write(Array(expected.0.bytes.dropFirst(20)))
      let answer = try connection.readAnswer()
      #expect(answer.status == expected.1 && answer.reason == expected.2)
      #expect(answer.headers["connection"] == "close")
    }
    #expect(try silent.closeCode() == 1012)
    try server.waitForEnd()
  }

  @Test(arguments: loopCounts) func aPeerThatNeverAnswersHoldsTheShutdownUpForAFewSecondsOnly(_ loops: Int)
    throws
  {
    let server = try ServerFixture(loops: loops) { $0.definitions = [try definition("final")] }
    let silent = try SubscriberSocket(server, streamOf: "final")
    server.shutDown()
    try server.waitForEnd()
    #expect(silent.head.hasPrefix("HTTP/1.1 101 "))
  }

  @Test(arguments: loopCounts) func aSecondShutDownStopsAtOnce(_ loops: Int) throws {
    let server = try ServerFixture(loops: loops) { $0.definitions = [try definition("final")] }
    let silent = try SubscriberSocket(server, streamOf: "final")
    let start = Date()
    server.shutDown()
    server.shutDown()
    try server.waitForEnd()
    #expect(Date().timeIntervalSince(start) < Limits.shutdownSeconds)
    #expect(silent.head.hasPrefix("HTTP/1.1 101 "))
  }
}

@Suite struct WindowTests {
  /// A window that no test waits for.
  private let patient = #"{"app":"com.example.scores","message-storage-policy":1,"windows":{"5":60,"1":60}}"#

  private func publishAnEnd(_ server: ServerFixture) throws {
    let request = Request.broadcast(
      to: "final", Request.aps(event: "end"), priority: 5, expiration: Request.now + 600)
    #expect(try server.send(request).headers["touchline-outcome"] == "windowed")
  }

  @Test(arguments: loopCounts) func theNewestMessageGoesOutWhenTheWindowEnds(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final", #"{"app":"com.example.scores","windows":{"5":0.3,"1":60}}"#)]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      // The message at 5 brings the end of the window forward that the one at 1 opened.
      let names = try [1, 5, 5].map {
        try server.send(.broadcast(to: "final", priority: $0)).headers["apns-unique-id"]
      }
      let message = try subscriber.receive("message")
      #expect(message.uniqueID == names.last && message.seq == 1 && message.priority == 5)
      let counts = try server.report("final").counts
      #expect(counts.windowed == 3 && counts.superseded == 2 && counts.delivered == 1)
    }
  }

  @Test(arguments: loopCounts) func deletingAChannelRecallsNothingThatWaitsInItsWindow(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final", patient)]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      try publishAnEnd(server)
      #expect(try server.send(Request(method: "DELETE", path: "/v1/channels/final")).status == 204)
      let message = try subscriber.receive("message")
      #expect(message.seq == 1 && abs((message.sent ?? 0) - Date().timeIntervalSince1970) < 30)
      _ = try subscriber.receive("unsubscribed")
    }
  }

  @Test(arguments: loopCounts) func shuttingDownSendsAndStoresWhatWaitsInAWindow(_ loops: Int) throws {
    let folder = try TestFolder()
    let file = "\(folder.path)/channels.sqlite"
    try withServer(loops: loops) {
      $0.store = { try SQLiteChannelStore(path: file) }
      $0.definitions = [try definition("final", patient)]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      try publishAnEnd(server)
      server.shutDown()
      #expect(try subscriber.receive("message").seq == 1)
      #expect(try subscriber.closeCode() == 1012)
    }
    try withServer(loops: loops) {
      $0.store = { try reopenedStore(file) }
    } _: { server in
      let late = try SubscriberSocket(server, streamOf: "final")
      #expect(try late.receive("subscribed").seq == 1)
      #expect(try late.receive("message").seq == 1)
    }
  }
}

@Suite struct StartTests {
  @Test(arguments: loopCounts) func aPortInUseIsAnError(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      #expect(throws: EventLoopError.portInUse(address: "127.0.0.1:\(server.port)")) {
        try ServerFixture(loops: loops) { $0.port = server.port }
      }
      let status = try server.health().status
      #expect(status == "ok")
    }
  }

  @Test(arguments: loopCounts) func definitionsBecomeChannels(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("b"), try definition("a", #"{"app":"com.example.other"}"#)]
    } _: { server in
      struct List: Decodable {
        struct Channel: Decodable { let alias, app: String }
        let channels: [Channel]
      }
      let list = try server.send(.get("/v1/channels")).json(List.self).channels
      #expect(list.map(\.alias) == ["a", "b"])
      #expect(list.map(\.app) == ["com.example.other", "com.example.scores"])
    }
  }
}

@Suite struct RestartTests {
  private let folder: TestFolder

  init() throws { folder = try TestFolder() }

  private var file: String { "\(folder.path)/channels.sqlite" }

  private func withStoredServer(
    _ definitions: [ChannelDefinition] = [], _ body: (ServerFixture) throws -> Void
  ) throws {
    let file = self.file
    try withServer(
      {
        $0.store = { try SQLiteChannelStore(path: file) }
        $0.definitions = definitions
      }, body)
  }

  @Test func aStoringChannelStandsWhereItStood() throws {
    var before: ServerFixture.ChannelReport?
    let aps = #"{ "timestamp":\#(Request.now), "event":"update","content-state":{"b":1.50,"a":"\u00e9"}}"#
    try withStoredServer([try unlimited("final", policy: 1)]) { server in
      for text in [Request.aps(timestamp: 1), aps] {
        let request = Request.broadcast(to: "final", text, expiration: Request.now + 600)
        #expect(try server.send(request).status == 200)
      }
      before = try server.report("final")
    }
    let old = try #require(before)
    #expect(old.seq == 2)
    try withStoredServer { server in
      let now = try server.report("final")
      #expect(now.id == old.id && now.alias == "final" && now.epoch == old.epoch && now.seq == 2)
      #expect(try server.send(.read(now.id)).text.contains(#""message-storage-policy":1"#))
      let subscriber = try SubscriberSocket(server, streamOf: now.id)
      #expect(try subscriber.receive("subscribed").seq == 2)
      #expect(try subscriber.receiveText().hasSuffix("\"aps\":\(aps)}"))
      let resumed = try SubscriberSocket(
        server, "/v1/channels/final/events?epoch=\(old.epoch)&seq=2")
      _ = try resumed.receive("subscribed")
      #expect(try server.send(.broadcast(to: "final")).status == 200)
      for late in [subscriber, resumed] { #expect(try late.receive("message").seq == 3) }
    }
    try withStoredServer { server in
      // A message that is not stored moves the position all the same, and leaves the stored one alone.
      #expect(try server.report("final").seq == 3)
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      #expect(try subscriber.receiveText().hasSuffix("\"aps\":\(aps)}"))
    }
  }

  @Test func aChannelThatStoresNothingKeepsItsIdAndBeginsANewEpoch() throws {
    var before: ServerFixture.ChannelReport?
    var id = ""
    try withStoredServer([try definition("final")]) { server in
      id = try server.createChannel()
      #expect(try server.send(.broadcast(to: "final")).status == 200)
      before = try server.report("final")
    }
    let old = try #require(before)
    try withStoredServer { server in
      let now = try server.report("final")
      #expect(now.id == old.id && now.alias == "final")
      #expect(now.epoch != old.epoch && now.seq == 0)
      #expect(try server.send(.read(id)).status == 200)
      #expect(try server.health().channels == 2)
    }
  }

  @Test func aDeletedChannelStaysDeleted() throws {
    var id = ""
    try withStoredServer { server in
      id = try server.createChannel(policy: 1)
      let request = Request.broadcast(to: id, expiration: Request.now + 600)
      #expect(try server.send(request).status == 200)
      #expect(try server.send(.delete(id)).status == 204)
    }
    try withStoredServer { server in
      let reason = try server.send(.read(id)).reason
      #expect(reason == "ChannelNotRegistered")
      #expect(try server.health().channels == 0)
    }
  }

  @Test func aDefinitionTakesOverTheStoredChannelOfItsName() throws {
    var id = ""
    try withStoredServer([try definition("final")]) { id = try $0.report("final").id }
    try withStoredServer([try unlimited("final")]) { server in
      let now = try server.report("final").id
      #expect(now == id)
      #expect(try server.send(.broadcast(to: "final")).headers["ratelimit"] == nil)
    }
  }

  @Test(arguments: [
    #"{"app":"com.example.scores","message-storage-policy":1}"#, #"{"app":"com.example.other"}"#,
  ])
  func aDefinitionThatAsksForWhatCannotChangeIsRefused(_ json: String) throws {
    try withStoredServer([try definition("final")]) { _ in }
    let refused = #expect(throws: DefinitionConflict.self) {
      try withStoredServer([try definition("final", json)]) { _ in }
    }
    #expect(refused?.alias == "final")
    try withStoredServer { server in
      let channels = try server.health().channels
      #expect(channels == 1)
    }
  }

  @Test func aSecondServerOnTheFileIsRefusedAndTheFirstGoesOn() throws {
    try withStoredServer { server in
      let refused = #expect(throws: StoreError.self) { try withStoredServer { _ in } }
      #expect(refused?.description.contains("another server is using it") == true)
      let status = try server.send(.create()).status
      #expect(status == 201)
    }
  }
}
