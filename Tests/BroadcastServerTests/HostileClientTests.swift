// Clients that do harm, on purpose or by bad luck, one by one. After each the server serves everybody else.

import BroadcastChannels
import BroadcastServer
import EventLoop
import Foundation
import TestSupport
import Testing

/// Runs a hostile client against a server with one channel, and checks that the server is well afterwards: nobody is left
/// behind, and who subscribes hears what is published.
private func withHealthySurvivor(
  _ configure: (inout ServerFixture.Setup) throws -> Void = { _ in }, _ body: (ServerFixture) throws -> Void
) throws {
  for loops in loopCounts {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
      try configure(&$0)
    } _: { server in
      let witness = try SubscriberSocket(server, streamOf: "final")
      _ = try witness.receive("subscribed")
      try body(server)
      let before = try server.report("final").seq
      #expect(try server.send(.broadcast(to: "final")).status == 200)
      while try witness.receive("message").seq != before + 1 {}
      try server.waitForSubscribers(1, of: "final")
      try waitUntil("the others to be gone") { try server.health().sessions == 1 }
    }
  }
}

@Suite struct HostileClientTests {
  private static let subscribe = #"{"type":"subscribe","channel":"final"}"#
  private static let unsubscribe = #"{"type":"unsubscribe","channel":"final"}"#

  @Test("resets in the middle of a request, a handshake, a frame and a message")
  func resets() throws {
    try withHealthySurvivor { server in
      let request = Request.broadcast(to: "final").bytes
      let handshake = Array(
        ("GET /v1/channels/final/events HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n").utf8)
      for part in [1, 20, request.count - 1, request.count] {
        let socket = try RawSocket(port: server.port)
        socket.write(Array(request.prefix(part)))
        socket.reset()
      }
      for part in [30, handshake.count - 1, handshake.count] {
        let socket = try RawSocket(port: server.port)
        socket.write(Array(handshake.prefix(part)))
        socket.reset()
      }
      let frame = clientFrame(1, Array(Self.subscribe.utf8))
      for part in 1..<frame.count {
        let socket = try SubscriberSocket(server, streamOf: "final")
        socket.socket.write(Array(frame.prefix(part)))
        socket.socket.reset()
      }
      let fragment = try SubscriberSocket(server, streamOf: "final")
      fragment.socket.write(clientFrame(1, Array(Self.subscribe.utf8.prefix(9)), final: false))
      fragment.socket.reset()
    }
  }

  @Test("a frame, and a message of fragments with pings between them, that never end are ended with 1008")
  func endlessFrames() throws {
    try withHealthySurvivor {
      $0.handshakeSeconds = 1
      $0.keepAlive = KeepAlive(ping: 0.4, silence: 60)
    } _: { server in
      let half = try SubscriberSocket(server, streamOf: "final")
      half.socket.write(Array(clientFrame(1, Array(Self.subscribe.utf8)).prefix(12)))
      let fragments = try SubscriberSocket(server, streamOf: "final")
      fragments.socket.write(clientFrame(1, Array("{".utf8), final: false))
      let isOver = Box(false)
      let socket = fragments.socket
      Thread {
        while !isOver.value {
          socket.write(clientFrame(9, []))
          Thread.sleep(forTimeInterval: 0.02)
        }
      }.start()
      defer { isOver.value = true }
      #expect(try half.closeCode() == 1008)
      #expect(try fragments.closeCode() == 1008)
    }
  }

  @Test("slow-loris: heads and bodies a byte at a time have as long as everybody else")
  func slowLoris() throws {
    try withHealthySurvivor {
      $0.handshakeSeconds = 1
    } _: { server in
      let head = try RawSocket(port: server.port)
      let body = try RawSocket(port: server.port)
      body.write(
        "POST /4/broadcasts/apps/com.example.scores HTTP/1.1\r\nHost: x\r\ncontent-length: 5000\r\n\r\n")
      let isOver = Box(false)
      Thread {
        for byte in "GET /v1/channels HTTP/1.1\r\nHost: x\r\nx-slow: \(String(repeating: "x", count: 4_000))"
          .utf8
        where !isOver.value {
          head.write([byte])
          body.write([byte])
          Thread.sleep(forTimeInterval: 0.01)
        }
      }.start()
      defer { isOver.value = true }
      #expect(head.readAll().hasPrefix("HTTP/1.1 408 "))
      #expect(body.readAll().hasPrefix("HTTP/1.1 408 "))
    }
  }

