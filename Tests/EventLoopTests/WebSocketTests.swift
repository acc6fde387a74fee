import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.serialized) struct WebSocketTests {
  @Test func ownClientIsEchoedWithItsSubprotocol() throws {
    let server = try TestServer { $0.subprotocols = ["touchline.v1"] }
    defer { server.stop() }
    let client = ClientRecorder()
    try server.loop.on { loop in
      client.client = WebSocketClient(
        loop: loop, url: "ws://127.0.0.1:\(server.port)/live?x=1", subprotocols: ["other", "touchline.v1"],
        headers: [("x-test", "a")], handler: client)
    }
    try client.events.wait("opened") { $0 == ["opened touchline.v1"] }
    try server.loop.on { _ in client.client?.send(text: Array("hällo".utf8)) }
    try client.events.wait("echo") { $0.last == "text hällo" }
    try server.loop.on { _ in client.client?.ping() }
    try server.loop.on { _ in client.client?.close(code: 1000, reason: "done") }
    try client.events.wait("closed") { $0.last == "closed 1000 done" }
    let recorder = try server.service.recorder(0)
    try recorder.events.wait("closed") { $0 == ["opened touchline.v1", "text hällo", "closed 1000 done"] }
    try server.waitForCount(0)
  }

  @Test func pythonSendsReceivesAndSeesTheCloseCode() throws {
    let server = try TestServer()
    defer { server.stop() }
    let output = try python(
      """
      import asyncio, websockets
      async def main():
        async with websockets.connect("ws://127.0.0.1:\(server.port)/") as ws:
          await ws.send("one"); print(await ws.recv())
          await ws.send(["fra", "gmen", "ted"]); print(await ws.recv())
          await ws.send("x" * 16000); print(len(await ws.recv()))
          await (await ws.ping()); print("pong")
          await ws.close(4001, "bye")
          print(ws.close_code, ws.close_reason)
      asyncio.run(main())
      """)
    #expect(output == "one\nfragmented\n16000\npong\n4001 bye\n")
    let recorder = try server.service.recorder(0)
    try recorder.events.wait("closed") { $0.last == "closed 4001 bye" }
  }

  @Test func theServersCloseCodeReachesPython() throws {
    let server = try TestServer()
    defer { server.stop() }
    let service = server.service
    let closer = Thread {
      guard let recorder = try? service.recorder(0) else { return }
      _ = try? recorder.events.wait { $0.contains("text go") }
      try? server.loop.on { _ in
        recorder.connection?.close(code: 4010, reason: "füße")
        recorder.connection?.close(code: 1001, reason: "again")
      }
    }
    closer.start()
    let output = try python(
      """
      import asyncio, websockets
      async def main():
        async with websockets.connect("ws://127.0.0.1:\(server.port)/") as ws:
          await ws.send("go")
          try:
            while True: await ws.recv()
          except websockets.ConnectionClosed as e:
            print(e.code, e.reason)
      asyncio.run(main())
      """)
    #expect(output == "4010 füße\n")
    try service.recorder(0).events.wait("closed") { $0.last == "closed 4010 füße" }
  }

  @Test(arguments: [
    ("b'bin'", "1003"), ("'x' * 16385", "1009"), ("['x' * 10000, 'y' * 10000]", "1009"),
  ])
  func whatIsNotAcceptedClosesWithItsCode(_ message: String, _ code: String) throws {
    let server = try TestServer()
    defer { server.stop() }
    let output = try python(
      """
      import asyncio, websockets
      async def main():
        async with websockets.connect("ws://127.0.0.1:\(server.port)/") as ws:
          try:
            await ws.send(\(message)); await ws.recv()
          except websockets.ConnectionClosed as e:
            print(e.code)
      asyncio.run(main())
      """)
    #expect(output == "\(code)\n")
  }

  @Test func textThatIsNotUTF8ClosesWith1007() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    socket.write(clientFrame(1, [0xc3, 0x28]))
    let frame = try #require(socket.readFrame())
    #expect(frame.opcode == 8)
    #expect(Array(frame.payload.prefix(2)) == [0x03, 0xef])
  }

  @Test func aRefusedHandshakeCarriesStatusHeadersAndBody() throws {
    let server = try TestServer()
    defer { server.stop() }
    try server.loop.on { _ in
      server.service.refusal = HTTPResponse(
        status: 403, headers: [("content-type", "application/json")], body: Array("{\"reason\":\"No\"}".utf8))
    }
    let output = try python(
      """
      import asyncio, websockets
      async def main():
        try:
          await websockets.connect("ws://127.0.0.1:\(server.port)/")
        except websockets.InvalidStatusCode as e:
          print(e.status_code, e.headers["content-type"])
      asyncio.run(main())
      """)
    #expect(output == "403 application/json\n")
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    #expect(socket.readAll() == "{\"reason\":\"No\"}")
    let client = ClientRecorder()
    try server.loop.on { loop in
      client.client = WebSocketClient(
        loop: loop, url: "ws://127.0.0.1:\(server.port)/", handler: client)
    }
    try client.events.wait("failed") { $0 == ["failed refused 403 {\"reason\":\"No\"}"] }
  }

  @Test(
    "a client hears the server's close code; libwebsockets makes 1002 of those between 1012 and 2999",
    arguments: [
      (1001, 1001), (1008, 1008), (1012, 1002), (1013, 1002), (4001, 4001), (4002, 4002), (4003, 4003),
      (4004, 4004),
    ] as [(UInt16, UInt16)])
  func closeCodes(_ sent: UInt16, _ heard: UInt16) throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = ClientRecorder()
    try server.loop.on { loop in
      client.client = WebSocketClient(
        loop: loop, url: "ws://127.0.0.1:\(server.port)/", handler: client)
    }
    try client.events.wait("opened") { !$0.isEmpty }
    let recorder = try server.service.recorder(0)
    try recorder.events.wait("opened") { !$0.isEmpty }
    try server.loop.on { _ in recorder.connection?.close(code: sent, reason: "it ends") }
    try client.events.wait("closed") { $0.last == "closed \(heard) it ends" }
  }

  @Test func unknownSubprotocolsGetAnAnswer() throws {
    let server = try TestServer { $0.subprotocols = ["a"] }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    let head = socket.upgrade(headers: "Sec-WebSocket-Protocol: b, c\r\n")
    #expect(head.hasPrefix("HTTP/1.1 400 "))
    #expect(socket.readAll().contains("UnknownSubprotocol"))
    let other = try RawSocket(port: server.port)
    #expect(
      other.upgrade(headers: "Sec-WebSocket-Protocol: b, a\r\n").contains("Sec-WebSocket-Protocol: a\r\n"))
    let third = try RawSocket(port: server.port)
    #expect(!third.upgrade().contains("Sec-WebSocket-Protocol"))
  }

  @Test func aStalledReaderLosesNothingAndGetsPingsBetweenFrames() throws {
    let server = try TestServer { $0.sendBufferBytes = 32_768 }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port, receiveBuffer: 4_096)
    socket.upgrade()
    let recorder = try server.service.recorder(0)
    try recorder.events.wait { !$0.isEmpty }
    // 10,000 numbered frames of 208 bytes, about 2 MB; the reader reads nothing until send() refused.
    let total = 10_000
    let next = Box(0)
    let refused = Box(0)
    let filler = String(repeating: "x", count: 196)
    let pump: @Sendable (Connection) -> Void = { connection in
      while next.value < total {
        let text = String(repeating: "0", count: 8 - String(next.value).count) + String(next.value) + filler
        guard connection.send(OutgoingBytes(webSocketText: Array(text.utf8))) else {
          refused.change { $0 += 1 }
          connection.ping()
          return
        }
        next.change { $0 += 1 }
        if next.value % 1_000 == 0 { connection.ping() }
      }
    }
    try server.loop.on { _ in
      recorder.onWritable = pump
      let connection = try #require(recorder.connection)
      pump(connection)
      #expect(!connection.send(OutgoingBytes(webSocketText: [0x61])))
      #expect(!connection.send(OutgoingBytes(webSocketText: [0x62])))
    }
    #expect(refused.value == 1)
    #expect(next.value < total)
    var seen = 0
    var pings = 0
    while seen < total {
      let frame = try #require(socket.readFrame())
      if frame.opcode == 9 {
        pings += 1
        continue
      }
      try #require(frame.opcode == 1 && frame.payload.count == 204)
      try #require(Int(String(decoding: frame.payload.prefix(8), as: UTF8.self)) == seen)
      seen += 1
    }
    #expect(pings >= 10)
    #expect(refused.value >= 1)
    try server.loop.on { _ in recorder.connection?.close(code: 1000, reason: "end") }
    while let frame = socket.readFrame() { if frame.opcode == 8 { break } }
    socket.write(clientFrame(8, [0x03, 0xe8]))
    try recorder.events.wait("closed") { $0.last == "closed 1000 end" }
  }

  @Test func aPeerThatReadsNothingIsClosedAfterAFewSeconds() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port, receiveBuffer: 4_096)
    socket.upgrade()
    let recorder = try server.service.recorder(0)
    try recorder.events.wait { !$0.isEmpty }
    try server.loop.on { _ in
      let big = OutgoingBytes(webSocketText: [UInt8](repeating: 0x61, count: 100_000))
      let connection = try #require(recorder.connection)
      while connection.send(big) {}
      connection.close(code: 1001, reason: "going")
      #expect(!connection.isOpen)
    }
    try recorder.events.wait("closed", seconds: 15) { $0.last == "closed 1001 going" }
    try server.waitForCount(0)
  }

  @Test func pongsAreHeard() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    let recorder = try server.service.recorder(0)
    try recorder.events.wait { !$0.isEmpty }
    let before = try server.loop.on { _ in
      recorder.connection?.ping()
      return recorder.connection?.lastHeard ?? 0
    }
    let ping = try #require(socket.readFrame())
    #expect(ping.opcode == 9)
    socket.write(clientFrame(10, ping.payload))
    try recorder.events.wait("pong") { $0.last == "ponged" }
    #expect(try server.loop.on { _ in recorder.connection?.lastHeard ?? 0 } > before)
  }

  @Test func nobodyListensIsTold() throws {
    let loop = TestLoop()
    defer { loop.stop() }
    let client = ClientRecorder()
    try loop.on { client.client = WebSocketClient(loop: $0, url: "ws://127.0.0.1:1/", handler: client) }
    try client.events.wait("failed") { $0.first?.hasPrefix("failed unreachable 127.0.0.1:1") == true }
    let bad = ClientRecorder()
    try loop.on { bad.client = WebSocketClient(loop: $0, url: "http://x", handler: bad) }
    try bad.events.wait("failed") { $0 == ["failed badURL"] }
  }

  @Test func aServerThatNeverAnswersTimesOut() throws {
    let loop = TestLoop()
    defer { loop.stop() }
    let silent = try SilentListener()
    let client = ClientRecorder()
    try loop.on {
      client.client = WebSocketClient(
        loop: $0, url: "ws://127.0.0.1:\(silent.port)/", connectTimeout: 0.2, handler: client)
    }
    try client.events.wait("failed") { $0 == ["failed timedOut"] }
  }
}

