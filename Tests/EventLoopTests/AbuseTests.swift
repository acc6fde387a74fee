import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.serialized) struct AbuseTests {
  @Test func hostilePeersDoNotHarmTheOthers() throws {
    let server = try TestServer { $0.maxMessageBytes = 4_096 }
    defer { server.stop() }
    let head = "GET /ws HTTP/1.1\r\nHost: x\r\n"
    var seed: UInt64 = 42
    func byte() -> UInt8 {
      seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: seed >> 33)
    }
    for round in 0..<40 {
      let garbage = try RawSocket(port: server.port)
      garbage.write((0..<2_000).map { _ in byte() })
      if round % 2 == 0 { garbage.reset() }

      let half = try RawSocket(port: server.port)
      half.write(head)
      if round % 2 == 0 { half.reset() }

      // An unmasked frame, a reserved opcode, a huge length, RST in mid-frame, a long control frame.
      for frame: [UInt8] in [
        [0x81, 0x01, 0x61], [0x83, 0x80, 0, 0, 0, 0],
        [0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        Array(clientFrame(1, [UInt8](repeating: 0x61, count: 3_000)).prefix(100)), [0x89, 0xfe, 0x01, 0x00],
        (0..<600).map { _ in byte() }, [0xf1, 0x80, 0, 0, 0, 0], [0x80, 0x80, 0, 0, 0, 0],
      ] {
        let socket = try RawSocket(port: server.port)
        socket.upgrade()
        socket.write(frame)
        if round % 3 == 0 { socket.reset() }
        if round % 3 == 1 { socket.endWriting() }
      }

      let early = try RawSocket(port: server.port)
      early.write(
        head + "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
          + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nearly")
      if round == 0 { #expect(early.readAll().contains("DataBeforeHandshake")) }
    }
    let good = try RawSocket(port: server.port)
    good.upgrade()
    good.write(clientFrame(1, Array("still here".utf8)))
    #expect(good.readFrame()?.payload == Array("still here".utf8))
    #expect(try run("/usr/bin/curl", ["-s", "http://127.0.0.1:\(server.port)/ok"]).hasPrefix("GET|/ok"))
  }

  @Test func aHugeFrameIsRefusedAtItsFirstByte() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    socket.write([0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x61])
    let frame = try #require(socket.readFrame())
    #expect(frame.opcode == 8 && Array(frame.payload.prefix(2)) == [0x03, 0xf1])
  }

  @Test func theParserSurvivesEverySplit() throws {
    let server = try TestServer()
    defer { server.stop() }
    let request = Array(
      "POST /s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".utf8)
    for split in 1..<request.count {
      let socket = try RawSocket(port: server.port)
      socket.write(Array(request.prefix(split)))
      // Once the loop has turned, the first part was read by itself.
      _ = try server.count
      socket.write(Array(request.dropFirst(split)))
      #expect(socket.read(until: "false|-").hasSuffix("POST|/s||hello|false|-"))
    }
  }

  @Test func whoAsksWithoutReadingIsNotReadOn() throws {
    let server = try TestServer { $0.sendBufferBytes = 16_384 }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port, receiveBuffer: 4_096)
    let request = "GET /big HTTP/1.1\r\nHost: x\r\n\r\n"
    let writer = Thread { socket.write(String(repeating: request, count: 40)) }
    writer.start()
    var bytes = 0
    while bytes < 40 * 900_000 {
      let piece = socket.read(900_000)
      try #require(!piece.isEmpty)
      bytes += piece.count
    }
  }
}
