// Why: what a client may send, by RFC 6455, and nothing more. It exists only while something is incomplete: a connection that
// rests has none, so thousands of them cost no buffer. What is refused is refused at the frame's head, before its payload
// is here, so that what is held stays below one message and one read.

/// Reads a client's frames out of bytes as they come. Pure: no I/O.
final class FrameReader {
  enum Event: Equatable {
    /// A whole message, valid UTF-8.
    case text([UInt8])
    case ping([UInt8])
    case pong([UInt8])
    /// `body` as it came: empty, or a code and a reason that is valid UTF-8.
    case close(body: [UInt8])
  }

  /// Why the connection must be failed (RFC 6455 section 7.1.7).
  struct Violation: Error, Equatable {
    var code: UInt16
    var reason: String

    static func protocolError(_ reason: String) -> Violation { Violation(code: 1002, reason: reason) }
  }

  private struct Head {
    var isFinal: Bool
    var opcode: UInt8
    var mask: (UInt8, UInt8, UInt8, UInt8)
    /// Where the payload is in `input`.
    var payload: Range<Int>

    var isControl: Bool { opcode >= 8 }
  }

  private let maxMessageBytes: Int
  private var input: [UInt8] = []
  private var offset = 0
  private var message: [UInt8] = []
  private var isInMessage = false
  private var text = UTF8Check()
  private var frames = 0
  /// Since when what is incomplete is so, by its owner's clock.
  var began = 0.0

  init(maxMessageBytes: Int) { self.maxMessageBytes = maxMessageBytes }

  /// Whether nothing is incomplete: the next byte begins a message.
  var isIdle: Bool { offset == input.count && !isInMessage }

  /// Whether a message's first fragment came, and its last one didn't.
  var isInsideMessage: Bool { isInMessage }

  /// How many frames came whole since it was asked last.
  func takeFrameCount() -> Int {
    defer { frames = 0 }
    return frames
  }

  func append(_ bytes: ArraySlice<UInt8>) {
    input.removeFirst(offset)
    offset = 0
    input.append(contentsOf: bytes)
  }

  /// The next thing that came whole; nil when more bytes are needed.
  func next() throws(Violation) -> Event? {
    while let head = try readHead() {
      guard head.payload.upperBound <= input.count else { return nil }
      var payload = Array(input[head.payload])
      Self.unmask(&payload, head.mask)
      offset = head.payload.upperBound
      frames += 1
      if head.isControl { return try control(head.opcode, payload) }
      guard text.accepts(payload) else {
        throw Violation(code: 1007, reason: "text is not valid UTF-8")
      }
      guard head.isFinal else {
        isInMessage = true
        message.append(contentsOf: payload)
        continue
      }
      guard text.isComplete else {
        throw Violation(code: 1007, reason: "text ends inside a character")
      }
      let whole = isInMessage ? message + payload : payload
      message = []
      isInMessage = false
      return .text(whole)
    }
    return nil
  }

  /// Section 5.2: two bytes, the length, the mask. nil when it is not whole yet.
  private func readHead() throws(Violation) -> Head? {
    guard input.count - offset >= 2 else { return nil }
    let first = input[offset]
    let second = input[offset + 1]
    let opcode = first & 0x0f
    let isFinal = first & 0x80 != 0
    try check(first, opcode, isFinal: isFinal)
    guard second & 0x80 != 0 else { throw .protocolError("a client's frame must be masked") }
    let short = Int(second & 0x7f)
    if opcode >= 8, short > 125 { throw .protocolError("a control frame has at most 125 bytes") }
    let extra = short == 126 ? 2 : short == 127 ? 8 : 0
    guard input.count - offset >= 2 + extra else { return nil }
    var length = UInt64(short)
    if extra > 0 {
      length = input[offset + 2..<offset + 2 + extra].reduce(0) { $0 << 8 | UInt64($1) }
      guard length >= (extra == 2 ? 126 : 65_536), length >> 63 == 0 else {
        throw .protocolError("a frame's length must be written in its shortest form")
      }
    }
    guard opcode >= 8 || length <= UInt64(maxMessageBytes - message.count) else {
      throw Violation(code: 1009, reason: "message longer than \(maxMessageBytes) bytes")
    }
    let start = offset + 2 + extra
    guard input.count >= start + 4 else { return nil }
    return Head(
      isFinal: isFinal, opcode: opcode,
      mask: (input[start], input[start + 1], input[start + 2], input[start + 3]),
      payload: start + 4..<start + 4 + Int(length))
  }

  private func check(_ first: UInt8, _ opcode: UInt8, isFinal: Bool) throws(Violation) {
    guard first & 0x70 == 0 else {
      throw .protocolError("a reserved bit is set, and no extension was agreed on")
    }
    switch opcode {
    case 0: guard isInMessage else { throw .protocolError("a continuation of no message") }
    case 1, 2:
      guard !isInMessage else { throw .protocolError("a new message inside a fragmented one") }
      guard opcode == 1 else { throw Violation(code: 1003, reason: "binary messages are not accepted") }
      text = UTF8Check()
    case 8, 9, 10: guard isFinal else { throw .protocolError("a control frame must not be fragmented") }
    default: throw .protocolError("opcode \(opcode) is reserved")
    }
  }

  private func control(_ opcode: UInt8, _ payload: [UInt8]) throws(Violation) -> Event {
    switch opcode {
    case 9: return .ping(payload)
    case 10: return .pong(payload)
    default:
      guard payload.count != 1 else { throw .protocolError("a close code has two bytes") }
      if payload.count >= 2 {
        guard Self.isCloseCode(UInt16(payload[0]) << 8 | UInt16(payload[1])) else {
          throw .protocolError("this close code must not be sent")
        }
        var reason = UTF8Check()
        guard reason.accepts(payload[2...]), reason.isComplete else {
          throw Violation(code: 1007, reason: "the close reason is not valid UTF-8")
        }
      }
      return .close(body: payload)
    }
  }

  /// Section 7.4, and IANA's registry of close codes: 1012 to 1014 came later. 1004 to 1006 and 1015 are never sent.
  private static func isCloseCode(_ code: UInt16) -> Bool {
    switch code {
    case 1000...1003, 1007...1014, 3000...4999: true
    default: false
    }
  }

  /// Section 5.3.
  private static func unmask(_ payload: inout [UInt8], _ mask: (UInt8, UInt8, UInt8, UInt8)) {
    payload.withUnsafeMutableBufferPointer { bytes in
      for index in bytes.indices {
        switch index & 3 {
        case 0: bytes[index] ^= mask.0
        case 1: bytes[index] ^= mask.1
        case 2: bytes[index] ^= mask.2
        default: bytes[index] ^= mask.3
        }
      }
    }
  }
}
