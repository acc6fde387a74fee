import BroadcastChannels
import Foundation

/// A token that allows subscribing to some channels until a date: a JWT that a key of the app's team signed.
///
/// Touchline's own; Apple's devices need none. Header: `alg` ES256, `kid`, `typ` `touchline-subscribe+jwt`. Claims: `iss`
/// (the team), `iat` and `exp` (Unix seconds, at most 30 days apart), `channels` (ids or aliases, or `["*"]` for every
/// channel of the team's apps).
public struct SubscriberToken: Sendable, Hashable {
  /// The channels that a token names.
  public enum Channels: Sendable, Hashable {
    /// Every channel of the team's apps.
    case all
    /// These ids and aliases.
    case named(Set<String>)
  }

  /// Why subscribing is refused.
  public enum Refusal: Error, Sendable, Hashable {
    /// The channel wants a token, and there is none.
    case missing
    /// The token can't be used: its form, its key, its signature or its claims.
    case invalid(String)
    /// Its time is over.
    case expired(String)
    /// It is good, but not for this channel.
    case notAllowed(String)
  }

  /// The key that signed it.
  public let keyID: KeyID
  /// The team that the key belongs to.
  public let team: Team
  /// When it was made (`iat`).
  public let issuedAt: Date
  /// When it ends (`exp`): from then on it is refused, and a connection that uses it is closed.
  public let expires: Date
  /// The channels.
  public let channels: Channels

  /// Checks all that doesn't depend on the time.
  init(_ text: String, keys: KeyRing, strict: Bool, signatureChecks: inout Int) throws(TokenFault) {
    let token = try SignedToken(
      CompactJWS(text, strict: strict), kind: .subscriber, keys: keys, strict: strict,
      signatureChecks: &signatureChecks)
    keyID = token.keyID
    team = token.team
    issuedAt = token.issuedAt
    guard let end = token.claims["exp"] else {
      throw TokenFault("has no \"exp\", the time of its end in Unix seconds")
    }
    expires = try SignedToken.date(end, "exp", strict: strict)
    let life = expires.timeIntervalSince(issuedAt)
    guard life > 0, life <= Limits.subscriberTokenSeconds else {
      throw TokenFault(
        life > 0
          ? "is good for \(Int(life)) s; at most \(Int(Limits.subscriberTokenSeconds)) s (30 days) from iat to exp are allowed"
          : "its exp is not after its iat")
    }
    channels = try Self.channels(token.claims["channels"])
  }

  /// Checks that the token is good now.
  public func check(at now: Date) throws(Refusal) {
    if let notYet = SignedToken.notYet(issuedAt, now: now) {
      throw .invalid("the subscriber token's \(notYet)")
    }
    guard now < expires else {
      throw .expired(
        "the subscriber token ended \(Int(now.timeIntervalSince(expires))) s ago; ask for a new one")
    }
  }

  /// Whether the token is for a channel of an app.
  public func allows(channelID: ChannelID, alias: ChannelAlias?, app: BundleID) -> Bool {
    guard team.owns(app) else { return false }
    switch channels {
    case .all: return true
    case .named(let names):
      return names.contains(channelID.base64) || alias.map { names.contains($0.name) } ?? false
    }
  }

  /// The same as ``allows(channelID:alias:app:)``, with what to tell.
  public func check(channelID: ChannelID, alias: ChannelAlias?, app: BundleID) throws(Refusal) {
    guard team.owns(app) else {
      throw .notAllowed("the subscriber token is of the team \(team.id), which the channel's app is not of")
    }
    guard allows(channelID: channelID, alias: alias, app: app) else {
      throw .notAllowed("the subscriber token doesn't name this channel in \"channels\"")
    }
  }

  /// Makes a token.
  ///
  /// - Parameters:
  ///   - channels: ids or aliases, or `["*"]`.
  ///   - issuedAt: when it counts as made; whole seconds are kept.
  ///   - expires: at most ``Limits/subscriberTokenSeconds`` later.
  public static func mint(
    key: SigningKey, keyID: KeyID, team: TeamID, channels: [String], issuedAt: Date, expires: Date
  ) throws(KeyError) -> String {
    try CompactJWS.text(
      header: JSONWriter.object([
        "alg": "\"ES256\"", "kid": JSONWriter.quoted(keyID.text),
        "typ": JSONWriter.quoted(TokenKind.subscriberType),
      ]),
      claims: JSONWriter.object([
        "iss": JSONWriter.quoted(team.text), "iat": String(Int64(issuedAt.timeIntervalSince1970)),
        "exp": String(Int64(expires.timeIntervalSince1970)),
        "channels": "[\(channels.map(JSONWriter.quoted).joined(separator: ","))]",
      ]), key: key)
  }

  private static func channels(_ value: JSONValue?) throws(TokenFault) -> Channels {
    let expected = "an array of channel ids and aliases, or [\"*\"] for all, was expected"
    guard let value else { throw TokenFault("has no \"channels\"; \(expected)") }
    guard let elements = value.elements, !elements.isEmpty else {
      throw TokenFault("channels is \(value.elements == nil ? Shown.value(value) : "empty"); \(expected)")
    }
    if elements.count == 1, elements[0].string == "*" { return .all }
    var names: Set<String> = []
    for element in elements {
      guard let name = element.string, ChannelID(name) != nil || ChannelAlias(name) != nil else {
        let hint = element.string == "*" ? " (\"*\" stands alone)" : ""
        throw TokenFault("channels has \(Shown.value(element))\(hint); \(expected)")
      }
      names.insert(name)
    }
    return .named(names)
  }
}

extension SubscriberToken.Refusal: CustomStringConvertible {
  /// The HTTP status: 401 asks for a (better) token, 403 says that this one is not for the channel.
  public var status: Int {
    switch self {
    case .missing, .invalid, .expired: 401
    case .notAllowed: 403
    }
  }

  /// The code.
  public var reason: String {
    switch self {
    case .missing: "MissingSubscriberToken"
    case .invalid: "InvalidSubscriberToken"
    case .expired: "ExpiredSubscriberToken"
    case .notAllowed: "ChannelNotAllowed"
    }
  }

  /// What was wrong and what to do next.
  public var detail: String {
    switch self {
    case .missing:
      "the channel can be subscribed to with a subscriber token only: as \"authorization: bearer …\", as the subprotocol \"\(SubscriberToken.subprotocolPrefix)…\", or as the query argument \"token\""
    case .invalid(let detail), .expired(let detail), .notAllowed(let detail): detail
    }
  }

  /// Code and explanation.
  public var description: String { "\(reason): \(detail)" }
}
