// Why: the log is read over somebody's shoulder, pasted into bug reports, and kept. What proves who somebody is, or
// reaches one phone, must not be in it, wherever a client put it: also where it doesn't belong.

import BroadcastChannels
import Foundation

/// Makes what clients wrote fit for the request log.
enum Redaction {
  /// Characters that are left of a device token, enough to tell two apart.
  private static let tokenCharacters = 8
  /// Hexadecimal digits in a row that count as a device token: Apple's have 64 and more; a UUID has hyphens.
  private static let tokenDigits = 32
  /// Characters from which a part of a word counts as one of a JWT's.
  private static let partCharacters = 12

  /// A text, cut to ``Limits/requestLogTextBytes``, without provider tokens and device tokens.
  static func text(_ text: String) -> String {
    // Four times the limit is looked at: a secret that begins before the cut is found whole.
    let bytes = Array(text.utf8.prefix(4 * Limits.requestLogTextBytes))
    var kept: [UInt8] = []
    var word: [UInt8] = []
    func finishWord() {
      kept += withoutSecret(word)
      word = []
    }
    for byte in bytes {
      if isWordByte(byte) {
        word.append(byte)
      } else {
        finishWord()
        kept.append(byte)
      }
    }
    finishWord()
    return cut(kept, isWhole: bytes.count == text.utf8.count)
  }

  /// A path without its query, with the device tokens of `/3/device/<token>` shortened.
  static func path(_ raw: String) -> String {
    // By bytes: to Swift a slash with a combining mark after it is another character.
    let segments = raw.utf8.split(
      separator: UInt8(ascii: "/"), maxSplits: 3, omittingEmptySubsequences: false)
    guard segments.count == 4, segments[1].elementsEqual("3".utf8) else { return text(raw) }
    let token = segments[3]
    let kept = String(decoding: token.prefix(tokenCharacters), as: UTF8.self)
    return text("/3/\(Substring(segments[2]))/\(kept)\(token.count > tokenCharacters ? "…" : "")")
  }

  /// Of an `authorization` header its kind alone, and a provider token's key id: that names the key and proves nothing.
  static func authorization(_ header: String) -> String {
    let words = header.split(separator: " ", maxSplits: 1)
    guard words.count == 2 else { return "unknown kind" }
    switch words[0].lowercased() {
    case "bearer": return keyID(words[1]).map { "bearer, key \($0)" } ?? "bearer"
    case "basic": return "basic"
    default: return "unknown kind"
    }
  }

  /// The `kid` of a JWT's header (RFC 7515, section 4.1.4), when it looks like one of Apple's: ten letters and digits.
  private static func keyID(_ token: Substring) -> String? {
    let header = token.prefix { $0 != "." }
    let padding = String(repeating: "=", count: (4 - header.utf8.count % 4) % 4)
    let base64 = header.replacing("-", with: "+").replacing("_", with: "/") + padding
    guard base64.utf8.count <= Limits.requestLogTextBytes, let json = Data(base64Encoded: String(base64)),
      let document = try? JSONDocument(Array(json)), let id = document.root["kid"]?.string,
      id.utf8.count == 10, id.utf8.allSatisfy({ isWordByte($0) && $0 != UInt8(ascii: ".") })
    else { return nil }
    return id
  }

  private static func isWordByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
      true
    default: false
    }
  }

  private static func withoutSecret(_ word: [UInt8]) -> [UInt8] {
    // The header of a JWT is an object, and so are its claims: `{"` is "eyJ" in base64.
    var kept: [UInt8] = []
    for (index, part) in word.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
      .enumerated()
    {
      if index > 0 { kept.append(UInt8(ascii: ".")) }
      if part.starts(with: "eyJ".utf8), part.count >= partCharacters { return kept + "eyJ…".utf8 }
      kept += withoutDigits(part)
    }
    return kept
  }

  private static func withoutDigits(_ part: ArraySlice<UInt8>) -> [UInt8] {
    // Shorter than any token: so is nearly every word.
    guard part.count >= tokenDigits else { return Array(part) }
    var kept: [UInt8] = []
    var rest = part
    while !rest.isEmpty {
      let digits = rest.prefix { Character(Unicode.Scalar($0)).isHexDigit }
      rest = rest[digits.endIndex...]
      kept += digits.count < tokenDigits ? Array(digits) : Array(digits.prefix(tokenCharacters)) + "…".utf8
      if let other = rest.popFirst() { kept.append(other) }
    }
    return kept
  }

  /// The text, cut between two characters.
  private static func cut(_ bytes: [UInt8], isWhole: Bool) -> String {
    guard bytes.count > Limits.requestLogTextBytes || !isWhole else {
      return String(decoding: bytes, as: UTF8.self)
    }
    var short = bytes.prefix(Limits.requestLogTextBytes)
    while let last = short.last, last & 0xC0 == 0x80 { short.removeLast() }
    if let last = short.last, last >= 0x80 { short.removeLast() }
    return String(decoding: short, as: UTF8.self) + "…"
  }
}