  @Test("permessage-deflate is refused, and a compressed message ends with 1002")
  func compression() throws {
    try withHealthySurvivor { server in
      let socket = try SubscriberSocket(
        server, "/v1/channels/final/events",
        headers: "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n")
      #expect(socket.head.hasPrefix("HTTP/1.1 101 "))
      #expect(!socket.head.lowercased().contains("sec-websocket-extensions"))
      // "Hello", deflated (RFC 7692 section 7.2.3.1), with RSV1.
      socket.socket.write([0xc1, 0x87, 0, 0, 0, 0, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00])
      #expect(try socket.closeCode() == 1002)
    }
  }

  @Test(
    "an upgrade to anything else is ignored or refused, and WebSocket is found in any case",
    arguments: [
      ("h2c", "Upgrade, HTTP2-Settings", "200"), ("TLS/1.0", "Upgrade", "200"),
      ("websockets", "Upgrade", "200"),
      ("WebSocket", "upgrade", "101"), ("foo, WEBSOCKET", "keep-alive, UPGRADE", "101"),
      ("websocket", "keep-alive", "200"),
    ])
  func upgrades(_ name: String, _ connection: String, _ status: String) throws {
    try withHealthySurvivor { server in
      let socket = try RawSocket(port: server.port)
      let path = status == "101" ? "/v1/channels/final/events" : "/healthz"
      socket.write(
        "GET \(path) HTTP/1.1\r\nHost: x\r\nUpgrade: \(name)\r\nConnection: \(connection)\r\n"
          + "HTTP2-Settings: AAMAAABk\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
          + "Sec-WebSocket-Version: 13\r\n\r\n")
      #expect(socket.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 \(status) "))
    }
  }

  @Test("who sends requests and reads no answers is closed, and the answers don't pile up")
  func answersPileUp() throws {
    try withHealthySurvivor { server in
      let deaf = try SubscriberSocket(server, "/v1/events", receiveBuffer: 4_096)
      let socket = deaf.socket
      let isOver = Box(false)
      Thread {
        // Each is answered with an error of some hundred bytes.
        for _ in 0..<15_000 { socket.write(clientFrame(1, Array(Self.unsubscribe.utf8))) }
        isOver.value = true
      }.start()
      try waitUntil("it to be closed") { try server.health().sessions == 1 }
      socket.reset()
      try isOver.wait("the writer") { $0 }
    }
  }

  @Test("subscribing and unsubscribing without end is closed with 1008")
  func frameFlood() throws {
    try withHealthySurvivor {
      $0.limits.framesPerSession = 100
    } _: { server in
      let flood = try SubscriberSocket(sessionOn: server)
      let pair = clientFrame(1, Array(Self.subscribe.utf8)) + clientFrame(1, Array(Self.unsubscribe.utf8))
      let socket = flood.socket
      Thread { for _ in 0..<5_000 { socket.write(pair) } }.start()
      #expect(try flood.closeCode() == 1008)
    }
  }

  @Test("bombs of headers and query arguments are answered 431, or as any other request")
  func bombs() throws {
    try withHealthySurvivor { server in
      let headers = try RawSocket(port: server.port)
      headers.write("GET / HTTP/1.1\r\nHost: x\r\n\(String(repeating: "a: b\r\n", count: 2_000))\r\n")
      #expect(headers.readAll().hasPrefix("HTTP/1.1 431 "))
      let query = try RawSocket(port: server.port)
      query.write("GET /v1/requests?\(String(repeating: "a=b&", count: 1_900)) HTTP/1.1\r\nHost: x\r\n\r\n")
      #expect(query.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 400 "))
      let path = try RawSocket(port: server.port)
      path.write("GET \(String(repeating: "/%2e%2e", count: 1_100)) HTTP/1.1\r\nHost: x\r\n\r\n")
      #expect(path.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 404 "))
    }
  }

