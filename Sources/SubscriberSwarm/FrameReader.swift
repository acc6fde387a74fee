// Why: libwebsockets' client keeps a context entry, a header buffer while it connects, a 4 KB receive path and our own handle
// objects for each connection. A soak has ten thousand of them in one process and needs none of that: its far end is a
// server that it knows, on the same machine. What is left of RFC 6455 for such a client is this file and its handshake.

/// One frame that a server sent.
enum ServerMessage: Equatable {
  /// A whole text message: where its bytes are.
  case text(Range<Int>)
  /// A ping: where its data is.
  case ping(Range<Int>)
  /// The server closes; its code, if it gave one.
  case close(UInt16?)
  /// A pong.
  case pong
}

/// What a server sent that this client can't read.
struct BrokenFrame: Error, Equatable {
  let problem: String
}

/// Takes a server's WebSocket frames apart (RFC 6455, section 5.2), without copying them.
enum FrameReader {
  /// Bytes of the largest message: an envelope around a broadcast's 5,120.
  static let largest = 65_536
  /// Bytes in front of a message (RFC 6455 section 5.2; a server masks nothing).
  static let longestHead = 10

  /// Reads the frame at an offset.
  ///
  /// - Returns: the frame and its end; nil when it isn't whole yet.
  /// - Throws: for a masked, fragmented, binary or oversized frame, none of which a Touchline server sends.
  static func read(
    _ bytes: [UInt8], from start: Int, to end: Int
  ) throws(BrokenFrame) -> (message: ServerMessage, end: Int)? {
    guard end - start >= 2 else { return nil }
    let (first, second) = (bytes[start], bytes[start + 1])
    guard second & 0x80 == 0 else { throw BrokenFrame(problem: "a server's frame is masked") }
    guard first & 0x70 == 0 else { throw BrokenFrame(problem: "a frame uses an extension") }
    var body = start + 2
    var count = Int(second & 0x7F)
    if count == 126 {
      guard end - body >= 2 else { return nil }
      count = Int(bytes[body]) << 8 | Int(bytes[body + 1])
      body += 2
    } else if count == 127 {
      guard end - body >= 8 else { return nil }
      let high = bytes[body..<body + 5].reduce(0) { $0 | $1 }
      guard high == 0 else { throw BrokenFrame(problem: "a frame is larger than \(largest) bytes") }
      count = bytes[body + 5..<body + 8].reduce(0) { $0 << 8 | Int($1) }
      body += 8
    }
    guard count <= largest else { throw BrokenFrame(problem: "a frame is larger than \(largest) bytes") }
    guard end - body >= count else { return nil }
    let data = body..<body + count
    guard first & 0x80 != 0 else { throw BrokenFrame(problem: "a message is fragmented") }
    switch first & 0x0F {
    case 1: return (.text(data), data.upperBound)
    case 8:
      let code = count >= 2 ? UInt16(bytes[body]) << 8 | UInt16(bytes[body + 1]) : nil
      return (.close(code), data.upperBound)
    case 9: return (.ping(data), data.upperBound)
    case 10: return (.pong, data.upperBound)
    case let opcode: throw BrokenFrame(problem: "a frame has the opcode \(opcode)")
    }
  }

  /// A client's frame: whole, and masked, as section 5.3 demands.
  static func frame(opcode: UInt8, _ data: some Collection<UInt8>, mask: UInt32) -> [UInt8] {
    var frame: [UInt8] = []
    frame.reserveCapacity(data.count + 8)
    frame.append(0x80 | opcode)
    if data.count < 126 {
      frame.append(0x80 | UInt8(data.count))
    } else {
      frame.append(0x80 | 126)
      frame.append(UInt8(truncatingIfNeeded: data.count >> 8))
      frame.append(UInt8(truncatingIfNeeded: data.count))
    }
    let key = (0..<4).map { UInt8(truncatingIfNeeded: mask >> (24 - 8 * $0)) }
    frame += key
    for (index, byte) in data.enumerated() { frame.append(byte ^ key[index & 3]) }
    return frame
  }
}