/// Accepts into its backlog and says nothing.
final class SilentListener {
  let descriptor: Int32
  let port: UInt16

  init() throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let fd = descriptor
    port = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        _ = bind(fd, $0, size)
        _ = listen(fd, 8)
        _ = getsockname(fd, $0, &size)
      }
      return UInt16(bigEndian: pointer.pointee.sin_port)
    }
  }

  deinit { close(descriptor) }
}

/// Answers each text with a kilobyte, and counts what was not taken.
private final class Generous: StreamHandler, HTTPService, @unchecked Sendable {
  let refused = Box(0)

  func respond(to request: HTTPRequest, _ exchange: HTTPExchange) {
    exchange.answer(HTTPResponse(status: 404))
  }
  func upgrade(_ request: HTTPRequest) -> UpgradeDecision { .accept(self) }
  func opened(_ connection: Connection) {}
  func received(text: [UInt8], _ connection: Connection) {
    let answer = [UInt8](repeating: 0x61, count: 1_000)
    if !connection.send(OutgoingBytes(webSocketText: answer)) { refused.change { $0 += 1 } }
  }
  func writable(_ connection: Connection) {}
  func closed(_ connection: Connection, code: UInt16?, reason: String) {}
}

@Suite struct UnsentBytesTests {
  @Test("what a peer doesn't take waits with the server, and not in the kernel")
  func unsent() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port, receiveBuffer: 4_096)
    socket.upgrade()
    let recorder = try server.service.recorder(0)
    let taken = try server.loop.on { _ in
      let connection = try #require(recorder.connection)
      let message = OutgoingBytes(webSocketText: [UInt8](repeating: 0x61, count: 1_000))
      return (0..<4_000).prefix { _ in connection.send(message) }.count
    }
    // 65 that are not sent yet, and what the peer's receive buffer, doubled by Linux, has room for. It would be thousands.
    #expect(taken >= 60 && taken <= 200)
  }

  @Test("nothing waits for more to be sent with it: TCP_NODELAY is the listener's and everybody's")
  func noDelay() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    _ = try server.service.recorder(0)
    let options = try server.loop.on { _ in
      let wire = try #require(server.server?.webSockets.first).wire
      return [TCP_NODELAY, TCP_NOTSENT_LOWAT].map { option in
        var value: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(wire.descriptor, Int32(IPPROTO_TCP), option, &value, &size)
        return value
      }
    }
    #expect(options == [1, 65_536])
  }
}

