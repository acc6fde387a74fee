import Foundation
import TestSupport
import Testing

@testable import EventLoop

/// Fan-out to members with TLS: the same slice writes to them without asking their connections.
@Suite(.serialized) struct SecureAudienceTests {
  private let certificates: Certificates

  init() throws { certificates = try Certificates.shared.get() }

  /// A client of Python's ssl module, which tells what it read; `script` has `s` connected, and `frame()`.
  private func client(_ port: UInt16, _ script: String) throws -> RunningProgram {
    try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/python3"),
      [
        "-c",
        """
        import socket, ssl, struct, sys
        raw = socket.socket(); raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096); raw.connect(("127.0.0.1", \(port)))
        s = ssl.create_default_context(cafile="\(certificates.authority)").wrap_socket(raw, server_hostname="localhost")
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
          b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\nSec-WebSocket-Version: 13\\r\\n\\r\\n")
        stream = s.makefile("rb")
        while stream.readline() != b"\\r\\n": pass
        def frame():
          n = stream.read(2)[1]
          if n == 126: n = int.from_bytes(stream.read(2), "big")
          return stream.read(n).decode()
        """ + "\n" + script,
      ])
  }

  private func frame(_ number: Int, _ pad: Int) -> OutgoingBytes {
    OutgoingBytes(webSocketText: Array("\(number) \(String(repeating: "x", count: pad))".utf8))
  }

  /// A table with one member, on the loop.
  private final class Room: @unchecked Sendable {
    var audience: Audience
    var direct = 0
    var next = 0
    init(_ loop: EventLoop, _ connection: Connection?) {
      audience = Audience(loop: loop)
      audience.add(connection, next: 0)
    }

    func serve(_ message: OutgoingBytes) -> [Audience.Exception] {
      audience.begin()
      next += 1
      return audience.serve(message, numbers: next - 1..<next, until: .infinity, direct: &direct)
    }
  }

  @Test("a member that keeps up is written to directly, in order with what it is sent apart")
  func direct() async throws {
    let server = try TestServer { $0.tls = certificates.identity }
    defer { server.stop() }
    let client = try client(server.port, "for _ in range(3): print(frame(), flush=True)")
    let connection = Unchecked(try #require(try server.service.recorder(0).connected()))
    let room = try server.loop.on { Room($0, connection.value) }
    try server.loop.on { _ in
      #expect(room.serve(frame(1, 0)).isEmpty)
      #expect(connection.value.send(frame(2, 0)))
      #expect(room.serve(frame(3, 0)).isEmpty)
      #expect(room.direct == 2)
    }
    #expect(try await client.lines(3) == ["1 ", "2 ", "3 "])
  }

  @Test("what OpenSSL has begun is gone on with by the connection, and what is behind it is the caller's")
  func cut() async throws {
    let server = try TestServer {
      $0.tls = certificates.identity
      $0.sendBufferBytes = 16_384
    }
    defer { server.stop() }
    let client = try client(
      server.port,
      """
      sys.stdin.readline()
      n = 0
      while n < 3000:
        text = frame(); assert text.split()[0] == str(n) and len(text) > 900, (n, text[:20]); n += 1
      print(n, flush=True)
      """)
    let recorder = try server.service.recorder(0)
    let connection = Unchecked(try #require(try recorder.connected()))
    let room = try server.loop.on { Room($0, connection.value) }
    let cuts = Box<[Int]>([])
    let work = Unchecked {
      let fill = { (connection: Connection) in
        // Sixty frames a message are four records.
        while room.next < 50 {
          let first = room.next * 60
          let message = OutgoingBytes((first..<first + 60).map { frame($0, 1_000) })
          guard let exception = room.serve(message).first else { continue }
          cuts.value.append(exception.taken)
          if exception.taken > 0 {
            connection.finish(message, from: exception.taken)
          } else if !connection.send(message) {
            room.next -= 1
            room.audience = Audience(loop: server.loop.loop)
            room.audience.add(connection, next: room.next)
            return
          }
        }
      }
      recorder.onWritable = fill
      fill(connection.value)
    }
    try server.loop.on { _ in work.value() }
    client.send("go\n")
    #expect(try await client.lines(1) == ["3000"])
    // Cut inside of a message at least once, where a record ends, and full before one as well.
    #expect(cuts.value.contains { $0 > 0 && $0 % 16_384 == 0 })
    #expect(cuts.value.contains(0))
  }

  @Test("a member whose connection broke is an exception, and ends like any other")
  func broken() async throws {
    let server = try TestServer { $0.tls = certificates.identity }
    defer { server.stop() }
    let client = try client(
      server.port,
      """
      input()
      raw = socket.socket(fileno=s.detach())
      raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); raw.close()
      print("gone", flush=True)
      """)
    let recorder = try server.service.recorder(0)
    let connection = Unchecked(try #require(try recorder.connected()))
    let exceptions = Box(0)
    // In the loop's thread until the write fails, so that no event of the socket comes between.
    try server.loop.on { loop in
      let room = Room(loop, connection.value)
      client.send("go\n")
      while exceptions.value == 0 {
        for exception in room.serve(frame(1, 20_000)) {
          exceptions.value += 1
          #expect(exception.taken >= 0)
          connection.value.send(frame(1, 0))
        }
      }
      #expect(room.serve(frame(2, 0)).map(\.taken) == [0])
    }
    try await client.lines(1)
    try recorder.events.wait("closed") { $0.last == "closed - " }
    try server.waitForCount(0)
  }
}

extension Recorder {
  /// The connection, once it is open.
  fileprivate func connected() throws -> Connection? {
    try events.wait("opened") { $0.first == "opened -" }
    return connection
  }
}
