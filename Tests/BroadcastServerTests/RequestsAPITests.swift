import BroadcastChannels
import ChannelStore
import Foundation
import TestSupport
import Testing

@testable import BroadcastServer
@testable import EventLoop

@Suite("GET /v1/requests") struct RequestsAPITests {
  private struct Entry: Decodable {
    struct Finding: Decodable, Equatable { let severity, kind, key, message: String }
    let id, method, path, remote: String
    let transport: String
    let status, bytes: Int
    let userAgent, authorization, app, channel, alias, requestID, reason, detail, uniqueID, outcome: String?
    let subscribers, written, acknowledged, displayed, priority: Int?
    let defaults: [String: String]?
    let findings: [Finding]?
    let verdict: String?

    enum CodingKeys: String, CodingKey {
      case id, method, path, remote, status, authorization, app, channel, alias, reason, detail, outcome
      case subscribers, written, acknowledged, displayed, priority, defaults, findings, verdict
      case transport = "protocol"
      case bytes = "body-bytes"
      case userAgent = "user-agent"
      case requestID = "apns-request-id"
      case uniqueID = "apns-unique-id"
    }
  }

  private struct Listed: Decodable {
    let requests: [Entry]
    let next: String
  }

  private func requests(_ server: ServerFixture, _ query: String = "") throws -> [Entry] {
    let answer = try server.send(.get("/v1/requests\(query)"))
    try #require(answer.status == 200, "\(answer.text)")
    return try answer.json(Listed.self).requests
  }

  @Test("a broadcast is told with everything that explains it", arguments: loopCounts)
  func broadcast(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let subscriber = try SubscriberSocket(sessionOn: server)
      _ = try subscriber.ask(#"{"type":"subscribe","channel":"final"}"#)
      let id = "2288cf3f-70d8-46a6-97d7-dd5d00867127"
      let request = Request.broadcast(to: "final", Request.aps(more: #""state-date":1,"#))
        .header("apns-request-id", id).header("apns-priority", nil).header("user-agent", "sender/1")
        .header("authorization", "bearer secret")
      let answer = try server.send(request)
      try #require(answer.status == 200)
      _ = try subscriber.receive("message")
      try subscriber.acknowledge(1, displayed: [1])

      let entry = try #require(try requests(server).last)
      #expect(entry.method == "POST" && entry.path == "/4/broadcasts/apps/com.example.scores")
      #expect(entry.status == 200 && entry.transport == "HTTP/1.1" && entry.remote == "127.0.0.1")
      #expect(entry.app == "com.example.scores" && entry.alias == "final" && entry.requestID == id)
      #expect(entry.channel == (try server.report("final").id))
      #expect(entry.uniqueID == answer.headers["apns-unique-id"] && entry.outcome == "delivered")
      #expect(entry.priority == 10 && entry.bytes == request.body.count)
      #expect(entry.defaults == ["apns-priority": "10"])
      #expect(entry.userAgent == "sender/1" && entry.authorization == "bearer")
      // Live: the device answered after the request was.
      #expect(
        [entry.subscribers, entry.written, entry.acknowledged, entry.displayed] == [1, 1, 1, 1])
      #expect(entry.findings?.map(\.key) == ["aps.state-date"])
      #expect(entry.verdict?.hasPrefix("accepted, but aps.state-date is no key of aps") == true)
      #expect(!server.log.value.contains { $0.contains("secret") })
      #expect(server.log.value.contains { $0.hasPrefix("debug request POST /4/broadcasts/apps/") })
    }
  }

  @Test(
    "refused requests are told with their reason and what to do, and so is the rest of the API",
    arguments: loopCounts)
  func refusals(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let id = try server.createChannel()
      _ = try server.send(.read(id))
      _ = try server.send(.list())
      _ = try server.send(.delete(id))
      _ = try server.send(.read("AAAA"))
      _ = try server.send(.broadcast(to: "final", priority: 10).header("apns-priority", "7"))
      _ = try server.send(Request(method: "PUT", path: "/1/apps/com.example.scores/channels?a=secret"))
      _ = try server.send(Request(method: "POST", path: "/3/device/0123456789abcdef"))
      let all = try requests(server)
      #expect(all.map(\.status) == [201, 200, 200, 204, 400, 400, 405, 400])
      let reasons = all.compactMap(\.reason)
      #expect(reasons == ["ChannelNotRegistered", "BadPriority", "MethodNotAllowed", "BadDeviceToken"])
      #expect([0, 1, 3].allSatisfy { all[$0].channel == id } && all[2].channel == nil)
      #expect(all[4].channel == "AAAA" && all[4].detail?.contains("has no channel AAAA") == true)
      #expect(all[5].detail == "apns-priority is \"7\"; 10, 5 or 1 was expected" && all[5].outcome == nil)
      #expect(all[6].path == "/1/apps/com.example.scores/channels")
      #expect(all[7].path == "/3/device/01234567…")
      #expect(all.allSatisfy { $0.requestID != nil && $0.verdict == nil && $0.subscribers == nil })
      #expect(try requests(server, "?status=4xx&limit=2").map(\.status) == [405, 400])
    }
  }

