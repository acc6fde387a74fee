import BroadcastChannels
import Foundation

/// The two kinds of token that the same keys sign. The header's `typ` tells them apart, so that one is never taken for
/// the other (RFC 8725, 3.11).
public enum TokenKind: String, Sendable, Hashable, CaseIterable {
  /// A ``ProviderToken``, for publishing and managing channels.
  case provider
  /// A ``SubscriberToken``, for subscribing.
  case subscriber

  /// The `typ` of a subscriber token.
  public static let subscriberType = "touchline-subscribe+jwt"

  /// The kind that a header claims to be. Provider tokens have the type `JWT` or none; what else senders put there is
  /// ignored.
  public init(header: JSONDocument) {
    let type = header.root["typ"]?.string?.lowercased()
    // "application/" may be written or left out (RFC 7515, 4.1.9).
    let isSubscriber = type == Self.subscriberType || type == "application/\(Self.subscriberType)"
    self = isSubscriber ? .subscriber : .provider
  }
}

/// A token whose signature holds: what both kinds have in common.
struct SignedToken {
  let keyID: KeyID
  let team: Team
  let claims: JSONValue
  /// `iat`.
  let issuedAt: Date

  /// Checks header, signature and issuer.
  ///
  /// The claims are read only after the signature: a stranger's text gets no further than its header. The algorithm is
  /// not chosen by the token (RFC 8725, 3.1): it is ES256, and the header only has to agree. Keys in the header (`jwk`,
  /// `jku`, `x5c`) are never used.
  init(
    _ jws: CompactJWS, kind: TokenKind, keys: KeyRing, strict: Bool, signatureChecks: inout Int
  ) throws(TokenFault) {
    let header = jws.header.root
    switch (kind, TokenKind(header: jws.header)) {
    case (.provider, .subscriber):
      throw TokenFault("is a subscriber token, which can't publish; a provider token was expected")
    case (.subscriber, .provider):
      throw TokenFault(
        "has not the type \"\(TokenKind.subscriberType)\": a provider token can't subscribe, and belongs to the publisher alone; a subscriber token was expected"
      )
    default: break
    }
    guard let algorithm = header["alg"] else {
      throw TokenFault("the header has no \"alg\"; ES256 was expected")
    }
    guard algorithm.string == "ES256" else {
      throw TokenFault("the header's alg is \(Shown.value(algorithm)); ES256 was expected")
    }
    // What is marked as critical must be understood, and nothing is (RFC 7515, 4.1.11).
    guard header["crit"] == nil else {
      throw TokenFault("the header has \"crit\", extensions that this server doesn't know")
    }
    guard let kid = header["kid"] else {
      throw TokenFault("the header has no \"kid\", the id of the key that signed the token")
    }
    guard let text = kid.string, let id = KeyID(text) else {
      throw TokenFault(
        "the header's kid is \(Shown.value(kid)); a key id was expected: \(IdentifierText.rule)")
    }
    guard let (key, team) = keys.key(id) else {
      throw TokenFault(
        "the key \(id) is not known here; its file and its team belong into the folder of keys")
    }
    guard jws.signature.count == VerifyingKey.signatureBytes else {
      let isDER = jws.signature.first == 0x30 && jws.signature.count > VerifyingKey.signatureBytes
      throw TokenFault(
        "the signature has \(jws.signature.count) bytes; 64 were expected, r and s of 32 each"
          + (isDER ? " (this is DER, as OpenSSL writes it)" : ""))
    }
    signatureChecks += 1
    guard key.isValid(signature: jws.signature, of: jws.signed) else {
      throw TokenFault("the signature is not that of the key \(id)")
    }
    let claims = try jws.claims().root
    guard let issuer = claims["iss"] else { throw TokenFault("has no \"iss\", the team's id") }
    guard issuer.string == team.id.text else {
      throw TokenFault("iss is \(Shown.value(issuer)), but the key \(id) belongs to the team \(team.id)")
    }
    guard let issued = claims["iat"] else {
      throw TokenFault("has no \"iat\", the time of its issue in Unix seconds")
    }
    keyID = id
    self.team = team
    self.claims = claims
    issuedAt = try Self.date(issued, "iat", strict: strict)
  }

  /// Reads a date in Unix seconds. Senders also write them with a fraction, or as a string; strictly, only an integer
  /// will do, as Apple documents it.
  static func date(_ value: JSONValue, _ name: String, strict: Bool) throws(TokenFault) -> Date {
    let text: String?
    switch value.content {
    case .number(let number): text = number.text
    case .string(let string) where !strict:
      text = string.allSatisfy { "0123456789.".contains($0) } ? string : nil
    default: text = nil
    }
    guard let text, text.utf8.count <= 40, let seconds = Double(text), seconds.isFinite,
      !strict || Int64(text) != nil
    else {
      let expected = strict ? "Unix seconds as an integer were expected" : "Unix seconds were expected"
      throw TokenFault("\(name) is \(Shown.value(value)); \(expected)")
    }
    guard seconds >= 0, seconds <= Double(Limits.latestUnixSeconds) else {
      let hint = seconds > 0 ? " (milliseconds?)" : ""
      throw TokenFault("\(name) is \(Shown.value(value)); Unix seconds were expected\(hint)")
    }
    return Date(timeIntervalSince1970: seconds)
  }

  /// Why a token of a time in the future is not good yet; nil when it is.
  static func notYet(_ issuedAt: Date, now: Date) -> String? {
    let ahead = issuedAt.timeIntervalSince(now)
    guard ahead > Limits.tokenFutureSeconds else { return nil }
    return "iat is \(Int(ahead.rounded(.up))) s in the future; is the clock of one of the two machines wrong?"
  }
}
