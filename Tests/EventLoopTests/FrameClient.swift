// A client that writes HTTP/2 frames by hand, right ones and wrong ones (RFC 9113 section 4.1). Only HPACK's decoder is borrowed
// from nghttp2; what is sent is spelled out without compression.

import CNghttp2
import Foundation
import TestSupport
import Testing

struct Frame: Equatable {
  var type: UInt8
  var flags: UInt8
  var stream: UInt32
  var payload: [UInt8]

  static let endStream: UInt8 = 0x1
  static let endHeaders: UInt8 = 0x4

  var endsStream: Bool { (type == 0 || type == 1) && flags & Self.endStream != 0 }
  /// The number at the end of a RST_STREAM or GOAWAY frame.
  var errorCode: UInt32? {
    switch type {
    case 3: number(at: 0)
    case 7: number(at: 4)
    default: nil
    }
  }

  func number(at offset: Int) -> UInt32 { payload[offset..<(offset + 4)].reduce(0) { $0 << 8 | UInt32($1) } }

  var bytes: [UInt8] {
    let count = payload.count
    return [UInt8(count >> 16), UInt8(count >> 8 & 0xff), UInt8(count & 0xff), type, flags] + big(stream)
      + payload
  }
}

func big(_ number: UInt32) -> [UInt8] {
  stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
}

final class FrameClient {
  static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

  let socket: RawSocket
  private var inflater: OpaquePointer?

  init(port: UInt16, settings: [(UInt16, UInt32)] = [], greets: Bool = true) throws {
    socket = try RawSocket(port: port)
    nghttp2_hd_inflate_new(&inflater)
    guard greets else { return }
    socket.write(Self.preface)
    sendSettings(settings)
  }

  deinit { nghttp2_hd_inflate_del(inflater) }

  func send(_ frames: Frame...) { socket.write(frames.flatMap(\.bytes)) }

  func sendSettings(_ settings: [(UInt16, UInt32)]) {
    let payload = settings.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 0xff)] + big($0.1) }
    send(Frame(type: 4, flags: 0, stream: 0, payload: payload))
  }

  /// A literal field without indexing, without Huffman (RFC 7541 section 6.2.2).
  static func field(_ name: String, _ value: String) -> [UInt8] {
    func text(_ text: String) -> [UInt8] {
      let bytes = Array(text.utf8)
      guard bytes.count >= 127 else { return [UInt8(bytes.count)] + bytes }
      var rest = bytes.count - 127
      var prefix: [UInt8] = [127]
      while rest >= 128 {
        prefix.append(UInt8(rest & 0x7f | 0x80))
        rest >>= 7
      }
      return prefix + [UInt8(rest)] + bytes
    }
    return [0] + text(name) + text(value)
  }

  static func head(
    _ stream: UInt32, _ method: String = "GET", _ path: String = "/x",
    _ more: [(String, String)] = [("host", "h")],
    ends: Bool = true
  ) -> Frame {
    let fields = [(":method", method), (":scheme", "http"), (":path", path)] + more
    return Frame(
      type: 1, flags: Frame.endHeaders | (ends ? Frame.endStream : 0), stream: stream,
      payload: fields.flatMap { field($0.0, $0.1) })
  }

  static func data(_ stream: UInt32, _ text: String, ends: Bool) -> Frame {
    Frame(type: 0, flags: ends ? Frame.endStream : 0, stream: stream, payload: Array(text.utf8))
  }

  /// Writes in a thread of its own, for what the server will not read to its end.
  func flood(_ bytes: [UInt8]) {
    let socket = self.socket
    Thread { socket.write(bytes) }.start()
  }

  /// The next frame; nil at the end of the connection.
  func next() -> Frame? {
    let head = socket.read(9)
    guard head.count == 9 else { return nil }
    let payload = socket.read(head[0..<3].reduce(0) { $0 << 8 | Int($1) })
    return Frame(
      type: head[3], flags: head[4], stream: head[5..<9].reduce(0) { $0 << 8 | UInt32($1) }, payload: payload)
  }

  /// Reads on to the first frame that fits.
  func next(where isWanted: (Frame) -> Bool) throws -> Frame {
    while let frame = next() {
      if isWanted(frame) { return frame }
    }
    throw WaitedInVain(for: "a frame", "the connection ended")
  }

  /// The fields of a HEADERS frame; each must be decoded once, in order.
  func fields(_ frame: Frame) -> [String: String] {
    var fields: [String: String] = [:]
    var rest = frame.payload[...]
    while !rest.isEmpty {
      var field = nghttp2_nv()
      var flags: Int32 = 0
      let used = Array(rest).withUnsafeBufferPointer {
        nghttp2_hd_inflate_hd2(inflater, &field, &flags, $0.baseAddress, $0.count, 1)
      }
      guard used >= 0 else { return [:] }
      rest = rest.dropFirst(used)
      if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
        let name = UnsafeBufferPointer(start: field.name, count: field.namelen)
        let value = UnsafeBufferPointer(start: field.value, count: field.valuelen)
        fields[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
      }
      if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 { break }
    }
    nghttp2_hd_inflate_end_headers(inflater)
    return fields
  }

  /// Reads the answers of streams, in whatever order they come, until all have ended.
  func answers(_ streams: UInt32...) throws -> [UInt32: (
    fields: [String: String], body: String, frames: [Frame]
  )] {
    var answers: [UInt32: (fields: [String: String], body: String, frames: [Frame])] = [:]
    var open = Set(streams)
    while !open.isEmpty {
      let frame = try next { $0.stream != 0 && $0.type <= 1 }
      var answer = answers[frame.stream] ?? ([:], "", [])
      if frame.type == 1 { answer.fields = fields(frame) }
      if frame.type == 0 { answer.body += String(decoding: frame.payload, as: UTF8.self) }
      answer.frames.append(frame)
      answers[frame.stream] = answer
      if frame.endsStream { open.remove(frame.stream) }
    }
    return answers
  }

  func answer(_ stream: UInt32) throws -> (fields: [String: String], body: String, frames: [Frame]) {
    try #require(try answers(stream)[stream])
  }

  /// The GOAWAY that the server must send, and the end of the connection after it.
  func goAway() throws -> Frame {
    let frame = try next { $0.type == 7 }
    while next() != nil {}
    return frame
  }
}
