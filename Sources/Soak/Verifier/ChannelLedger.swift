import BroadcastChannels

/// One published message, with what became of it.
struct LedgerEntry {
  let sent: Sent
  /// When the publisher sent it, in Unix seconds.
  let sentAt: Double
  var uniqueID: String?
  var outcome: Outcome?
  /// Why it was refused.
  var refusal: String?
  /// When the answer came.
  var answeredAt: Double?
  /// Whether the answer, or that there is none, was judged.
  var isAnswerJudged = false
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
  /// What was known when the server was asked about it: later answers to its subscribers may be newer than its own.
  var whenAsked: (received: Int, acknowledged: Int, displayed: Int)?

  var isRefused: Bool { refusal != nil }
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
  /// The next message whose answer is to be judged.
  var nextAnswer = 1
  var answers: AnswerJudge
  /// When the delivery that was judged last was let out.
  var judgedAt: Double?
  /// The end's place, once it was let out.
  var end: (position: StreamPosition, number: Int)?

  init(_ settings: ChannelSettings) {
    judge = BudgetJudge(settings)
    answers = AnswerJudge(settings)
  }

  /// Notes a message, and hands out those that are too old to be remembered.
  mutating func add(_ entry: LedgerEntry) -> [LedgerEntry] {
    entries[entry.sent.number] = entry
    newestNumber = max(newestNumber, entry.sent.number)
    // One that was refused and is sent again.
    nextAnswer = min(nextAnswer, entry.sent.number)
    var old: [LedgerEntry] = []
    while newestNumber - oldestNumber >= Self.remembered {
      if let entry = entries.removeValue(forKey: oldestNumber) { old.append(entry) }
      oldestNumber += 1
      nextAnswer = max(nextAnswer, oldestNumber)
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

  /// What was let out at the same moment as a number, as far as it is known.
  func group(of sequence: Int) -> BudgetJudge.Group {
    var group = BudgetJudge.Group()
    guard let moment = numbers[sequence].flatMap({ entries[$0]?.letOut }) else { return group }
    for step in [1, -1] {
      var number = step > 0 ? sequence : sequence - 1
      while number <= newestSequence, number > sequence - Self.remembered {
        guard let entry = numbers[number].flatMap({ entries[$0] }), let letOut = entry.letOut else {
          // One that nobody has seen may be what the others made way for.
          if step > 0 { group.makesWay = true }
          break
        }
        // The server tells microseconds.
        guard abs(letOut - moment) < 0.000_01 else { break }
        if entry.sent.isIrreplaceable { group.irreplaceable += 1 }
        if entry.outcome == .delivered || entry.outcome == nil { group.makesWay = true }
        number += step
      }
    }
    return group
  }

  /// How many messages in front of a number were let out after a moment, as far as they are known.
  func count(before sequence: Int, after moment: Double) -> Int {
    stride(from: sequence - 1, to: max(0, sequence - 256), by: -1).prefix { sequence in
      // One that nobody has seen yet counts: it was let out in between.
      numbers[sequence].flatMap { entries[$0]?.letOut }.map { $0 > moment } ?? true
    }.count
  }

  /// The timestamp of the message that is stored up to a sequence number, as far back as matters; nil when there is none at a
  /// moment, or none for sure. Of two, the one with the newer timestamp is kept, then the later one; one that has expired gives
  /// way to any.
  func stored(upTo sequence: Int, at moment: Double) -> Int64? {
    guard sequence > 0 else { return nil }
    var kept: (timestamp: Int64, until: Double)?
    for number in max(1, sequence - 255)...sequence {
      guard let entry = numbers[number].flatMap({ entries[$0] }), let letOut = entry.letOut,
        let expiration = entry.sent.storedUntil
      else { continue }
      let until = min(expiration, letOut + Limits.storedMessageSeconds)
      guard until > letOut else { continue }
      if let kept, kept.timestamp > entry.sent.timestamp, kept.until > letOut { continue }
      kept = (entry.sent.timestamp, until)
    }
    // It may expire while the subscription comes about.
    return kept.flatMap { $0.until > moment + 1 ? $0.timestamp : nil }
  }

  /// Whether somebody reliable was connected from a moment on for so long.
  func isWatched(from start: Double, for seconds: Double) -> Bool {
    let span = start...(start + seconds)
    if let blindSince, blindSince <= span.upperBound { return false }
    return !blind.contains { $0.overlaps(span) }
  }
}