  @Test("floods of half-closed sockets, and of clients that connect and leave")
  func floods() throws {
    try withHealthySurvivor { server in
      for round in 0..<10 {
        let half = try (0..<100).map { _ in try RawSocket(port: server.port) }
        for socket in half { socket.endWriting() }
        for number in 0..<100 {
          let socket = try RawSocket(port: server.port)
          if number % 2 == round % 2 { socket.reset() }
        }
        let open = try (0..<50).map { _ in try SubscriberSocket(server, streamOf: "final") }
        for socket in open { socket.socket.endWriting() }
      }
    }
  }

  @Test("a session passes on so many pressed buttons a second, and goes on after a refusal")
  func intents() throws {
    let definition = try definition(
      "final",
      #"""
      {"app":"com.example.scores","content-state":{"followed":"Bool"},
       "actions":{"follow":{"title":"Follow","sets":{"followed":true}}}}
      """#)
    try withHealthySurvivor {
      $0.definitions = [definition]
    } _: { server in
      let phone = try SubscriberSocket(sessionOn: server)
      func press() throws -> Frame {
        try phone.ask(
          #"{"type":"intent","channel":"final","action":"follow","request-id":"\#(UUID().uuidString)"}"#)
      }
      var frames = [try press()]
      while frames.last?.type == "intent-accepted", frames.count < 2_000 { frames.append(try press()) }
      #expect(frames.count > Int(Limits.intentBurst))
      #expect(frames.last?.reason == "TooManyRequests" && (frames.last?.retryAfter ?? 0) > 0)
      #expect(try phone.ask(Self.subscribe).type == "subscribed")
      phone.socket.reset()
    }
  }
}

@Suite struct VisitorLimitTests {
  private func ask(_ server: ServerFixture, _ request: Request, from host: String) throws -> Answer {
    let connection = try ProviderConnection(server, from: host)
    return try connection.send(request)
  }

  @Test("who asks too often is answered 429 with retry-after; another address isn't")
  func requests() throws {
    try withServer {
      $0.limits.requestsPerAddress = 2
      $0.limits.unlimitedAddresses = []
    } _: { server in
      let flood = try ProviderConnection(server, from: "127.0.0.2")
      var answers: [Answer] = []
      while answers.last?.status != 429, answers.count < 500 { answers.append(try flood.send(.list())) }
      #expect(answers.count > 10)
      let refused = try #require(answers.last)
      #expect(refused.reason == "TooManyRequests" && refused.headers["retry-after"] == "1")
      #expect(refused.headers["touchline-detail"]?.contains("from your address") == true)
      #expect(try ask(server, .list(), from: "127.0.0.3").status == 200)
      // A handshake is a request.
      var head = ""
      for _ in 0..<50 where !head.hasPrefix("HTTP/1.1 429 ") {
        head = try RawSocket(port: server.port, from: "127.0.0.2").upgrade(path: "/v1/events")
      }
      #expect(head.hasPrefix("HTTP/1.1 429 ") && head.contains("retry-after: "))
      #expect(server.log.value.count { $0.contains("127.0.0.2 asks too often") } == 1)
    }
  }

  @Test("whoever ends on another loop than it came to makes room as well", arguments: loopCounts)
  func room(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
      $0.limits.connections = 20
    } _: { server in
      for round in 0..<5 {
        let sessions = try (0..<10).map { _ in try SubscriberSocket(server, streamOf: "final") }
        for session in sessions { _ = try session.receive("subscribed") }
        try server.waitForSubscribers(10, of: "final")
        if round % 2 == 0 { for session in sessions { session.socket.reset() } }
        for session in sessions { session.socket.endWriting() }
        try waitUntil("them to be gone") { try server.health().sessions == 0 }
      }
    }
  }

  @Test("when clients have every connection, probes and scrapes from unlimited addresses still get through")
  func reserve() throws {
    try withServer {
      $0.limits.connections = 3
      $0.limits.unlimitedAddresses = try [#require(AddressRange("127.0.0.1"))]
    } _: { server in
      let clients = try (0..<3).map { _ in try RawSocket(port: server.port, from: "127.0.0.2") }
      for client in clients { #expect(client.upgrade(path: "/v1/events").hasPrefix("HTTP/1.1 101 ")) }
      let late = try RawSocket(port: server.port, from: "127.0.0.2")
      #expect(late.upgrade(path: "/v1/events").hasPrefix("HTTP/1.1 503 "))
      for path in ["/healthz", "/readyz", "/metrics"] {
        #expect(try ask(server, .get(path), from: "127.0.0.1").status == 200, "\(path)")
      }
    }
  }

  @Test("many bad tokens from an address are answered 429, unless they were checked before")
  func badTokens() throws {
    let keys = try Keys(subscribe: "token")
    try withServer {
      $0.keys = keys.folder.path
      $0.limits.unlimitedAddresses = []
    } _: { server in
      let good = try keys.scores.token()
      let flood = try ProviderConnection(server, from: "127.0.0.2")
      #expect(try flood.send(.list().token(good)).status == 200)
      let parts = good.split(separator: ".").map(String.init)
      var answers: [Answer] = []
      for number in 0..<1_000 where answers.last?.status != 429 {
        let signature = String(number).padding(toLength: 86, withPad: "A", startingAt: 0)
        answers.append(try flood.send(.list().token("\(parts[0]).\(parts[1]).\(signature)")))
      }
      #expect(answers.dropLast().allSatisfy { $0.status == 403 && $0.reason == "InvalidProviderToken" })
      // Each counts once, although the request log asks whose it is: 100, and 5 a second come back.
      #expect(answers.count > 100)
      #expect(answers.last?.headers["touchline-detail"]?.contains("too many bad tokens") == true)
      let refused = #"touchline_clients_refused_total{reason="address-credentials"}"#
      #expect(try server.metric(refused) == 1)
      #expect(answers.last?.reason == "TooManyRequests" && answers.last?.headers["retry-after"] != nil)
      // What was checked before costs nothing: the good token goes on, and so does the reason of a bad one.
      #expect(try flood.send(.list().token(good)).status == 200)
      // A new one has to wait, be it good: of a subscriber, too, and on a path that is refused before.
      let fresh = try keys.scores.subscriberToken(["final"])
      #expect(try flood.send(Request.get("/v1/channels").token(fresh)).status == 429)
      #expect(try ask(server, Request.get("/v1/channels").token(fresh), from: "127.0.0.3").status == 200)
      #expect(try server.metric(refused) == 2)
      #expect(server.log.value.count { $0.contains("127.0.0.2 shows too many bad tokens") } == 1)
    }
  }
}

@Suite struct GoodbyeTests {
  @Test(
    "sessions are parted with in waves, each with a time to come back, and closed with 1012",
    arguments: loopCounts)
  func waves(_ loops: Int) throws {
    let server = try ServerFixture(loops: loops) { $0.definitions = [try definition("final")] }
    let count = 3 * Limits.sessionsPerWave
    let sessions = try (0..<count).map { _ in try SubscriberSocket(server, streamOf: "final") }
    for session in sessions { _ = try session.receive("subscribed") }
    server.shutDown()
    var hints: [Double] = []
    for session in sessions {
      let goodbye = try session.receive("goodbye")
      hints.append(try #require(goodbye.retryIn))
      do {
        _ = try session.receive()
        Issue.record("no close frame")
      } catch let closed as SubscriberSocket.Closed {
        #expect(closed.code == 1012 && closed.reason.contains("come back in"))
      }
    }
    try server.waitForEnd()
    // By hand: 750 sessions in 3 waves, 0.05 s apart, come back over 0.75 s, from 0.5 s on.
    #expect(hints.allSatisfy { (0.499...1.351).contains($0) }, "\(hints.min() ?? 0) \(hints.max() ?? 0)")
    #expect(Set(hints).count > count / 2)
  }

  @Test("an event stream is told by its field retry")
  func eventStream() throws {
    let server = try ServerFixture { $0.definitions = [try definition("final")] }
    let events = try RawSocket(port: server.port)
    events.write("GET /v1/channels/final/events HTTP/1.1\r\nHost: x\r\naccept: text/event-stream\r\n\r\n")
    _ = events.read(until: "event: subscribed")
    server.shutDown()
    let rest = events.readAll()
    try server.waitForEnd()
    let line = try #require(rest.split(separator: "\n").first { $0.hasPrefix("retry: ") })
    let milliseconds = try #require(Int(line.dropFirst(7)))
    #expect((500...1_001).contains(milliseconds))
  }
}
