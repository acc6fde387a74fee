import BroadcastChannels
import Foundation

/// A publisher's token: a JWT that a key of the team signed (ES256), good for an hour.
///
/// Source: Apple, "Establishing a token-based connection to APNs". Each rule has its reason there:
/// `MissingProviderToken`, `InvalidProviderToken`, `ExpiredProviderToken`, `TopicMismatch`.
public struct ProviderToken: Sendable, Hashable {
  /// The key that signed it.
  public let keyID: KeyID
  /// The team that the key belongs to.
  public let team: Team
  /// When it was made (`iat`).
  public let issuedAt: Date
  /// When it ends by its own word (`exp`), which Apple doesn't ask for and one library adds.
  public let expires: Date?
  /// Stands for the text, so that the same token is known again.
  let digest: TokenDigest

  /// Checks all that doesn't depend on the time.
  init(
    _ text: String, keys: KeyRing, strict: Bool, signatureChecks: inout Int
  ) throws(TokenFault) {
    let token = try SignedToken(
      CompactJWS(text, strict: strict), kind: .provider, keys: keys, strict: strict,
      signatureChecks: &signatureChecks)
    keyID = token.keyID
    team = token.team
    issuedAt = token.issuedAt
    digest = TokenDigest(text)
    guard let end = token.claims["exp"] else {
      expires = nil
      return
    }
    do throws(TokenFault) {
      expires = try SignedToken.date(end, "exp", strict: strict)
    } catch {
      // Nothing that Apple reads: what can't be understood is ignored, as all further claims are.
      guard !strict else { throw error }
      expires = nil
    }
  }

  /// Checks that the token is good now.
  ///
  /// `exp` counts although Apple doesn't mention it: "the current date/time MUST be before the expiration" for whoever
  /// processes it (RFC 7519, 4.1.4), and a sender that uses tokens beyond their own end has a fault worth knowing of.
  public func check(at now: Date) throws(Refusal) {
    if let notYet = SignedToken.notYet(issuedAt, now: now) {
      throw Refusal(.invalidProviderToken, "the provider token's \(notYet)")
    }
    let age = now.timeIntervalSince(issuedAt)
    guard age <= Limits.providerTokenSeconds else {
      throw Refusal(
        .expiredProviderToken,
        "the provider token is \(Int(age)) s old; make a new one after \(Int(Limits.providerTokenPaceSeconds)) s and before \(Int(Limits.providerTokenSeconds)) s"
      )
    }
    if let expires, expires <= now {
      throw Refusal(
        .expiredProviderToken,
        "the provider token's own exp passed \(Int(now.timeIntervalSince(expires))) s ago")
    }
  }

  /// Checks that an app is the team's.
  public func check(topic app: BundleID) throws(Refusal) {
    guard !team.owns(app) else { return }
    let own = team.apps.prefix(5).map(\.description).joined(separator: ", ")
    throw Refusal(
      .topicMismatch,
      "\(app) is no app of the team \(team.id); in teams.json it has \(own)\(team.apps.count > 5 ? " and more" : "")"
    )
  }

  /// Makes a token.
  ///
  /// - Parameters:
  ///   - key: a key of the team.
  ///   - date: when it counts as made; whole seconds are kept.
  public static func mint(key: SigningKey, keyID: KeyID, team: TeamID, at date: Date) throws(KeyError)
    -> String
  {
    try CompactJWS.text(
      header: JSONWriter.object(["alg": "\"ES256\"", "kid": JSONWriter.quoted(keyID.text)]),
      claims: JSONWriter.object([
        "iss": JSONWriter.quoted(team.text), "iat": String(Int64(date.timeIntervalSince1970)),
      ]), key: key)
  }
}