@Suite struct ManyAnswersTests {
  @Test("who asks for much in one write, and whose socket has room, is never told to wait")
  func much() throws {
    let loop = TestLoop()
    defer { loop.stop() }
    let service = Generous()
    var options = ServerOptions()
    // Room for all of it, whatever the client has read: 150 answers are 150,600 bytes, more than is gathered in one read.
    options.sendBufferBytes = 200_000
    let chosen = options
    let server = Box<HTTPServer?>(nil)
    let port = try loop.on { loop in
      let made = try HTTPServer(loop: loop, options: chosen, service: service)
      server.value = made
      return made.port
    }
    let socket = try RawSocket(port: port)
    socket.upgrade()
    socket.write(Array((0..<150).map { _ in clientFrame(1, [0x3f]) }.joined()))
    for _ in 0..<150 { #expect(socket.readFrame()?.payload.count == 1_000) }
    #expect(service.refused.value == 0)
    server.value = nil
  }
}

final class ClientRecorder: WebSocketClientHandler, @unchecked Sendable {
  let events = Box<[String]>([])
  var client: WebSocketClient?

  func opened(_ client: WebSocketClient) {
    events.change { $0.append("opened \(client.subprotocol ?? "-")") }
  }
  func received(text: [UInt8], _ client: WebSocketClient) {
    events.change { $0.append("text \(String(decoding: text, as: UTF8.self))") }
  }
  func closed(_ client: WebSocketClient, code: UInt16?, reason: String) {
    events.change { $0.append("closed \(code.map(String.init) ?? "-") \(reason)") }
    self.client = nil
  }
  func failed(_ client: WebSocketClient, _ error: WebSocketClientError) {
    let text =
      switch error {
      case .badURL: "badURL"
      case .unreachable(let address, let reason): "unreachable \(address) \(reason)"
      case .untrusted(let address, let reason): "untrusted \(address) \(reason)"
      case .timedOut: "timedOut"
      case .refused(_, let status, let body): "refused \(status) \(String(decoding: body, as: UTF8.self))"
      case .badHandshake(_, let reason): "badHandshake \(reason)"
      }
    events.change { $0.append("failed \(text)") }
    self.client = nil
  }
}
