import BroadcastChannels

/// What the verifier knows of one place among the subscribers.
struct SubscriberRecord {
  let channel: Int
  let isWitness: Bool
  /// Whether its connection holds so little that a burst alone makes it slow.
  let isNarrow: Bool
  /// Where it stands; nil while it is not subscribed.
  var position: StreamPosition?
  /// Until the first message after `subscribed`: the stored one may come, unless it was seen already.
  var mayGetStored = false
  /// Where it stood before it came back.
  var resumed: StreamPosition?
  /// When the message that it received last was let out.
  var lastSent: Double = -.infinity
  /// When it stopped reading, and from when on it read again.
  var stall: (from: Double, to: Double)?
  /// The timestamp that its activity shows.
  var timestamp: Int64?
  var hasEnded = false
  /// Whether its card is gone.
  var isLeaving = false
  /// Whether it unsubscribed because its card was dismissed.
  var isDismissed = false
  /// What it must hold soon, because it came back.
  var owes: (position: StreamPosition, at: Double, by: Double)?
  /// When its activity will go stale, by its own clock; nil when it won't, or did.
  var staleDue: Double?
  /// Seconds by which its clock is ahead.
  var clockOffset: Double = 0
  /// The device's clock right after its last jump.
  var jumpedTo: Double = -.infinity

  /// Since when it wants a subscription that it doesn't have; nil when it has one, or wants none.
  var wantedSince: Double?
  /// How often it tried since then.
  var attempts = 0
  /// When it last began to connect.
  var attemptAt: Double = -.infinity
  /// What became of the last try that came to nothing.
  var problem: String?
  /// When it sent the acknowledgements that the server has not answered yet.
  var unconfirmed: [Double] = []
  /// Whether it was told of that it gets nothing any more, on this connection.
  var isForgotten = false

  init(channel: Int, isWitness: Bool, isNarrow: Bool) {
    self.channel = channel
    self.isWitness = isWitness
    self.isNarrow = isNarrow
  }

  /// A new device takes the place.
  mutating func replace() {
    self = SubscriberRecord(channel: channel, isWitness: isWitness, isNarrow: isNarrow)
  }

  /// The connection is gone, and what was to come on it.
  mutating func connectionEnded() {
    position = nil
    owes = nil
    stall = nil
    unconfirmed = []
    isForgotten = false
  }

  /// Whether it reads nothing, or read nothing until so many seconds before a moment.
  func isSlow(at now: Double, grace: Double) -> Bool { stall.map { now < $0.to + grace } ?? false }

  /// Whether what was let out between two moments may have been conflated, because it read nothing then.
  func wasSlow(between start: Double, and end: Double, grace: Double) -> Bool {
    guard let stall else { return false }
    return stall.from <= end && start <= stall.to + grace
  }
}
