/// The rules that a soak run verifies.
public enum SoakRule: String, Sendable, Codable, CaseIterable {
  /// Sequence numbers go up on a connection.
  case order = "out-of-order"
  /// No message comes twice.
  case once = "duplicate"
  /// Who is connected and reads misses nothing.
  case gap
  /// An alert or an end is never conflated away, and none that was accepted gets lost.
  case alertLost = "alert-lost"
  /// What was accepted is let out, or superseded by something at least as new.
  case lost
  /// A delivery has the bytes that were published, and one sequence number.
  case altered
  /// Nothing is delivered that was refused, dropped, or never published.
  case unexpected
  /// Priority 10 never goes beyond the channel's budget, in any span of time.
  case budget
  /// A delivery window delivers once.
  case window
  /// Every publish is answered, and no other way than the channel's rules allow.
  case answered = "wrong-answer"
  /// A request that is sent twice is published once.
  case publishedTwice = "published-twice"
  /// A state goes stale at its stale date, not earlier and not later.
  case stale
  /// Who came back to a channel that stores its newest message holds it.
  case newest = "old-after-return"
  /// A channel that stores its newest message goes on counting where it stood, whatever becomes of the server.
  case forgotten
  /// Who dismissed the card sees nothing more, and once unsubscribed gets nothing more.
  case afterDismissal = "after-dismissal"
  /// Nothing follows the end, and nothing is shown after it.
  case afterEnd = "after-end"
  /// What is acknowledged was displayed, or rightly passed over.
  case notDisplayed = "not-displayed"
  /// The server's record of a message agrees with what the subscribers did.
  case record
  /// Who wants to be subscribed soon is and stays so, who publishes has a connection, and the soak's channels are there.
  case unreachable
  /// The server ends no connection of somebody who reads, but when it stops.
  case cutOff = "cut-off"
}

/// A rule that did not hold, with what is needed to look into it.
public struct Violation: Sendable, Codable, Hashable {
  /// The rule.
  public let rule: SoakRule
  /// The channel, by its number in the plan.
  public let channel: Int
  /// The subscriber's place in the plan; nil when it concerns the whole channel.
  public let subscriber: Int?
  /// The sequence number.
  public let sequence: Int?
  /// The epoch of that number.
  public let epoch: String?
  /// When it was noticed, in seconds from the start of the run.
  public let at: Double
  /// What was seen, and what was expected.
  public let detail: String
}

extension Violation: CustomStringConvertible {
  /// One line, without the seed, which is the run's.
  public var description: String {
    let place = sequence.map { " seq \($0)\(epoch.map { " of epoch \($0)" } ?? "")" } ?? ""
    let who = subscriber.map { ", subscriber \($0)" } ?? ""
    return "\(rule.rawValue): channel \(channel)\(who)\(place) at \(Decimals.text(at, 3)) s: \(detail)"
  }

  /// One line with the seed, which finds it again.
  public func line(seed: UInt64) -> String { "\(self) (seed \(seed))" }
}
