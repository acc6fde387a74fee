// RFC 6455 section by section, in the groups of Autobahn's suite. Each case is sent in one write and byte by byte, and after each
// the server must still serve somebody else.

import Foundation
import TestSupport
import Testing

@testable import EventLoop

/// A frame as a client may and may not send it.
private func frame(
  _ opcode: UInt8, _ payload: [UInt8] = [], isFinal: Bool = true, reserved: UInt8 = 0, isMasked: Bool = true,
  length: [UInt8]? = nil
) -> [UInt8] {
  var frame: [UInt8] = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
  let mask: [UInt8] = isMasked ? [0x37, 0xfa, 0x21, 0x3d] : []
  let bit: UInt8 = isMasked ? 0x80 : 0
  if let length {
    frame += [length[0] | bit] + length.dropFirst()
  } else if payload.count < 126 {
    frame.append(UInt8(payload.count) | bit)
  } else if payload.count < 65_536 {
    frame += [126 | bit, UInt8(payload.count >> 8), UInt8(payload.count & 0xff)]
  } else {
    frame += [127 | bit] + (0..<8).reversed().map { UInt8(payload.count >> ($0 * 8) & 0xff) }
  }
  frame += mask
  frame += isMasked ? payload.enumerated().map { $1 ^ mask[$0 & 3] } : payload
  return frame
}

private func text(_ text: String, isFinal: Bool = true) -> [UInt8] {
  frame(1, Array(text.utf8), isFinal: isFinal)
}

private func rest(_ text: String, isFinal: Bool = true) -> [UInt8] {
  frame(0, Array(text.utf8), isFinal: isFinal)
}

private func closing(_ code: UInt16, _ reason: [UInt8] = []) -> [UInt8] {
  frame(8, [UInt8(code >> 8), UInt8(code & 0xff)] + reason)
}

/// What a client sends and what it must get: echoes and pongs, and then a close frame with a code, or a live connection.
struct Conversation: Sendable, CustomTestStringConvertible {
  let testDescription: String
  let sent: [UInt8]
  var frames: [String] = []
  /// nil: the connection lives. 0: a close frame without a code.
  var closes: UInt16?

  init(_ name: String, _ sent: [UInt8], _ frames: [String] = [], closes: UInt16? = nil) {
    testDescription = name
    self.sent = sent
    self.frames = frames
    self.closes = closes
  }
}

