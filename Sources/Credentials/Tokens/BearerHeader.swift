/// The `authorization` header with the scheme `bearer` (RFC 6750, 2.1).
enum BearerHeader {
  enum Content {
    case token(String)
    /// No header, or a scheme without a token.
    case nothing
    /// Another scheme, or none.
    case other
  }

  /// Reads the header's value.
  ///
  /// Schemes are written in any case (RFC 9110, 11.1), and senders do. Strictly it is as Apple documents it, `bearer`
  /// in small letters and one space.
  static func read(_ value: String?, strict: Bool) -> Content {
    guard let value else { return .nothing }
    if strict {
      guard value.hasPrefix("bearer ") else { return value.isEmpty || value == "bearer" ? .nothing : .other }
      let token = value.dropFirst(7)
      return token.isEmpty ? .nothing : token.first == " " ? .other : .token(String(token))
    }
    let words = value.split(maxSplits: 1, whereSeparator: { $0 == " " || $0 == "\t" })
    guard let scheme = words.first else { return .nothing }
    guard scheme.lowercased() == "bearer" else { return .other }
    guard words.count == 2 else { return .nothing }
    let token = words[1].drop { $0 == " " || $0 == "\t" }
    let end = token.lastIndex { $0 != " " && $0 != "\t" }
    return end.map { .token(String(token[...$0])) } ?? .nothing
  }
}
