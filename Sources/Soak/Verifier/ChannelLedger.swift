import BroadcastChannels

/// One published message, with what became of it.
struct LedgerEntry {
  let sent: Sent
  /// When the publisher sent it, in Unix seconds.
  let sentAt: Double
  var uniqueID: String?
  var outcome: Outcome?
  var isRefused = false
  /// The place under which it was first seen.
  var position: StreamPosition?
  /// When the channel let it out.
  var letOut: Double?
  /// How many subscribers received it.
  var received = 0
  /// Subscribers that acknowledged it, and those whose acknowledgement the server answered.
  var acknowledged = (sent: 0, confirmed: 0)
  /// The same for what they displayed.
  var displayed = (sent: 0, confirmed: 0)
}

/// What was published into one channel and what was let out of it, the newest of it: the verifier's truth.
struct ChannelLedger {
  /// Messages and numbers that are remembered. Every check is made within seconds.
  static let remembered = 4_096

  /// Whose gap it was, when a message that nobody had seen yet was missed by somebody slow.
  struct Missed {
    let subscriber: Int
    let position: StreamPosition
  }

  var entries: [Int: LedgerEntry] = [:]
  private(set) var newestNumber = 0
  private var oldestNumber = 1
  /// The epoch that is counted now, and the numbers of its deliveries.
  private(set) var epoch = ""
  private(set) var numbers: [Int: Int] = [:]
  private(set) var newestSequence = 0
  private var oldestSequence = 1
  /// Numbers that were let out in an earlier epoch: the same message may come again from a store.
  private(set) var earlierEpochs: Set<String> = []
  var missed: [Missed] = []
  /// Spans in which nobody reliable was connected, so that nothing can be said of what was let out.
  var blind: [ClosedRange<Double>] = []
  var blindSince: Double?
  /// The next number to be judged for the budget.
  var nextJudged: Int?
  var judge: BudgetJudge
  /// When the delivery that was judged last was let out.
  var judgedAt: Double?
  /// The end's place, once it was let out.
  var end: (position: StreamPosition, number: Int)?

  init(_ settings: ChannelSettings) { judge = BudgetJudge(settings) }

  /// Notes a message, and hands out those that are too old to be remembered.
  mutating func add(_ entry: LedgerEntry) -> [LedgerEntry] {
    entries[entry.sent.number] = entry
    newestNumber = max(newestNumber, entry.sent.number)
    var old: [LedgerEntry] = []
    while newestNumber - oldestNumber >= Self.remembered {
      if let entry = entries.removeValue(forKey: oldestNumber) { old.append(entry) }
      oldestNumber += 1
    }
    return old
  }

  /// Notes that a message was let out at a place.
  mutating func place(_ number: Int, at position: StreamPosition) {
    if position.epoch != epoch {
      if !epoch.isEmpty { earlierEpochs.insert(epoch) }
      epoch = position.epoch
      numbers = [:]
      newestSequence = 0
      oldestSequence = position.sequence
      nextJudged = nil
      missed = []
    }
    numbers[position.sequence] = number
    newestSequence = max(newestSequence, position.sequence)
    oldestSequence = min(oldestSequence, position.sequence)
    while newestSequence - oldestSequence >= Self.remembered {
      numbers[oldestSequence] = nil
      oldestSequence += 1
    }
  }

  /// Whether a position belongs to a counting that is over.
  func isPast(_ position: StreamPosition) -> Bool {
    position.epoch != epoch && earlierEpochs.contains(position.epoch)
  }

  /// The newest number that was let out before a moment; 0 when none is known.
  func newestSequence(before moment: Double) -> Int {
    // Mostly one of the last: a second's worth.
    stride(from: newestSequence, to: max(0, newestSequence - 1_024), by: -1).first { sequence in
      numbers[sequence].flatMap { entries[$0]?.letOut }.map { $0 < moment } ?? false
    } ?? 0
  }

  /// When the next message behind a number that somebody has seen was let out.
  func letOut(after sequence: Int) -> Double? {
    guard sequence < newestSequence else { return nil }
    return (sequence + 1...newestSequence).lazy.compactMap { numbers[$0].flatMap { entries[$0]?.letOut } }
      .first
  }

  /// How many messages in front of a number were let out after a moment, as far as they are known.
  func count(before sequence: Int, after moment: Double) -> Int {
    stride(from: sequence - 1, to: max(0, sequence - 256), by: -1).prefix { sequence in
      // One that nobody has seen yet counts: it was let out in between.
      numbers[sequence].flatMap { entries[$0]?.letOut }.map { $0 > moment } ?? true
    }.count
  }

  /// The newest timestamp among the stored messages up to a sequence number, as far back as matters.
  func newestStored(upTo sequence: Int) -> Int64? {
    guard sequence > 0 else { return nil }
    return (max(1, sequence - 255)...sequence).compactMap { number in
      guard let entry = numbers[number].flatMap({ entries[$0] }), entry.sent.isStored else { return nil }
      return entry.sent.timestamp
    }.max()
  }

  /// Whether somebody reliable was connected from a moment on for so long.
  func isWatched(from start: Double, for seconds: Double) -> Bool {
    let span = start...(start + seconds)
    if let blindSince, blindSince <= span.upperBound { return false }
    return !blind.contains { $0.overlaps(span) }
  }
}
