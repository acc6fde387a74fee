extension SubscriberToken {
  /// What a subprotocol item that carries a token starts with. Browsers can send no header with a WebSocket, but
  /// subprotocols.
  public static let subprotocolPrefix = "touchline.token."

  /// Where a request has its token.
  public enum Place: String, Sendable, Hashable {
    case authorization
    case subprotocol = "a subprotocol"
    case query = "the query argument \"token\""
  }

  /// Finds the token of a request.
  ///
  /// The same token in two places is one token. An `authorization` of another scheme, as a proxy in front may need it,
  /// is no token.
  ///
  /// - Parameters:
  ///   - authorization: the values of the header.
  ///   - subprotocols: the items of `sec-websocket-protocol`.
  ///   - queryTokens: the values of the query argument `token`, percent-decoded.
  /// - Returns: nil when there is none. Of several places it is the first in the order above.
  /// - Throws: ``Refusal/invalid(_:)`` when there are different ones, so that nobody has to guess which counts.
  public static func extract(
    authorization: [String], subprotocols: [String], queryTokens: [String]
  ) throws(Refusal) -> (text: String, place: Place)? {
    var tokens: [(text: String, place: Place)] = []
    for value in authorization {
      if case .token(let text) = BearerHeader.read(value, strict: false) {
        tokens.append((text, .authorization))
      }
    }
    for item in subprotocols where item.hasPrefix(subprotocolPrefix) {
      tokens.append((String(item.dropFirst(subprotocolPrefix.count)), .subprotocol))
    }
    for text in queryTokens where !text.isEmpty { tokens.append((text, .query)) }
    guard let first = tokens.first else { return nil }
    if let other = tokens.first(where: { $0.text != first.text }) {
      let places =
        first.place == other.place
        ? first.place.rawValue : "\(first.place.rawValue) and \(other.place.rawValue)"
      throw .invalid("there are two different tokens, in \(places); send one")
    }
    return first
  }
}
