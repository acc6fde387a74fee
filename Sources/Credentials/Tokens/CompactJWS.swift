import BroadcastChannels

/// Why a text is no good token. The detail tells a person what to change, and holds nothing of the signature.
public struct TokenFault: Error, Sendable, Hashable, CustomStringConvertible {
  /// What is wrong and what was expected.
  public let detail: String

  init(_ detail: String) { self.detail = detail }

  /// The detail.
  public var description: String { detail }
}

/// A signed text in the compact form of RFC 7515: header, claims and signature in base64url, joined by dots.
///
/// Nothing is believed yet: whether the signature holds is ``VerifyingKey``'s to say.
public struct CompactJWS {
  /// The header, an object.
  public let header: JSONDocument
  /// The bytes of the claims.
  public let payload: [UInt8]
  /// The signature.
  public let signature: [UInt8]
  /// What was signed: header and claims as they were written.
  public let signed: [UInt8]

  /// Takes a token apart.
  ///
  /// - Parameter strict: whether padding is refused, as RFC 7515 wants it. Some encoders leave it on; what was signed is the
  ///   text with it, so that accepting it changes nothing about the signature.
  public init(_ text: String, strict: Bool = false) throws(TokenFault) {
    guard text.utf8.count <= Limits.tokenBytes else {
      throw TokenFault("has \(text.utf8.count) bytes; a token has at most \(Limits.tokenBytes)")
    }
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3 else { throw TokenFault(Self.mistaken(text, parts: parts.count)) }
    func decoded(_ part: Substring, _ name: String) throws(TokenFault) -> [UInt8] {
      guard let bytes = Base64URL.decode(part, padding: !strict) else {
        throw TokenFault("the \(name) is not base64url (A-Z, a-z, 0-9, '-' and '_', without padding)")
      }
      return bytes
    }
    let headerBytes = try decoded(parts[0], "header")
    payload = try decoded(parts[1], "payload")
    signature = try decoded(parts[2], "signature")
    signed = Array(text.utf8.dropLast(parts[2].utf8.count + 1))
    header = try Self.object(headerBytes, "header")
  }

  /// Reads the claims, an object.
  public func claims() throws(TokenFault) -> JSONDocument { try Self.object(payload, "payload") }

  /// Signs.
  ///
  /// - Parameters:
  ///   - header: a JSON object.
  ///   - claims: a JSON object.
  static func text(header: String, claims: String, key: SigningKey) throws(KeyError) -> String {
    let signed = "\(Base64URL.encode(header.utf8)).\(Base64URL.encode(claims.utf8))"
    return "\(signed).\(Base64URL.encode(try key.signature(of: Array(signed.utf8))))"
  }

  private static func object(_ bytes: [UInt8], _ name: String) throws(TokenFault) -> JSONDocument {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes)
    } catch {
      // The message may quote a name of the text, which is as long and as odd as whoever sent it likes.
      throw TokenFault("the \(name) is not JSON: \(Shown.plain(error.message))")
    }
    guard document.root.members != nil else {
      throw TokenFault("the \(name) is \(Shown.value(document.root)); a JSON object was expected")
    }
    return document
  }

  /// What somebody sent in the place of a token.
  private static func mistaken(_ text: String, parts: Int) -> String {
    let expected = "a token is three parts of base64url joined by dots"
    if text.contains("-----BEGIN") {
      return "is a key; what belongs here is a token signed with it (touchline token mint)"
    }
    if parts == 5 { return "is an encrypted token (JWE); \(expected)" }
    if parts == 1, text.utf8.count >= 32, text.allSatisfy(\.isHexDigit) {
      return
        "looks like a push token of a device (hexadecimal), which belongs into the path /3/device/<token>; \(expected)"
    }
    return "has \(parts) \(parts == 1 ? "part" : "parts"); \(expected)"
  }
}

/// What others wrote, made fit for a message: short, and without characters that would change a terminal or a log.
enum Shown {
  static func plain(_ text: String) -> String {
    var shown = ""
    for scalar in text.unicodeScalars.prefix(120) {
      shown.unicodeScalars.append((0x20..<0x7F).contains(scalar.value) ? scalar : "?")
    }
    return text.unicodeScalars.count > 120 ? shown + "..." : shown
  }

  static func value(_ value: JSONValue) -> String {
    switch value.content {
    case .string(let text) where text.utf8.count > 40: "a string of \(text.utf8.count) bytes"
    case .number(let number) where number.text.utf8.count > 40: "a number of \(number.text.utf8.count) digits"
    default: plain(value.described)
    }
  }
}