  @Test("a push to a device is told, with what became of it and without its token", arguments: loopCounts)
  func pushes(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let token = try device.token("start")
      let start = Request.start(#""input-push-channel":"nowhere","#)
      let answer = try server.send(.push(to: token, start, id: Request.id))
      _ = try device.acknowledge(try device.socket.receive("push"))
      _ = try server.send(.push(to: token, start, id: Request.id))
      try device.leave(server)
      _ = try server.send(.push(to: token, Request.start()))
      let all = try requests(server)
      #expect(all.map(\.outcome) == ["delivered", "repeated", "undeliverable"])
      let first = try #require(all.first)
      #expect(first.app == Request.app && first.requestID == Request.id)
      #expect(first.uniqueID == answer.headers["apns-unique-id"] && first.priority == 10)
      #expect(
        [first.subscribers, first.written, first.acknowledged, first.displayed] == [1, 1, 1, 0])
      #expect(first.findings?.map(\.key) == ["aps.input-push-channel", "aps.alert"])
      #expect(first.verdict?.contains("names no channel of the app") == true)
      #expect(all[1].verdict?.hasPrefix("a repetition") == true)
      #expect(all[2].verdict?.contains("the device is away") == true && all[2].subscribers == nil)
      #expect(all.allSatisfy { $0.path == "/3/device/\(token.prefix(8))…" })
    }
  }

  @Test("publish frames are told as well, also those that are wrong", arguments: loopCounts)
  func frames(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let session = try SubscriberSocket(server, "/v1/events", headers: "User-Agent: feed/2\r\n")
      let id = "2288cf3f-70d8-46a6-97d7-dd5d00867127"
      let good = #"{"type":"publish","channel":"final","request-id":"\#(id)","aps":\#(Request.aps())}"#
      for text in [
        good, good, #"{"type":"publish","channel":"nobody","aps":{}}"#,
        #"{"type":"publish","channel":"final","priority":7,"aps":{}}"#,
        #"{"type":"publish","channel":"final"}"#, #"{"type":"listen","channel":"nobody"}"#,
      ] {
        _ = try session.ask(text)
      }
      let own = try SubscriberSocket(server, streamOf: "final")
      _ = try own.receive("subscribed")
      _ = try own.ask(#"{"type":"publish","channel":"final","aps":\#(Request.aps())}"#)
      let all = try requests(server)
      #expect(all.map(\.status) == [200, 200, 400, 400, 400, 200])
      #expect(all.map(\.outcome) == ["delivered", "repeated", nil, nil, nil, "delivered"])
      #expect(all.compactMap(\.reason) == ["ChannelNotRegistered", "BadPriority", "PayloadEmpty"])
      #expect(all.allSatisfy { $0.method == "publish" && $0.transport == "WebSocket" })
      #expect(all[0].requestID == id && all[0].userAgent == "feed/2" && all[0].bytes == good.utf8.count)
      #expect(all[0].uniqueID == all[1].uniqueID && all[1].verdict?.hasPrefix("a repetition") == true)
      #expect(all[0].path == "/v1/events" && all[5].path == "/v1/channels/final/events")
    }
  }

  // MARK: The stream

  /// An open stream of the log.
  private func stream(
    _ server: ServerFixture, _ query: String = "", lastEventID: String? = nil
  ) throws -> RawSocket {
    let connection = try ProviderConnection(server)
    let request = Request.get("/v1/requests\(query)").header("accept", "text/event-stream")
    connection.socket.write(request.header("last-event-id", lastEventID).bytes)
    #expect(connection.socket.read(until: "\r\n\r\n").contains("content-type: text/event-stream"))
    #expect(connection.socket.read(until: "\n\n") == "retry: 1000\n\n")
    return connection.socket
  }

  private func next(_ socket: RawSocket) throws -> Entry {
    let lines = socket.read(until: "\n\n").split(separator: "\n")
    try #require(lines.count == 3 && lines[1] == "event: request", "\(lines)")
    let entry = try JSONDecoder().decode(Entry.self, from: Data(lines[2].dropFirst(6).utf8))
    #expect(lines[0] == "id: \(entry.id)")
    return entry
  }

  @Test("a stream begins with the last entries and goes on with each that comes", arguments: loopCounts)
  func following(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      for app in ["com.example.a", "com.example.b", "com.example.c"] { _ = try server.send(.list(app: app)) }
      let all = try stream(server, "?limit=2")
      let some = try stream(server, "?limit=0&app=com.example.e")
      #expect(try next(all).app == "com.example.b")
      let third = try next(all)
      for app in ["com.example.d", "com.example.e"] { _ = try server.send(.list(app: app)) }
      #expect(try [next(all), next(all)].map(\.app) == ["com.example.d", "com.example.e"])
      #expect(try next(some).app == "com.example.e")
      let resumed = try stream(server, "?limit=0", lastEventID: third.id)
      #expect(try next(resumed).app == "com.example.d")
      #expect(try server.health().sessions == 3)
      for socket in [all, some, resumed] { socket.reset() }
      // Each is found gone when something is sent to it.
      try waitUntil("the streams to be gone") {
        _ = try server.send(.list(app: "com.example.e"))
        return try server.health().sessions == 0
      }
    }
  }

  @Test("a message's entry comes with its devices' answers, when they answer soon", arguments: loopCounts)
  func settling(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      let entries = try stream(server)
      for number in 1...2 {
        _ = try server.send(.broadcast(to: "final"))
        _ = try subscriber.receive("message")
        // The second one isn't answered: its entry comes all the same.
        if number == 1 { try subscriber.acknowledge(1, displayed: [1]) }
      }
      #expect(try next(entries).displayed == 1)
      #expect(try next(entries).acknowledged == 0)
    }
  }

  /// A connection that takes so many events and no more, until it is allowed further ones.
  private final class Narrow: Carrier {
    var isOpen = true
    var room: Int
    private(set) var taken: [String] = []

    init(room: Int) { self.room = room }

    func send(_ bytes: [UInt8]) -> Bool {
      guard room > 0 else { return false }
      room -= 1
      taken.append(String(decoding: bytes, as: UTF8.self))
      return true
    }

    func ping() {}
    func close(code: UInt16, reason: String) { isOpen = false }
  }

  @Test("a reader that reads nothing is remembered by a number alone, and hears what it missed")
  func slowReader() throws {
    let log = RequestLog(epoch: "e", log: .silent)
    func add(_ count: Int) {
      for _ in 0..<count {
        let request = LoggedRequest(HTTPRequest(method: "GET", path: "/4/x"), at: Date(), clock: 0)
        log.add(request, status: 404, RequestFacts(), clock: 0)
      }
    }
    let loop = try EventLoop()
    let registry = SessionRegistry()
    let environment = HubEnvironment(now: { Date() }, schedule: { _, _ in {} })
    let services = SessionServices(
      hub: Hub(store: MemoryChannelStore(), environment: environment, log: .silent),
      pushes: PushRegistry(environment: environment), registry: registry,
      sweep: KeepAliveSweep(loop: loop, keepAlive: KeepAlive(ping: 20, silence: 60)),
      access: AccessControl(ServerConfiguration(), keys: nil, now: environment.now), requests: log)
    let stream = RequestStream(services, caller: Caller(.anybody), filter: RequestFilter(), next: 1)
    let connection = Connection(
      kind: .eventStream, remoteAddress: "127.0.0.1", subprotocol: nil, now: loop.now, handler: stream)
    let narrow = Narrow(room: 3)
    connection.attach(narrow)
    stream.opened(connection)
    add(3)
    #expect(narrow.taken.map { $0.prefix(10) } == ["retry: 100", "id: e:1\nev", "id: e:2\nev"])
    #expect(stream.stalledSince != nil && registry.count == 1)
    add(Limits.requestLogEntries + 4)
    stream.keepAlive()
    #expect(narrow.taken.count == 3)
    // 1,007 entries came, the newest 1,000 are kept, and two were taken.
    narrow.room = 2
    stream.writable(connection)
    #expect(narrow.taken[3] == "event: missed\ndata: {\"missed\":5}\n\n")
    #expect(narrow.taken[4].hasPrefix("id: e:8\nevent: request\n"))
    narrow.room = .max
    stream.writable(connection)
    #expect(narrow.taken.last?.hasPrefix("id: e:1007\n") == true && stream.stalledSince == nil)
    #expect(narrow.taken.count == 2 + Limits.requestLogEntries + 2)
    stream.keepAlive()
    #expect(narrow.taken.last == ": keep-alive\n\n")
    connection.ended(code: nil, reason: "")
    add(1)
    #expect(registry.count == 0 && narrow.taken.last == ": keep-alive\n\n")
  }

  @Test("bad arguments of a stream are refused before it begins", arguments: loopCounts)
  func refusedStreams(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      for (query, id) in [("?limit=x", nil), ("", "x"), ("?x", nil)] {
        let request = Request.get("/v1/requests\(query)").header("accept", "text/event-stream")
        let answer = try server.send(request.header("last-event-id", id))
        #expect(answer.status == 400 && answer.reason == "BadRequestParams")
      }
      let head = Request(
        method: "HEAD", path: "/v1/requests", headers: ["accept": "text/event-stream"])
      #expect(try server.send(head).headers["content-type"] == "text/event-stream")
    }
  }
}
