import Foundation

/// Base64 in the alphabet of URLs, without padding (RFC 4648, 5; RFC 7515, 2).
enum Base64URL {
  static func encode(_ bytes: some Sequence<UInt8>) -> String {
    var text = Data(bytes).base64EncodedString()
    text.replace("+", with: "-")
    text.replace("/", with: "_")
    while text.last == "=" { text.removeLast() }
    return text
  }

  /// Reads a text that is the only one for its bytes.
  ///
  /// - Parameter padding: whether `=` at the end is allowed, where the standard wants none.
  /// - Returns: nil for any other character, and for bits left over at the end that are not 0: with those one token
  ///   could be written in several ways.
  static func decode(_ text: Substring, padding: Bool) -> [UInt8]? {
    let bare = padding ? text.trimmingPadding : text
    let isAlphabet = bare.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
        true
      default: false
      }
    }
    guard isAlphabet else { return nil }
    var standard = String(bare)
    standard.replace("-", with: "+")
    standard.replace("_", with: "/")
    standard += String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
    guard let data = Data(base64Encoded: standard), encode(data) == bare else { return nil }
    return Array(data)
  }
}

extension Substring {
  /// The text without the `=` that would pad it.
  fileprivate var trimmingPadding: Substring {
    guard utf8.count % 4 == 0 else { return self }
    return hasSuffix("==") ? dropLast(2) : hasSuffix("=") ? dropLast() : self
  }
}
