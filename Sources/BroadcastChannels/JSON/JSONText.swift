import Foundation

/// The text of one JSON value, kept as it was written.
///
/// A content state travels as this: its numbers, key order and escapes are the publisher's.
public struct JSONText: Sendable, Hashable {
  /// The text without white space and comments between its tokens, so that it fits one line.
  public let bytes: [UInt8]

  /// Keeps a text that is known to be JSON, or JSON with comments.
  public init(compacting bytes: some Sequence<UInt8>) {
    // As an array, because from another module this is a call a byte otherwise.
    let bytes = Array(bytes)
    var compact: [UInt8] = []
    compact.reserveCapacity(bytes.count)
    var inString = false
    var escaped = false
    var comment = Comment.none
    for byte in bytes {
      if comment != .none {
        comment.read(byte)
        continue
      }
      if inString {
        if escaped {
          escaped = false
        } else if byte == UInt8(ascii: "\\") {
          escaped = true
        } else if byte == UInt8(ascii: "\"") {
          inString = false
        }
      } else if byte == UInt8(ascii: "\"") {
        inString = true
      } else if byte == UInt8(ascii: "/") {
        // Outside of strings JSON has none.
        comment = .begun
        continue
      } else if byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
        continue
      }
      compact.append(byte)
    }
    self.bytes = compact
  }

  /// How far a comment is read.
  private enum Comment {
    case none, begun, line, block, blockStar

    mutating func read(_ byte: UInt8) {
      switch self {
      case .begun: self = byte == UInt8(ascii: "*") ? .block : .line
      case .line: if byte == 0x0A { self = .none }
      case .blockStar where byte == UInt8(ascii: "/"): self = .none
      case .block, .blockStar: self = byte == UInt8(ascii: "*") ? .blockStar : .block
      case .none: break
      }
    }
  }

  /// The text as a string.
  public var string: String { String(decoding: bytes, as: UTF8.self) }
}

/// Small pieces for writing JSON by hand, where a value's own bytes must stand inside it.
public enum JSONWriter {
  /// A string in quotes, escaped.
  public static func quoted(_ text: String) -> String {
    // Most texts are ids and names, and a message has a dozen.
    if text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x22 && $0 != 0x5C && $0 != 0x7F }) { return "\"\(text)\"" }
    var out = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += "\\\""
      case "\\": out += "\\\\"
      case "\n": out += "\\n"
      case "\r": out += "\\r"
      case "\t": out += "\\t"
      case _ where scalar.value < 0x20 || scalar.value == 0x7F:
        let digits = String(scalar.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }

  /// A number of seconds to the millisecond, without a needless fraction.
  public static func seconds(_ value: Double) -> String {
    let rounded = (value * 1_000).rounded() / 1_000
    if let whole = Int64(exactly: rounded) { return String(whole) }
    return String(format: "%.3f", rounded)
  }

  /// A finite number in the fewest digits that read back as the same one.
  public static func number(_ value: Double) -> String {
    Int64(exactly: value).map { String($0) } ?? "\(value)"
  }

  /// An object from names and values that are JSON already; a member without a value is left out.
  public static func object(_ members: KeyValuePairs<String, String?>) -> String {
    "{" + members.compactMap { name, value in value.map { "\(quoted(name)):\($0)" } }.joined(separator: ",")
      + "}"
  }
}
