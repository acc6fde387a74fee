import Foundation

/// The name under which a sender reaches one device: hexadecimal text of random bytes, as Apple's are.
///
/// Two kinds look alike and mean different things. Only the server knows which is which, and says so when one is used in
/// the other's place; a sender that guessed it from the text would break with Apple's.
public struct PushToken: Sendable, Hashable {
  /// What a push to a token can do.
  public enum Kind: String, Sendable, CaseIterable, Codable {
    /// Update or end the one activity that it belongs to.
    case update
    /// Start an activity of the app.
    case start
  }

  /// The digits, in lower case.
  public let hex: String

  /// Reads a token that a client sent, in either case.
  ///
  /// - Returns: nil unless the text is pairs of hexadecimal digits, at most ``Limits/pushTokenMaxBytes`` bytes.
  public init?(_ text: String) {
    guard !text.isEmpty, text.utf8.count <= 2 * Limits.pushTokenMaxBytes, text.utf8.count.isMultiple(of: 2),
      text.utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit })
    else { return nil }
    hex = text.lowercased()
  }

  private init(unchecked hex: String) { self.hex = hex }

  /// Makes a new token.
  public static func random(using generator: inout some RandomNumberGenerator) -> PushToken {
    PushToken(unchecked: randomHex(using: &generator))
  }

  /// Whether a text that stands somewhere else is a token of this server by its form.
  public static func isLike(_ text: String) -> Bool {
    text.utf8.count == 2 * Limits.pushTokenBytes && PushToken(text) != nil
  }

  /// As many random bytes as a token has, in hexadecimal: a token, or the secret that proves whose it is.
  public static func randomHex(using generator: inout some RandomNumberGenerator) -> String {
    generator.bytes(Limits.pushTokenBytes)
      .map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
  }
}

extension PushToken: CustomStringConvertible {
  /// The first digits: enough to recognise a token in a log, too few to use it.
  public var description: String { "\(hex.prefix(8))…" }
}

extension PushToken {
  /// What a text in a token's place is instead, and what to do. The text itself is left out: it may be a secret.
  public static func mistake(_ text: String) -> String {
    let source = "a token is hexadecimal digits, as touchline watch --push-token prints them"
    if text.isEmpty { return "the path ends before the token; \(source)" }
    if text.hasPrefix("eyJ"), text.split(separator: ".", omittingEmptySubsequences: false).count == 3 {
      return
        "this is a JWT, a provider's or subscriber's token, which belongs into the header authorization; \(source)"
    }
    if text.contains("<") || text.contains(" ") {
      return "this is how a Data prints itself; write each byte as two hexadecimal digits"
    }
    if text.utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) {
      return text.utf8.count > 2 * Limits.pushTokenMaxBytes
        ? "the token has \(text.utf8.count) digits, more than any; \(source)"
        : "the token has an odd number of digits; was it cut?"
    }
    if let bytes = Data(base64Encoded: text) {
      return bytes.count == Limits.pushTokenBytes
        ? "this is base64; write each of its bytes as two hexadecimal digits"
        : "this is base64, as a channel's id is; to publish into a channel, POST /4/broadcasts/apps/<bundle-id> with the header apns-channel-id"
    }
    return "this is no device token; \(source)"
  }
}
