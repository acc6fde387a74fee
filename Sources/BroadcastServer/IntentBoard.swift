import BroadcastChannels
import Foundation
import SubscriberProtocol

/// The buttons that people pressed on a channel's cards, on their way to its publisher.
///
/// An intent has an id: pressing again before the publisher answered sends the same one, and it is passed on once. What
/// comes while no publisher listens waits for the next one, the newest ``Limits/intentsPerChannel`` of the last
/// ``Limits/requestIDSeconds``.
struct IntentBoard {
  private var intents: [(frame: IntentFrame, at: Date)] = []

  /// Takes an intent.
  ///
  /// - Returns: false when it is known already.
  mutating func take(_ frame: IntentFrame, at now: Date) -> Bool {
    forget(before: now)
    guard !intents.contains(where: { $0.frame.intentID == frame.intentID }) else { return false }
    intents.append((frame, now))
    if intents.count > Limits.intentsPerChannel { intents.removeFirst() }
    return true
  }

  /// What a publisher that begins to listen hears first.
  mutating func recent(at now: Date) -> [IntentFrame] {
    forget(before: now)
    return intents.map(\.frame)
  }

  private mutating func forget(before now: Date) {
    intents.removeAll { now.timeIntervalSince($0.at) >= Limits.requestIDSeconds }
  }
}
