import Foundation
import TestSupport
import Testing

@testable import EventLoop

/// WebSockets that go from one loop to another.
@Suite(.serialized) struct MovingTests {
  /// Accepts WebSockets on one loop, and moves each to another one at the first text "go".
  private final class Mover: HTTPService, StreamHandler, @unchecked Sendable {
    let target = TestLoop()
    let recorder = Recorder()
    let texts = Box<[String]>([])
    /// What is sent right before the move.
    var farewell: [UInt8]?
    private var host: ConnectionHost?

    init() throws {
      host = try target.on { ConnectionHost(loop: $0, options: ServerOptions()) }
    }

    func respond(to request: HTTPRequest, _ exchange: HTTPExchange) {
      exchange.answer(HTTPResponse(status: 404))
    }

    func upgrade(_ request: HTTPRequest) -> UpgradeDecision { .accept(self) }

    func opened(_ connection: Connection) {}

    func received(text: [UInt8], _ connection: Connection) {
      let text = String(decoding: text, as: UTF8.self)
      texts.change { $0.append(text) }
      guard text == "go" else { return }
      if let farewell { connection.send(OutgoingBytes(webSocketText: farewell)) }
      guard let socket = connection.detach() else {
        Issue.record("it can't be moved")
        return
      }
      #expect(!connection.isOpen)
      target.loop?.remote.post { [self] in _ = host?.adopt(socket, handler: recorder) }
    }

    func writable(_ connection: Connection) {}
    func closed(_ connection: Connection, code: UInt16?, reason: String) {
      texts.change { $0.append("closed") }
    }

    func stop() {
      target.stop()
      host = nil
    }
  }

  private func withMover(
    tls: TLSIdentity? = nil, _ body: (Mover, UInt16, _ count: () throws -> Int) throws -> Void
  ) throws {
    let mover = try Mover()
    let loop = TestLoop()
    var options = ServerOptions()
    options.tls = tls
    let chosen = options
    let server = try loop.on { Unchecked(try HTTPServer(loop: $0, options: chosen, service: mover)) }
    let port = server.value.port
    let result = Result { try body(mover, port) { try loop.on { _ in server.value.connectionCount } } }
    loop.stop()
    mover.stop()
    try result.get()
  }

  @Test("frames that came in the same read, and the half of one, are understood on the other loop, in order")
  func leftovers() throws {
    try withMover { mover, port, count in
      let client = try RawSocket(port: port)
      _ = client.upgrade()
      let last = clientFrame(1, Array("four".utf8))
      let frames = ["one", "go", "two", "three"].flatMap { clientFrame(1, Array($0.utf8)) }
      client.write(frames + last.prefix(3))
      try mover.recorder.events.wait("three") { $0.last == "text three" }
      client.write(Array(last.dropFirst(3)))
      try mover.recorder.events.wait("four") { $0 == ["opened -", "text two", "text three", "text four"] }
      #expect(mover.texts.value == ["one", "go"])
      #expect(try count() == 0)
      // What was said there is answered there.
      for text in ["two", "three", "four"] { #expect(client.readFrame()?.payload == Array(text.utf8)) }
      client.write(clientFrame(8, [0x03, 0xe8]))
      try mover.recorder.events.wait("the end") { $0.last == "closed 1000 " }
      #expect(client.readFrame()?.opcode == 8)
      #expect(mover.texts.value == ["one", "go"])
    }
  }

  @Test("what the socket didn't take before goes out behind it, whole and in order")
  func unwritten() throws {
    try withMover { mover, port, _ in
      mover.farewell = [UInt8](repeating: 0x61, count: 4_000_000)
      mover.recorder.onWritable = { _ in }
      let client = try RawSocket(port: port, receiveBuffer: 4_096)
      _ = client.upgrade()
      client.write(["go", "b"].flatMap { clientFrame(1, Array($0.utf8)) })
      try mover.recorder.events.wait("the move") { $0.last == "text b" }
      let big = try #require(client.readFrame())
      #expect(big.payload.count == 4_000_000 && big.payload.allSatisfy { $0 == 0x61 })
      client.write(clientFrame(1, Array("c".utf8)))
      var heard: [String] = []
      while heard.last != "c" {
        heard.append(String(decoding: try #require(client.readFrame()).payload, as: UTF8.self))
      }
      // The echo of "b" found the socket full.
      #expect(heard == ["c"] || heard == ["b", "c"])
    }
  }

  @Test("a paused connection is not read; what came before and meanwhile is understood when it goes on")
  func paused() throws {
    try withMover { mover, port, _ in
      let client = try RawSocket(port: port)
      _ = client.upgrade()
      client.write(clientFrame(1, Array("go".utf8)))
      try mover.recorder.events.wait("the move") { $0 == ["opened -"] }
      try mover.target.on { _ in mover.recorder.connection?.pause(true) }
      client.write(["one", "two"].flatMap { clientFrame(1, Array($0.utf8)) })
      #expect(mover.recorder.events.value == ["opened -"])
      try mover.target.on { _ in mover.recorder.connection?.pause(false) }
      try mover.recorder.events.wait("the texts") { $0 == ["opened -", "text one", "text two"] }
    }
  }

  @Test("a secure connection is moved with its session")
  func secure() throws {
    let certificates = try Certificates.shared.get()
    try withMover(tls: certificates.identity) { mover, port, _ in
      let output = try python(
        """
        import asyncio, ssl, websockets
        async def main():
          context = ssl.create_default_context(cafile="\(certificates.authority)")
          async with websockets.connect("wss://localhost:\(port)/", ssl=context) as ws:
            await ws.send("one"); await ws.send("go")
            await ws.send("two"); print(await ws.recv())
            await ws.send("x" * 16000); print(len(await ws.recv()))
            await (await ws.ping()); print("pong")
            await ws.close(4001, "bye")
            print(ws.close_code, ws.close_reason)
        asyncio.run(main())
        """)
      #expect(output == "two\n16000\npong\n4001 bye\n")
      #expect(mover.texts.value == ["one", "go"])
      try mover.recorder.events.wait("the end") { $0.last == "closed 4001 bye" }
    }
  }
}