@Suite(.serialized) struct WebSocketProtocolTests {
  static let framing: [Conversation] =
    [0, 1, 125, 126, 127, 128, 255, 16_384].map { count in
      let message = String(repeating: "*", count: count)
      return Conversation("\(count) bytes", text(message), ["text \(message)"])
    } + [
      Conversation("no mask (5.1)", frame(1, [0x61], isMasked: false), closes: 1002),
      Conversation("an unmasked ping (5.1)", frame(9, [], isMasked: false), closes: 1002),
      Conversation(
        "a length of 5 in two bytes (5.2)", frame(1, Array("hello".utf8), length: [126, 0, 5]), closes: 1002),
      Conversation(
        "a length of 200 in eight bytes (5.2)",
        frame(1, [UInt8](repeating: 0x61, count: 200), length: [127, 0, 0, 0, 0, 0, 0, 0, 200]), closes: 1002),
      Conversation(
        "a length with its highest bit set (5.2)", frame(1, [], length: [127, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        closes: 1002),
      Conversation("two messages at once", text("a") + text("b"), ["text a", "text b"]),
    ]

  static let pings: [Conversation] = [
    Conversation("empty ping", frame(9), ["pong "]),
    Conversation("ping with a payload", frame(9, Array("hi".utf8)), ["pong hi"]),
    Conversation(
      "ping of 125 bytes", frame(9, [UInt8](repeating: 0x78, count: 125)),
      ["pong \(String(repeating: "x", count: 125))"]),
    Conversation("ping of 126 bytes", frame(9, [UInt8](repeating: 0x78, count: 126)), closes: 1002),
    Conversation("ping that is not final", frame(9, [], isFinal: false), closes: 1002),
    Conversation("pong nobody asked for", frame(10, Array("x".utf8)) + frame(9), ["pong "]),
    Conversation(
      "ten pings", (0..<10).flatMap { frame(9, Array("\($0)".utf8)) }, (0..<10).map { "pong \($0)" }),
  ]

  static let reserved: [Conversation] =
    (1...7).map { bits in
      Conversation(
        "reserved bits \(bits)", text("a") + frame(1, [0x62], reserved: UInt8(bits)), ["text a"], closes: 1002
      )
    } + [Conversation("reserved bit of a ping", frame(9, [], reserved: 4), closes: 1002)]

  static let opcodes: [Conversation] =
    [3, 4, 5, 6, 7, 11, 12, 13, 14, 15].map { opcode in
      Conversation("opcode \(opcode)", text("a") + frame(UInt8(opcode)), ["text a"], closes: 1002)
    } + [Conversation("binary", frame(2, [1, 2]), closes: 1003)]

  static let fragments: [Conversation] = [
    Conversation("two fragments", text("a", isFinal: false) + rest("b"), ["text ab"]),
    Conversation(
      "a ping between two fragments", text("a", isFinal: false) + frame(9, [0x70]) + rest("b"),
      ["pong p", "text ab"]),
    Conversation(
      "empty fragments", text("", isFinal: false) + rest("", isFinal: false) + rest(""), ["text "]),
    Conversation(
      "one byte each",
      text("a", isFinal: false) + "bcdef".flatMap { rest(String($0), isFinal: false) } + rest(""),
      ["text abcdef"]),
    Conversation("a fragmented ping", frame(9, [], isFinal: false) + frame(0), closes: 1002),
    Conversation("continuation of nothing, final", rest("a"), closes: 1002),
    Conversation("continuation of nothing", rest("a", isFinal: false), closes: 1002),
    Conversation(
      "continuation after a whole message", text("a") + rest("b"), ["text a"], closes: 1002),
    Conversation("a message inside a message", text("a", isFinal: false) + text("b"), closes: 1002),
    Conversation("binary inside a message", text("a", isFinal: false) + frame(2, []), closes: 1002),
  ]

  static let valid: [String] = [
    "κόσμε", "\u{7ff}", "\u{800}", "\u{d7ff}", "\u{e000}", "\u{ffff}", "\u{10000}", "\u{10ffff}",
  ]
  static let invalid: [[UInt8]] = [
    [0x80], [0xbf], [0xc0, 0xaf], [0xc1, 0xbf], [0xc3], [0xc3, 0x28], [0xe0, 0x80, 0xaf], [0xe0, 0x9f, 0xbf],
    [0xed, 0xa0, 0x80], [0xed, 0xbf, 0xbf], [0xe2, 0x82], [0xf0, 0x80, 0x80, 0xaf], [0xf0, 0x8f, 0xbf, 0xbf],
    [0xf4, 0x90, 0x80, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xfe], [0xff], [0xf0, 0x9f, 0x8f],
  ]
  static let utf8: [Conversation] =
    valid.map { Conversation("\($0)", text($0), ["text \($0)"]) }
    + valid.map { whole in
      let bytes = Array(whole.utf8)
      let pieces = bytes.enumerated().flatMap { frame($0 == 0 ? 1 : 0, [$1], isFinal: false) } + frame(0)
      return Conversation("\(whole), a fragment each byte", pieces, ["text \(whole)"])
    }
    + invalid.map { Conversation("invalid \($0)", frame(1, [0x61] + $0), closes: 1007) }
    + invalid.map { bytes in
      let pieces = bytes.enumerated().flatMap { frame($0 == 0 ? 1 : 0, [$1], isFinal: false) } + frame(0)
      return Conversation("invalid \(bytes), a fragment each byte", pieces, closes: 1007)
    }

  static let closes: [Conversation] =
    [
      Conversation("empty", frame(8), closes: 0),
      Conversation("a code of one byte", frame(8, [3]), closes: 1002),
      Conversation("123 bytes of reason", closing(1000, [UInt8](repeating: 0x61, count: 123)), closes: 1000),
      Conversation("124 bytes of reason", closing(1000, [UInt8](repeating: 0x61, count: 124)), closes: 1002),
      Conversation("a reason that is not UTF-8", closing(1000, [0xce, 0xba, 0xe1]), closes: 1007),
      Conversation("a message after the close", closing(1000) + text("late"), closes: 1000),
      Conversation("a ping after the close", closing(1001) + frame(9), closes: 1001),
      Conversation("inside a fragmented message", text("a", isFinal: false) + closing(1000), closes: 1000),
      Conversation("not final", frame(8, [3, 0xe8], isFinal: false), closes: 1002),
    ]
    + [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999].map {
      Conversation("code \($0)", closing($0), closes: $0)
    }
    + [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535].map {
      Conversation("code \($0), which must not be sent", closing($0), closes: 1002)
    }

  private static let half = String(repeating: "a", count: 10_000)
  static let limits: [Conversation] = [
    Conversation("a byte too many", text(String(repeating: "a", count: 16_385)), closes: 1009),
    Conversation(
      "a frame of 2^62 bytes is refused at its head", frame(1, [], length: [127, 0x40, 0, 0, 0, 0, 0, 0, 0]),
      closes: 1009),
    Conversation(
      "fragments add up", text(half, isFinal: false) + rest(half, isFinal: false), closes: 1009),
    Conversation(
      "the next message begins anew", text(half) + text(half), ["text \(half)", "text \(half)"]),
  ]

  @Test("framing: lengths, masks", arguments: framing)
  func holdFraming(_ conversation: Conversation) throws { try hold(conversation) }
  @Test("pings and pongs", arguments: pings)
  func holdPings(_ conversation: Conversation) throws { try hold(conversation) }
  @Test("reserved bits", arguments: reserved)
  func holdReserved(_ conversation: Conversation) throws { try hold(conversation) }
  @Test("opcodes", arguments: opcodes)
  func holdOpcodes(_ conversation: Conversation) throws { try hold(conversation) }
  @Test("fragmentation", arguments: fragments)
  func holdFragments(_ conversation: Conversation) throws { try hold(conversation) }
  @Test("UTF-8", arguments: utf8)
  func holdUtf8(_ conversation: Conversation) throws { try hold(conversation) }
  @Test("close handling", arguments: closes)
  func holdCloses(_ conversation: Conversation) throws { try hold(conversation) }
  @Test("limits", arguments: limits)
  func holdLimits(_ conversation: Conversation) throws { try hold(conversation) }

  private static let server = Result { try TestServer() }

  private func hold(_ conversation: Conversation) throws {
    let server = try Self.server.get()
    try hold(conversation, server) { socket in socket.write(conversation.sent) }
    if conversation.sent.count < 300 {
      try hold(conversation, server) { socket in
        var on: Int32 = 1
        setsockopt(socket.descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
        for byte in conversation.sent { socket.write([byte]) }
      }
    }
    let health = try RawSocket(port: server.port)
    health.upgrade()
    try expectEcho(health)
    health.write(closing(1000))
    #expect(health.readFrame()?.opcode == 8)
  }

  private func hold(_ conversation: Conversation, _ server: TestServer, _ send: (RawSocket) -> Void) throws {
    let socket = try RawSocket(port: server.port)
    #expect(socket.upgrade().hasPrefix("HTTP/1.1 101 "))
    send(socket)
    for expected in conversation.frames {
      let frame = try #require(socket.readFrame())
      let name = [1: "text", 10: "pong"][frame.opcode] ?? "opcode \(frame.opcode)"
      #expect("\(name) \(String(decoding: frame.payload, as: UTF8.self))" == expected)
    }
    guard let code = conversation.closes else {
      try expectEcho(socket)
      socket.write(closing(1000))
      #expect(socket.readFrame()?.opcode == 8)
      return
    }
    let frame = try #require(socket.readFrame())
    #expect(frame.opcode == 8)
    #expect(frame.payload.prefix(2).reduce(0) { $0 << 8 | UInt16($1) } == code)
    // The server ends the TCP connection (RFC 6455 section 7.1.1).
    #expect(socket.read(1).isEmpty)
  }

  private func expectEcho(_ socket: RawSocket) throws {
    socket.write(text("still here"))
    let frame = try #require(socket.readFrame())
    #expect(frame.opcode == 1)
    #expect(frame.payload == Array("still here".utf8))
  }

  @Test("the handshake's answer is the RFC's own example (1.3)")
  func acceptsKey() {
    #expect(WebSocketHandshake.accept("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
  }

  @Test("a peer that pings is heard, and a reader keeps nothing once a message is whole")
  func heardAndIdle() throws {
    let reader = FrameReader(maxMessageBytes: 100)
    reader.append((text("a", isFinal: false) + rest("b"))[...])
    #expect(try reader.next() == .text([0x61, 0x62]))
    #expect(reader.isIdle)
    reader.append(frame(9, [1, 2])[..<7])
    #expect(try reader.next() == nil)
    #expect(!reader.isIdle)
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    let recorder = try server.service.recorder(0)
    try recorder.events.wait { !$0.isEmpty }
    let before = try server.loop.on { _ in recorder.connection?.lastHeard ?? 0 }
    socket.write(frame(9))
    #expect(socket.readFrame()?.opcode == 10)
    #expect(try server.loop.on { _ in recorder.connection?.lastHeard ?? 0 } > before)
  }

  @Test("a peer that pings and reads nothing costs one pong, and no more")
  func pingFlood() throws {
    let server = try TestServer { $0.sendBufferBytes = 4_096 }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port, receiveBuffer: 2_048)
    socket.upgrade()
    let flood = (0..<20_000).flatMap { frame(9, Array(repeating: UInt8(0x30 + $0 % 10), count: 100)) }
    let writer = Thread { socket.write(flood + closing(1000)) }
    writer.start()
    var pongs = 0
    while let frame = socket.readFrame(), frame.opcode != 8 {
      #expect(frame.opcode == 10)
      pongs += 1
    }
    #expect(pongs > 0)
    try server.waitForCount(0)
  }

  @Test("who talks and reads nothing is not taken for somebody who has room again")
  func talksAndReadsNothing() throws {
    let server = try TestServer { $0.sendBufferBytes = 4_096 }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port, receiveBuffer: 2_048)
    socket.upgrade()
    let recorder = try server.service.recorder(0)
    try recorder.events.wait { !$0.isEmpty }
    let message = OutgoingBytes(webSocketText: [UInt8](repeating: 0x61, count: 1_000))
    try server.loop.on { _ in while recorder.connection?.send(message) == true {} }
    // Once all that the peer's kernel takes has gone, only its reading makes room.
    for _ in 0..<20 { socket.write(frame(10)) }
    try recorder.events.wait("pongs") { $0.filter { $0 == "ponged" }.count == 20 }
    let before = recorder.events.value.filter { $0 == "writable" }.count
    for _ in 0..<20 { socket.write(frame(10)) }
    try recorder.events.wait("pongs") { $0.filter { $0 == "ponged" }.count == 40 }
    #expect(recorder.events.value.filter { $0 == "writable" }.count == before)
  }

  @Test("the server's close waits for the peer's, whatever else it still says")
  func serverCloses() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    let recorder = try server.service.recorder(0)
    try recorder.events.wait { !$0.isEmpty }
    try server.loop.on { _ in recorder.connection?.close(code: 4010, reason: "go") }
    #expect(socket.readFrame()?.payload == [0x0f, 0xaa] + Array("go".utf8))
    socket.write(text("not heard any more") + frame(9) + closing(1000))
    #expect(socket.read(1).isEmpty)
    try recorder.events.wait("closed") { $0 == ["opened -", "closed 4010 go"] }
    try server.waitForCount(0)
  }
}
