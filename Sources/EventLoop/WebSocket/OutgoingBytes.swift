// Why: a message for thousands of connections is framed once and then only shared. A server's frame is
// not masked (RFC 6455 section 5.1), so the same bytes fit every connection.

/// Bytes ready for the wire, shared by all connections they go to.
public final class OutgoingBytes: Sendable {
  let bytes: [UInt8]

  /// One complete unmasked text frame around `payload`, which must be UTF-8.
  public init(webSocketText payload: [UInt8]) {
    var frame: [UInt8] = []
    frame.reserveCapacity(payload.count + 10)
    frame.append(0x81)  // FIN and opcode 1 (RFC 6455 section 5.2)
    switch payload.count {
    case ..<126:
      frame.append(UInt8(payload.count))
    case ..<65_536:
      frame.append(126)
      frame.append(UInt8(payload.count >> 8))
      frame.append(UInt8(payload.count & 0xff))
    default:
      frame.append(127)
      for shift in stride(from: 56, through: 0, by: -8) {
        frame.append(UInt8((payload.count >> shift) & 0xff))
      }
    }
    frame.append(contentsOf: payload)
    bytes = frame
  }

  /// Bytes as they are, for an event stream.
  public init(raw: [UInt8]) { bytes = raw }

  /// Several frames, one behind the other.
  public init(_ frames: [OutgoingBytes]) { bytes = frames.flatMap(\.bytes) }

  /// The payload of one text frame.
  public var text: ArraySlice<UInt8> {
    let header = bytes[1] == 127 ? 10 : bytes[1] == 126 ? 4 : 2
    return bytes[header...]
  }

  /// Bytes on the wire, the frame header included.
  public var count: Int { bytes.count }
}
