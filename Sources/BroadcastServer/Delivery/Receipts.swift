import BroadcastChannels

/// What one subscription said that it received and displayed, so that every message counts once for it.
struct Receipts {
  /// What an acknowledgement adds.
  struct News {
    /// Numbers that were received, but for those in `skipped`.
    fileprivate(set) var received: [ClosedRange<Int>] = []
    /// What was conflated away for this subscriber.
    fileprivate(set) var skipped = SequenceRuns()
    /// Numbers that were displayed.
    fileprivate(set) var displayed: [Int] = []
    /// Whether a displayed message has become stale, and was not said to be before.
    fileprivate(set) var isStale = false

    /// How many messages were received.
    var count: Int {
      received.reduce(0) { $0 + $1.count - skipped.count(in: $1) }
    }

    /// Takes numbers out that were sent to nobody.
    mutating func leaveOut(_ numbers: Set<Int>) {
      for span in received {
        if span.count < numbers.count {
          for number in span where numbers.contains(number) { skipped.insert(number) }
        } else {
          for number in numbers.filter(span.contains).sorted() { skipped.insert(number) }
        }
      }
      displayed.removeAll(where: numbers.contains)
    }
  }

  /// The channel's position when the subscription began.
  private let start: Int
  /// The stored message that came with the subscription, which is older than `start`.
  private var stored: Int?
  private var storedIsAcknowledged = false
  private var storedIsDisplayed = false
  /// Everything up to here is acknowledged, or will not be.
  private var acknowledged: Int
  /// Everything up to here is displayed, or will not be.
  private var displayed: Int
  /// What was conflated away and can still be named.
  private var skipped = SequenceRuns()
  /// The newest that became stale on the device.
  private var stale = 0

  init(at sequence: Int) {
    start = sequence
    acknowledged = sequence
    displayed = sequence
  }

  /// The stored message is on its way. One that came after the subscription began is counted like any other.
  mutating func sent(stored sequence: Int) {
    if stored == nil, sequence <= start { stored = sequence }
  }

  /// A message was replaced by a newer one before it was sent.
  ///
  /// Who never acknowledges would gather numbers as long as it is connected: what it has not named after so many more
  /// counts no longer.
  mutating func conflated(_ sequence: Int) {
    if sequence == stored, !storedIsAcknowledged { stored = nil }
    guard sequence > min(acknowledged, displayed) else { return }
    skipped.insert(sequence)
    guard skipped.count > 2 * Limits.messageRecordsPerChannel else { return }
    if let last = skipped.removeOldest(keeping: Limits.messageRecordsPerChannel) {
      acknowledged = max(acknowledged, last)
      displayed = max(displayed, last)
    }
  }

  /// Everything up to a number was received, and some of it displayed.
  mutating func acknowledge(_ sequence: Int, displayed shown: [Int], stale number: Int? = nil) -> News {
    var news = News(skipped: skipped)
    if let stored, stored <= sequence {
      if !storedIsAcknowledged { news.received.append(stored...stored) }
      storedIsAcknowledged = true
      if !storedIsDisplayed, shown.contains(stored) {
        news.displayed.append(stored)
        storedIsDisplayed = true
      }
    }
    if sequence > acknowledged {
      news.received.append(acknowledged + 1...sequence)
      acknowledged = sequence
    }
    for number in shown.sorted() where number > displayed && number <= sequence {
      if !skipped.contains(number) { news.displayed.append(number) }
      displayed = number
    }
    skipped.remove(through: min(acknowledged, displayed))
    // Only what was displayed can become stale.
    if let number, number > stale, number <= displayed || (storedIsDisplayed && number == stored) {
      stale = number
      news.isStale = true
    }
    return news
  }
}
