import BroadcastChannels
import Foundation

/// What the tokens of one connection must have in common: a value kept with it.
///
/// Source: Apple, "Establishing a token-based connection to APNs": one team a connection, and a new token no more than
/// once in 20 minutes.
public struct ConnectionTokenRules: Sendable {
  /// Whether a token that comes too soon is refused. Off unless asked for: one library makes a token for each push.
  public let pacing: Bool

  private var team: TeamID?
  private var last: (digest: TokenDigest, since: Date)?

  /// Makes the rules of a new connection.
  public init(pacing: Bool) { self.pacing = pacing }

  /// Takes a token that was found good, with each request that it came with.
  ///
  /// A refused token changes nothing: the one before it goes on being good, and its 20 minutes run from its own first
  /// request.
  public mutating func admit(_ token: ProviderToken, now: Date) throws(Refusal) {
    if let team, team != token.team.id {
      throw Refusal(
        .invalidProviderToken,
        "this connection belongs to the team \(team), and the provider token to \(token.team.id); a connection serves one team, open another"
      )
    }
    if let last, last.digest != token.digest {
      let age = now.timeIntervalSince(last.since)
      if pacing, age < Limits.providerTokenPaceSeconds {
        throw Refusal(
          .tooManyProviderTokenUpdates,
          "a new provider token \(Int(max(0, age))) s after the last one; use one for at least \(Int(Limits.providerTokenPaceSeconds)) s"
        )
      }
    }
    team = token.team.id
    if last?.digest != token.digest { last = (token.digest, now) }
  }
}
