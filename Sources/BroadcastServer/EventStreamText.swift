/// The text of server-sent events (WHATWG HTML, section 9.2).
enum EventStreamText {
  /// One event. A line break inside the data, which JSON allows between its tokens, becomes a further `data:` line,
  /// and the receiver puts a line feed in its place.
  static func event(_ name: String, id: String?, data: [UInt8]) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity(data.count + 64)
    if let id { text += "id: \(id)\n".utf8 }
    text += "event: \(name)\ndata: ".utf8
    var previous: UInt8 = 0
    for byte in data {
      switch byte {
      case UInt8(ascii: "\n") where previous == UInt8(ascii: "\r"): break
      case UInt8(ascii: "\n"), UInt8(ascii: "\r"): text += "\ndata: ".utf8
      default: text.append(byte)
      }
      previous = byte
    }
    return text + "\n\n".utf8
  }

  /// How long a browser waits before it comes back, in milliseconds.
  static let retry = retry(after: 1)

  /// The same with another time: milliseconds, rounded up.
  static func retry(after seconds: Double) -> [UInt8] {
    Array("retry: \(Int((seconds * 1_000).rounded(.up)))\n\n".utf8)
  }

  /// A comment: keeps the connection alive through proxies, and finds out that a peer is gone.
  static let keepAlive = Array(": keep-alive\n\n".utf8)
}
