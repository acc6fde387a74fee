// Why: checking a signature takes some 50 µs, looking a token up takes one. A publisher must not pay the one for each
// message of a burst, nor a server for the same bad token over and over. Outcomes are remembered by the token's SHA-256.
// What depends on the time is checked anew each time, so that a remembered token expires when it should.
//
// Good and bad tokens have a memory each: whoever sends bad ones, which everybody can, pushes out no good one. A
// flood of different bad tokens still costs a signature check each when it names a known key; how many come in a second
// is for the server to bound (`Visitors`).

import BroadcastChannels
import Foundation

/// Verifies tokens against a ``KeyRing``. Used from one thread.
public final class TokenVerifier {
  /// The keys.
  public private(set) var keys: KeyRing
  /// Whether tokens must be exactly as documented: `iat` an integer, `bearer` in small letters, no base64 padding, a
  /// well-formed `exp` when there is one.
  public let isStrict: Bool
  /// Signatures that were checked so far: what tokens cost.
  public private(set) var signatureChecks = 0

  private var providers = Memory<ProviderToken>()
  private var subscribers = Memory<SubscriberToken>()

  /// Makes a verifier.
  public init(keys: KeyRing, strict: Bool = false) {
    self.keys = keys
    isStrict = strict
  }

  /// Takes other keys, and forgets what it found with the old ones.
  public func use(_ keys: KeyRing) {
    self.keys = keys
    providers = Memory()
    subscribers = Memory()
  }

  /// Verifies the `authorization` header of a provider's request.
  ///
  /// - Parameter authorization: the header's value; nil when there is none.
  /// - Throws: `MissingProviderToken`, `InvalidProviderToken` or `ExpiredProviderToken`, with what was wrong.
  public func provider(authorization: String?, now: Date) throws(Refusal) -> ProviderToken {
    let text: String
    switch BearerHeader.read(authorization, strict: isStrict) {
    case .token(let token): text = token
    case .nothing:
      throw Refusal(
        .missingProviderToken, "there is no provider token; send it as \"authorization: bearer <token>\"")
    case .other:
      throw Refusal(
        .invalidProviderToken,
        "the authorization header doesn't start with \"bearer \"\(isStrict ? " in small letters and one space" : ""), followed by a provider token"
      )
    }
    let token: ProviderToken
    do throws(TokenFault) {
      token = try verified(text, in: providers) { (text, checks) throws(TokenFault) in
        try ProviderToken(text, keys: keys, strict: isStrict, signatureChecks: &checks)
      }
    } catch {
      throw Refusal(.invalidProviderToken, "the provider token: \(error.detail)")
    }
    try token.check(at: now)
    return token
  }

  /// Verifies a subscriber's token, as ``SubscriberToken/extract(authorization:subprotocols:queryTokens:)`` found it.
  public func subscriber(_ text: String?, now: Date) throws(SubscriberToken.Refusal) -> SubscriberToken {
    guard let text else { throw .missing }
    let token: SubscriberToken
    do throws(TokenFault) {
      token = try verified(text, in: subscribers) { (text, checks) throws(TokenFault) in
        try SubscriberToken(text, keys: keys, strict: isStrict, signatureChecks: &checks)
      }
    } catch {
      throw .invalid("the subscriber token: \(error.detail)")
    }
    try token.check(at: now)
    return token
  }

  /// The same for what stands in an `authorization` header; what is no token there needs no check.
  public func remembers(authorization: String?) -> Bool {
    guard case .token(let text) = BearerHeader.read(authorization, strict: isStrict) else { return true }
    return remembers(text)
  }

  /// Whether a token's signature was checked already, and its outcome is remembered.
  public func remembers(_ text: String) -> Bool {
    guard text.utf8.count <= Limits.tokenBytes else { return true }
    let digest = TokenDigest(text)
    return providers.good.contains(digest) || providers.bad.contains(digest)
      || subscribers.good.contains(digest) || subscribers.bad.contains(digest)
  }

  // MARK: Memory

  private final class Memory<Token> {
    var good = RecentlyUsed<TokenDigest, Token>(capacity: Limits.rememberedTokens)
    var bad = RecentlyUsed<TokenDigest, TokenFault>(capacity: Limits.rememberedTokens)
  }

  private func verified<Token>(
    _ text: String, in memory: Memory<Token>,
    _ verify: (String, inout Int) throws(TokenFault) -> Token
  ) throws(TokenFault) -> Token {
    guard text.utf8.count <= Limits.tokenBytes else {
      // Not worth hashing.
      throw TokenFault("has \(text.utf8.count) bytes; a token has at most \(Limits.tokenBytes)")
    }
    let digest = TokenDigest(text)
    if let token = memory.good.value(for: digest) { return token }
    if let fault = memory.bad.value(for: digest) { throw fault }
    do throws(TokenFault) {
      let token = try verify(text, &signatureChecks)
      memory.good.insert(token, for: digest)
      return token
    } catch {
      memory.bad.insert(error, for: digest)
      throw error
    }
  }
}
