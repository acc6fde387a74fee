import Foundation

/// The name that the server gives a channel: base64 of random bytes.
///
/// A client can't choose one, must not assume its length, and never sees a deleted one again (Apple).
public struct ChannelID: Sendable, Hashable, CustomStringConvertible {
  /// The id in base64, with padding.
  public let base64: String

  /// Checks an id that a client sent.
  ///
  /// - Returns: nil unless the text is canonical base64 with padding, of at most ``Limits/channelIDMaxBytes`` bytes.
  public init?(_ text: String) {
    guard let data = Data(base64Encoded: text), !data.isEmpty, data.count <= Limits.channelIDMaxBytes,
      data.base64EncodedString() == text
    else { return nil }
    base64 = text
  }

  /// Makes a new id.
  ///
  /// Ids contain `+`, `/` and `=` as Apple's do, so that a client which forgets to percent-encode them finds out here.
  /// Two things are left out because HTTP servers and proxies fold them even when they are encoded: a `/` at the
  /// start, and two in a row.
  public static func random(using generator: inout some RandomNumberGenerator) -> ChannelID {
    while true {
      let bytes = generator.bytes(Limits.channelIDBytes)
      let text = Data(bytes).base64EncodedString()
      if !text.hasPrefix("/"), !text.contains("//"), let id = ChannelID(text) { return id }
    }
  }

  /// The id as one path segment of a URL.
  public var pathSegment: String { Self.pathSegment(base64) }

  /// An id or an alias as one path segment of a URL.
  public static func pathSegment(_ name: String) -> String {
    name.addingPercentEncoding(withAllowedCharacters: .unreserved) ?? name
  }

  /// The base64 text.
  public var description: String { base64 }
}

extension CharacterSet {
  /// RFC 3986's unreserved characters: what needs no percent-encoding anywhere in a URL.
  static let unreserved = CharacterSet(
    charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
}

/// The name of a channel in `Channels/`: a local convenience that works wherever an id does.
public struct ChannelAlias: Sendable, Hashable, CustomStringConvertible {
  /// The name.
  public let name: String

  /// What an alias may be, in words for a message.
  public static let rule =
    "an alias starts with a letter or digit and has letters, digits, '.', '_' and '-' only, at most \(Limits.aliasCharacters)"

  /// Checks an alias.
  ///
  /// - Returns: nil unless the name keeps the ``rule``. No alias is a channel id: ids of this server end with `=`.
  public init?(_ name: String) {
    let allowed = name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    guard allowed, let first = name.first, first.isLetter || first.isNumber,
      name.count <= Limits.aliasCharacters
    else { return nil }
    self.name = name
  }

  /// The name.
  public var description: String { name }
}

/// The app that a channel belongs to.
public struct BundleID: Sendable, Hashable, CustomStringConvertible {
  /// The identifier, such as `com.example.scores`.
  public let identifier: String

  /// Checks a bundle id: letters, digits, `-` and `.` (Apple), at most ``Limits/bundleIDCharacters``.
  public init?(_ identifier: String) {
    let allowed = identifier.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    guard allowed, !identifier.isEmpty, identifier.utf8.count <= Limits.bundleIDCharacters else { return nil }
    self.identifier = identifier
  }

  private init(unchecked identifier: String) { self.identifier = identifier }

  /// The app that is assumed where nobody names one: `com.example.scores`.
  public static let scores = BundleID(unchecked: "com.example.scores")

  /// Whether the id carries a push-type suffix, which belongs into `apns-topic` and not here.
  public var hasPushTypeSuffix: Bool { identifier.contains(".push-type.") }

  /// The identifier.
  public var description: String { identifier }
}

/// The id of one request, as `apns-request-id` and `request-id` carry it: a UUID that is echoed byte for byte.
public struct RequestID: Sendable, Hashable, CustomStringConvertible {
  /// The text as the client wrote it.
  public let text: String

  /// Checks a request id: a UUID in its canonical 8-4-4-4-12 form. Apple documents lower case; upper case, which
  /// Swift's own `UUID` prints, is accepted and echoed as it came.
  public init?(_ text: String) {
    guard UUID.isCanonical(text) else { return nil }
    self.text = text
  }

  /// Makes a new id.
  public static func random(using generator: inout some RandomNumberGenerator) -> RequestID {
    RequestID(unchecked: UUID.random(using: &generator))
  }

  private init(unchecked text: String) { self.text = text }

  /// The text.
  public var description: String { text }
}

extension UUID {
  /// Whether a text is 8-4-4-4-12 hexadecimal digits. `UUID(uuidString:)` alone doesn't tell: on Linux it scans
  /// numbers and takes a space, a sign or `0x` for digits.
  static func isCanonical(_ text: String) -> Bool {
    text.utf8.count == 36
      && text.utf8.enumerated().allSatisfy { index, byte in
        [8, 13, 18, 23].contains(index)
          ? byte == UInt8(ascii: "-") : Character(Unicode.Scalar(byte)).isHexDigit
      }
  }

  /// A version-4 UUID in lower case, from a generator that a simulation can seed.
  static func random(using generator: inout some RandomNumberGenerator) -> String {
    var bytes = generator.bytes(16)
    bytes[6] = bytes[6] & 0x0F | 0x40
    bytes[8] = bytes[8] & 0x3F | 0x80
    let digits = Array("0123456789abcdef".utf8)
    var text: [UInt8] = []
    for (index, byte) in bytes.enumerated() {
      if [4, 6, 8, 10].contains(index) { text.append(UInt8(ascii: "-")) }
      text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    }
    return String(decoding: text, as: UTF8.self)
  }
}

/// The id of one accepted message, as `apns-unique-id` and `unique-id` carry it.
public struct UniqueID: Sendable, Hashable, CustomStringConvertible {
  /// A UUID in lower case.
  public let text: String

  /// Makes a new id.
  public static func random(using generator: inout some RandomNumberGenerator) -> UniqueID {
    UniqueID(text: UUID.random(using: &generator))
  }

  /// Keeps an id that the server made earlier.
  public init(text: String) { self.text = text }

  /// The text.
  public var description: String { text }
}

extension RandomNumberGenerator {
  /// Random bytes, eight a draw: from the system's generator each draw is a system call, and each message has an id.
  mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 7)
    while bytes.count < count {
      let drawn = next()
      for shift in stride(from: 0, to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: drawn >> shift)) }
    }
    return Array(bytes.prefix(count))
  }
}
