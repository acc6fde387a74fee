import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.serialized) struct SecureWebSocketTests {
  @Test("Python talks over wss: messages both ways, fragments, pings, close codes")
  func pythonOverTLS() throws {
    let certificates = try Certificates.shared.get()
    let server = try TestServer { $0.tls = certificates.identity }
    defer { server.stop() }
    let output = try python(
      """
      import asyncio, ssl, websockets
      async def main():
        context = ssl.create_default_context(cafile="\(certificates.authority)")
        async with websockets.connect("wss://localhost:\(server.port)/", ssl=context) as ws:
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
    try server.waitForCount(0)
  }

  @Test("a close by the server, and a client that vanishes, end a wss connection")
  func endsOverTLS() throws {
    let certificates = try Certificates.shared.get()
    let server = try TestServer { $0.tls = certificates.identity }
    defer { server.stop() }
    let service = server.service
    let closer = Thread {
      guard let recorder = try? service.recorder(0) else { return }
      _ = try? recorder.events.wait { $0.contains("text go") }
      try? server.loop.on { _ in recorder.connection?.close(code: 4010, reason: "füße") }
    }
    closer.start()
    let output = try python(
      """
      import asyncio, os, ssl, websockets
      async def main():
        context = ssl.create_default_context(cafile="\(certificates.authority)")
        async with websockets.connect("wss://localhost:\(server.port)/", ssl=context) as ws:
          await ws.send("go")
          try:
            while True: await ws.recv()
          except websockets.ConnectionClosed as e:
            print(e.code, e.reason, flush=True)
        ws = await websockets.connect("wss://localhost:\(server.port)/", ssl=context)
        await ws.send("hi"); print(await ws.recv(), flush=True)
        os._exit(0)
      asyncio.run(main())
      """)
    #expect(output == "4010 füße\nhi\n")
    try server.service.recorder(1).events.wait("closed") { $0.last == "closed - " }
    try server.waitForCount(0)
  }

  @Test("a wss client that reads slowly gets everything, in order, and the server holds little meanwhile")
  func slowReaderOverTLS() throws {
    let certificates = try Certificates.shared.get()
    let server = try TestServer {
      $0.tls = certificates.identity
      $0.sendBufferBytes = 16_384
    }
    defer { server.stop() }
    let service = server.service
    let sent = Box(0)
    let filler = Thread {
      guard let recorder = try? service.recorder(0) else { return }
      _ = try? recorder.events.wait { $0.contains("text go") }
      let work = Unchecked {
        let fill = { (connection: Connection) in
          while sent.value < 3_000 {
            let text = "\(sent.value) " + String(repeating: "x", count: 1_000)
            guard connection.send(OutgoingBytes(webSocketText: Array(text.utf8))) else { return }
            sent.value += 1
          }
          connection.close(code: 1000, reason: "all")
        }
        recorder.onWritable = fill
        if let connection = recorder.connection { fill(connection) }
      }
      try? server.loop.on { _ in work.value() }
    }
    filler.start()
    let output = try python(
      """
      import asyncio, ssl, websockets
      async def main():
        context = ssl.create_default_context(cafile="\(certificates.authority)")
        async with websockets.connect("wss://localhost:\(server.port)/", ssl=context, max_queue=1) as ws:
          await ws.send("go"); await ws.recv()
          await asyncio.sleep(0.3)
          n = 0
          try:
            async for text in ws:
              assert text.split()[0] == str(n), (text[:20], n); n += 1
          except websockets.ConnectionClosed: pass
          print(n, ws.close_code)
      asyncio.run(main())
      """)
    #expect(output == "3000 1000\n")
  }
}
