import Foundation
import TestSupport
import Testing

@testable import EventLoop

/// What hostile and broken clients do: each costs them their connection at most, and never anybody else's.
@Suite(.serialized) struct HTTP2AbuseTests {
  /// ENHANCE_YOUR_CALM (RFC 9113 section 7).
  private let calm: UInt32 = 11

  private func expectWell(_ server: TestServer) throws {
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(1, "GET", "/fresh"))
    #expect(try client.answer(1).body == "GET|/fresh|||false|-")
  }

  @Test("rapid reset ends with ENHANCE_YOUR_CALM and hardly reaches the service")
  func rapidReset() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    let pairs = (0..<2_000).flatMap { index in
      let stream = UInt32(index * 2 + 1)
      return FrameClient.head(stream).bytes + Frame(type: 3, flags: 0, stream: stream, payload: big(8)).bytes
    }
    client.flood(pairs)
    #expect(try client.goAway().errorCode == calm)
    #expect(server.service.requests.value.count < 50)
    try expectWell(server)
  }

  @Test("a client that makes the server reset its streams is no better")
  func madeYouReset() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    let pairs = (0..<2_000).flatMap { index in
      let stream = UInt32(index * 2 + 1)
      // A window of more than 2^31-1 bytes is an error of the stream (RFC 9113 section 6.9.1).
      return FrameClient.head(stream, "GET", "/later").bytes
        + Frame(type: 8, flags: 0, stream: stream, payload: big(0x7fff_ffff)).bytes
    }
    client.flood(pairs)
    #expect(try client.goAway().errorCode == calm)
    try expectWell(server)
  }

  @Test("a header block without end is not read on")
  func continuationFlood() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    var head = FrameClient.head(1)
    head.flags = Frame.endStream
    let more = Frame(type: 9, flags: 0, stream: 1, payload: FrameClient.field("a", "b"))
    client.flood(head.bytes + Array(repeating: more.bytes, count: 5_000).joined())
    #expect(try client.goAway().errorCode == calm)
    try expectWell(server)
  }

  @Test(
    "frames that do no work are counted",
    arguments: [
      Frame(type: 4, flags: 0, stream: 0, payload: []),
      Frame(type: 6, flags: 0, stream: 0, payload: [UInt8](repeating: 0, count: 8)),
      Frame(type: 8, flags: 0, stream: 0, payload: [0, 0, 0, 1]),
      Frame(type: 2, flags: 0, stream: 3, payload: [0, 0, 0, 0, 16]),
      Frame(type: 0, flags: 0, stream: 1, payload: []),
    ])
  func floods(frame: Frame) throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(1, "POST", "/p", ends: false))
    let flood = Array(Array(repeating: frame.bytes, count: 20_000).joined())
    client.flood(flood)
    #expect(try client.goAway().errorCode == calm)
    try expectWell(server)
  }

  @Test("who gives no credit stalls only that stream, and for a bounded time")
  func zeroWindow() throws {
    let server = try TestServer { $0.idleTimeout = 0.3 }
    defer { server.stop() }
    let client = try FrameClient(port: server.port, settings: [(4, 0)])
    client.send(FrameClient.head(1, "GET", "/big"), FrameClient.head(3, "GET", "/empty"))
    let answers = try client.answers(3)
    #expect(answers[3]?.fields[":status"] == "204")
    let cancelled = try client.next { $0.type == 3 }
    #expect(cancelled.stream == 1 && cancelled.errorCode == 8)
    client.send(FrameClient.head(5, "GET", "/empty"))
    #expect(try client.answer(5).fields[":status"] == "204")
  }

  @Test("who sends and never reads is neither read on nor kept")
  func neverReads() throws {
    let server = try TestServer {
      $0.idleTimeout = 0.3
      $0.sendBufferBytes = 16_384
    }
    defer { server.stop() }
    let client = try FrameClient(port: server.port, settings: [(4, 0x7fff_ffff)])
    client.send(Frame(type: 8, flags: 0, stream: 0, payload: big(0x7fff_0000)))
    for index in 0..<20 { client.send(FrameClient.head(UInt32(index * 2 + 1), "GET", "/big")) }
    try server.waitForCount(0)
    try expectWell(server)
  }

  @Test("headers over the limit are answered with 431, endless ones not")
  func longHeaders() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(
      FrameClient.head(1, "GET", "/x", [("host", "h"), ("a", String(repeating: "x", count: 9_000))]))
    let answer = try client.answer(1)
    #expect(answer.fields[":status"] == "431" && answer.body == "{\"reason\":\"HeadersTooLarge\"}\n")
    // A field of 4,000 bytes goes into the dynamic table once and is named by one byte each time (RFC 7541 section 6.1).
    let stored = [0x40] + FrameClient.field("a", String(repeating: "x", count: 4_000)).dropFirst()
    var bomb = FrameClient.head(3)
    bomb.payload += stored + [UInt8](repeating: 0xbe, count: 10_000)
    client.send(bomb)
    #expect(try client.goAway().errorCode == calm)
    try expectWell(server)
  }

  @Test("a body that does not come is answered with 408 and its stream ended")
  func lateBody() throws {
    let server = try TestServer { $0.handshakeTimeout = 0.3 }
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(1, "POST", "/p", ends: false))
    client.send(FrameClient.data(1, "half", ends: false))
    #expect(try client.answer(1).fields[":status"] == "408")
    let reset = try client.next { $0.type == 3 }
    #expect(reset.stream == 1 && reset.errorCode == 0)
    client.send(FrameClient.head(3))
    #expect(try client.answer(3).body == "GET|/x|||false|-")
  }

  @Test("a preface without SETTINGS, and half a header block, are waited for in vain")
  func silence() throws {
    let server = try TestServer { $0.handshakeTimeout = 0.3 }
    defer { server.stop() }
    let quiet = try FrameClient(port: server.port, greets: false)
    quiet.socket.write(FrameClient.preface)
    #expect(try quiet.goAway().errorCode == 4)
    let half = try FrameClient(port: server.port)
    var head = FrameClient.head(1)
    head.flags = 0
    half.send(head)
    #expect(try half.goAway().errorCode == calm)
    try server.waitForCount(0)
    try expectWell(server)
  }

  @Test("garbage after the preface is a protocol error")
  func garbage() throws {
    let server = try TestServer()
    defer { server.stop() }
    for seed in 0..<20 {
      let client = try FrameClient(port: server.port, greets: seed % 2 == 0)
      if seed % 2 == 1 { client.socket.write(FrameClient.preface) }
      client.socket.write((0..<500).map { UInt8(truncatingIfNeeded: ($0 * 131 + seed * 17) ^ ($0 >> 3)) })
      client.socket.endWriting()
      while client.next() != nil {}
    }
    try server.waitForCount(0)
    try expectWell(server)
  }

  @Test("who reads no answer is answered no more than a bound, and everything once it reads")
  func noCredit() throws {
    let server = try TestServer { $0.http2.maxWaitingAnswerBytes = 2_000_000 }
    defer { server.stop() }
    // SETTINGS_INITIAL_WINDOW_SIZE 0: no answer may be sent.
    let client = try FrameClient(port: server.port, settings: [(4, 0)])
    let streams = (0..<10).map { UInt32($0 * 2 + 1) }
    for stream in streams { client.send(FrameClient.head(stream, "GET", "/big")) }
    // A PING is answered after all that came before it.
    client.send(Frame(type: 6, flags: 0, stream: 0, payload: [UInt8](repeating: 1, count: 8)))
    _ = try client.next { $0.type == 6 }
    // 900,000 bytes each: two are below the bound, the third is the last one that is looked at.
    #expect(server.service.requests.value.count == 3)
    client.send(Frame(type: 8, flags: 0, stream: 0, payload: big(20_000_000)))
    client.sendSettings([(4, 1_000_000)])
    var bytes = 0
    while bytes < 10 * 900_000 { bytes += try client.next { $0.type == 0 }.payload.count }
    #expect(bytes == 10 * 900_000 && server.service.requests.value.count == 10)
  }

  @Test("extended CONNECT (RFC 8441) is not offered, and refused for its stream alone")
  func extendedConnect() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    let fields = [
      (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/ws"),
      (":authority", "h"),
    ]
    client.send(
      Frame(
        type: 1, flags: Frame.endHeaders, stream: 1, payload: fields.flatMap { FrameClient.field($0.0, $0.1) }
      ))
    #expect(try client.next { $0.type == 3 && $0.stream == 1 }.errorCode == 1)
    client.send(FrameClient.head(3))
    #expect(try client.answer(3).fields[":status"] == "200")
  }
}
