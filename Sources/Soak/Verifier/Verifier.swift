// Why: a soak that only counts bytes proves nothing. This one hears what publishers sent and were answered, and what each
// simulated device received, showed and acknowledged, and holds both against the rules. It knows nothing of the server's
// code, but for the numbers of a channel's settings; it reads no clock; and a recorded run can be given to it again, with
// one thing broken, which is how its tests know that it sees.

import BroadcastChannels

/// Holds a soak run against the rules.
public struct Verifier: Sendable {
  /// Seconds within which things must happen that take a moment.
  public struct Tolerance: Sendable, Codable, Hashable {
    /// From a stale date to the flip on the card.
    public var stale: Double = 0.25
    /// From a subscription to holding the newest state.
    public var newest: Double = 2
    /// From reading again to having caught up.
    public var catchingUp: Double = 3
    /// From a publish to its delivery, beyond the delivery window.
    public var delivery: Double = 5

    /// Makes the stated tolerances.
    public init() {}
  }

  /// The tolerances that it judges by.
  public let tolerance: Tolerance
  /// The first violations, in the order in which they were noticed.
  public private(set) var violations: [Violation] = []
  /// How many there were of each rule.
  public private(set) var counts: [SoakRule: Int] = [:]
  /// How often each rule was held against something.
  public private(set) var checks: [SoakRule: Int] = [:]
  /// Messages that slow subscribers missed because newer ones took their place.
  public private(set) var conflated = 0
  /// Messages that came back too late to say anything of, or were seen by nobody.
  public private(set) var undecided = 0

  /// Violations that are kept with their details.
  public static let kept = 1_000

  private let start: Double
  private let settings: [ChannelSettings]
  private var ledgers: [ChannelLedger]
  private var subscribers: [SubscriberRecord]
  private var stops: [Double] = []
  /// Until when the soak's own standstill excuses lateness, and how long it was.
  private var lag: (seconds: Double, until: Double) = (0, -.infinity)
  private var owing: Set<Int> = []

  /// Prepares to judge a run.
  ///
  /// - Parameters:
  ///   - start: the run's beginning, in Unix seconds.
  ///   - channels: each channel's rules.
  ///   - subscribers: the channel of each place, and whether it is the channel's witness.
  public init(
    start: Double, channels: [ChannelSettings], subscribers: [(channel: Int, isWitness: Bool)],
    tolerance: Tolerance = Tolerance()
  ) {
    self.start = start
    self.tolerance = tolerance
    settings = channels
    ledgers = channels.map { ChannelLedger($0) }
    for index in ledgers.indices { ledgers[index].blindSince = -.infinity }
    self.subscribers = subscribers.map { SubscriberRecord(channel: $0.channel, isWitness: $0.isWitness) }
  }

  /// How many violations there were.
  public var violationCount: Int { counts.values.reduce(0, +) }

  /// Takes in what happened at a moment, in Unix seconds.
  public mutating func observe(_ observation: Observation, at now: Double) {
    switch observation {
    case .sent(let channel, let sent):
      for old in ledgers[channel].add(LedgerEntry(sent: sent, sentAt: now)) { settle(old, channel, at: now) }
    case .accepted(let channel, let number, let uniqueID, let outcome, let isRepetition, let again):
      accepted(channel, number, uniqueID, outcome, isRepetition, again, at: now)
    case .refused(let channel, let number): ledgers[channel].entries[number]?.isRefused = true
    case .arrived(let subscriber): subscribers[subscriber].replace()
    case .subscribed(let subscriber, let position, let resumed):
      subscribed(subscriber, position, resumed, at: now)
    case .disconnected(let subscriber): disconnected(subscriber, at: now)
    case .stalled(let subscriber):
      let from = subscribers[subscriber].stall.map { old in
        // Not caught up yet from the one before: both are one.
        subscribers[subscriber].lastSent < old.to ? old.from : now
      }
      subscribers[subscriber].stall = (from ?? now, .infinity)
      subscribers[subscriber].owes = nil
    case .readAgain(let subscriber): subscribers[subscriber].stall?.to = now
    case .received(let subscriber, let arrival, let shown): received(subscriber, arrival, shown, at: now)
    case .wentStale(let subscriber, let staleDate, let clock):
      wentStale(subscriber, staleDate, clock, at: now)
    case .clockJumped(let subscriber, let clock): subscribers[subscriber].jumpedTo = clock
    case .leaving(let subscriber):
      subscribers[subscriber].isLeaving = true
      subscribers[subscriber].owes = nil
    case .dismissed(let subscriber):
      subscribers[subscriber].isDismissed = true
      subscribers[subscriber].owes = nil
    case .acknowledged(let subscriber, let numbers, let displayed):
      let channel = subscribers[subscriber].channel
      for number in numbers { ledgers[channel].entries[number]?.acknowledged.sent += 1 }
      for number in displayed { ledgers[channel].entries[number]?.displayed.sent += 1 }
    case .confirmed(let subscriber, let numbers, let displayed):
      let channel = subscribers[subscriber].channel
      for number in numbers { ledgers[channel].entries[number]?.acknowledged.confirmed += 1 }
      for number in displayed { ledgers[channel].entries[number]?.displayed.confirmed += 1 }
    case .record(let channel, let number, let written, let acknowledged, let displayed):
      record(channel, number, written, acknowledged, displayed, at: now)
    case .serverStopped: stops.append(now)
    case .lagged(let seconds):
      if seconds >= lag.seconds || now > lag.until { lag = (seconds, now + 2) }
    }
  }

  /// Judges what has come due. Call it some ten times a second.
  public mutating func advance(to now: Double) {
    for channel in ledgers.indices { judgeBudget(channel, at: now) }
    for subscriber in owing where subscribers[subscriber].owes.map({ $0.by <= now }) ?? true {
      owing.remove(subscriber)
      judgeReturn(subscriber, at: now)
    }
  }

  /// Judges what is left at the end of the run. Nothing may be observed afterwards.
  public mutating func finish(at now: Double) {
    advance(to: now)
    for channel in ledgers.indices {
      for number in ledgers[channel].entries.keys.sorted() {
        if let entry = ledgers[channel].entries[number] { settle(entry, channel, at: now) }
      }
      undecided += ledgers[channel].missed.count
    }
  }

  /// How late things may be because the soak stood still.
  private func excuse(at now: Double) -> Double { now <= lag.until ? lag.seconds : 0 }

  private mutating func violate(
    _ rule: SoakRule, _ channel: Int, _ subscriber: Int?, _ position: StreamPosition?, at now: Double,
    _ detail: String
  ) {
    counts[rule, default: 0] += 1
    guard violations.count < Self.kept else { return }
    violations.append(
      Violation(
        rule: rule, channel: channel, subscriber: subscriber, sequence: position?.sequence,
        epoch: position?.epoch, at: now - start, detail: detail))
  }

  private mutating func check(_ rule: SoakRule) { checks[rule, default: 0] += 1 }

  // MARK: Publishers

  private mutating func accepted(
    _ channel: Int, _ number: Int, _ uniqueID: String, _ outcome: Outcome, _ isRepetition: Bool,
    _ again: Bool, at now: Double
  ) {
    guard var entry = ledgers[channel].entries[number] else { return }
    if again {
      check(.publishedTwice)
      if !isRepetition || entry.uniqueID != uniqueID {
        violate(
          .publishedTwice, channel, nil, nil, at: now,
          "message \(number) was sent twice under one request id and answered as \(entry.uniqueID ?? "–") and \(uniqueID)"
        )
      }
    }
    entry.uniqueID = entry.uniqueID ?? uniqueID
    entry.outcome = entry.outcome ?? outcome
    ledgers[channel].entries[number] = entry
  }

  /// The last word on a message: what was accepted must have been let out, or superseded.
  private mutating func settle(_ entry: LedgerEntry, _ channel: Int, at now: Double) {
    let ledger = ledgers[channel]
    guard let outcome = entry.outcome, !entry.isRefused, outcome != .dropped, outcome != .superseded else {
      return
    }
    let longest = max(settings[channel].windows.considerate, settings[channel].windows.passive)
    let patience = longest + tolerance.delivery
    guard ledger.isWatched(from: entry.sentAt - 1, for: patience + 1),
      !stops.contains(where: { (entry.sentAt - 1...entry.sentAt + patience).contains($0) }),
      entry.sentAt + patience <= now
    else {
      if entry.position == nil { undecided += 1 }
      return
    }
    check(entry.sent.isIrreplaceable ? .alertLost : .lost)
    guard entry.position == nil else { return }
    if entry.sent.isIrreplaceable {
      violate(
        .alertLost, channel, nil, nil, at: now,
        "message \(entry.sent.number), an \(entry.sent.isEnd ? "end" : "alert"), was answered \"\(outcome.rawValue)\" and reached nobody"
      )
    } else if outcome == .delivered || !isSuperseded(entry, ledger) {
      violate(
        .lost, channel, nil, nil, at: now,
        "message \(entry.sent.number) was answered \"\(outcome.rawValue)\" and reached nobody, and nothing as new took its place"
      )
    }
  }

  private func isSuperseded(_ entry: LedgerEntry, _ ledger: ChannelLedger) -> Bool {
    // Mostly by one of the next; a dictionary look-up each.
    (entry.sent.number + 1...entry.sent.number + 512).contains { number in
      guard let other = ledger.entries[number], other.position != nil else { return false }
      return other.sent.timestamp >= entry.sent.timestamp
    }
  }

  // MARK: Connections

  private mutating func subscribed(
    _ subscriber: Int, _ position: StreamPosition, _ resumed: StreamPosition?, at now: Double
  ) {
    let channel = subscribers[subscriber].channel
    subscribers[subscriber].position = position
    subscribers[subscriber].resumed = resumed
    subscribers[subscriber].mayGetStored = settings[channel].storagePolicy == .latest
    subscribers[subscriber].stall = nil
    subscribers[subscriber].isDismissed = false
    // What was let out before doesn't concern this connection.
    subscribers[subscriber].lastSent = now
    if settings[channel].storagePolicy == .latest, !subscribers[subscriber].hasEnded,
      !subscribers[subscriber].isLeaving
    {
      subscribers[subscriber].owes = (position, now + tolerance.newest + excuse(at: now))
      owing.insert(subscriber)
    }
    if subscribers[subscriber].isWitness, let since = ledgers[channel].blindSince {
      ledgers[channel].blind.append(since...now)
      if ledgers[channel].blind.count > 256 { ledgers[channel].blind.removeFirst() }
      ledgers[channel].blindSince = nil
    }
  }

  private mutating func disconnected(_ subscriber: Int, at now: Double) {
    let record = subscribers[subscriber]
    subscribers[subscriber].position = nil
    subscribers[subscriber].owes = nil
    subscribers[subscriber].stall = nil
    if record.isWitness, ledgers[record.channel].blindSince == nil {
      ledgers[record.channel].blindSince = now
    }
  }

  private mutating func judgeReturn(_ subscriber: Int, at now: Double) {
    let record = subscribers[subscriber]
    guard let owes = record.owes else { return }
    subscribers[subscriber].owes = nil
    let ledger = ledgers[record.channel]
    guard owes.position.epoch == ledger.epoch, let newest = ledger.newestStored(upTo: owes.position.sequence)
    else { return }
    check(.newest)
    guard (record.timestamp ?? .min) < newest else { return }
    violate(
      .newest, record.channel, subscriber, owes.position, at: now,
      "it came back at seq \(owes.position.sequence) and holds the state of \(record.timestamp.map(String.init) ?? "no message"); the newest stored one is of \(newest)"
    )
  }

  // MARK: Deliveries

  private mutating func received(_ subscriber: Int, _ arrival: SoakArrival, _ shown: Shown, at now: Double) {
    let channel = subscribers[subscriber].channel
    examine(arrival, channel, subscriber, at: now)
    if let number = arrival.number { ledgers[channel].entries[number]?.received += 1 }
    follow(subscriber, arrival, at: now)
    judgeShown(subscriber, arrival, shown, at: now)
    subscribers[subscriber].lastSent = max(subscribers[subscriber].lastSent, arrival.sent)
  }

  /// Is it what was published, and the same for everybody?
  private mutating func examine(_ arrival: SoakArrival, _ channel: Int, _ subscriber: Int, at now: Double) {
    guard let number = arrival.number else {
      return violate(
        .unexpected, channel, subscriber, arrival.position, at: now, "no publisher of this run sent it")
    }
    let ledger = ledgers[channel]
    check(.altered)
    if ledger.epoch == arrival.position.epoch, let known = ledger.numbers[arrival.position.sequence] {
      if known != number {
        violate(
          .altered, channel, subscriber, arrival.position, at: now,
          "one sequence number for two messages, \(known) and \(number)")
      }
      if ledger.entries[number]?.sent.digest ?? arrival.digest != arrival.digest {
        alter(arrival, channel, subscriber, now)
      }
      return
    }
    // A message of an earlier counting that is still on its way, or too old to be remembered.
    guard !ledger.isPast(arrival.position), number > ledger.newestNumber - ChannelLedger.remembered else {
      return
    }
    guard let entry = ledger.entries[number] else {
      return violate(
        .unexpected, channel, subscriber, arrival.position, at: now, "message \(number) was not sent yet")
    }
    if entry.isRefused {
      violate(
        .unexpected, channel, subscriber, arrival.position, at: now,
        "message \(number) was refused, and was delivered")
    }
    if entry.sent.digest != arrival.digest || entry.uniqueID ?? arrival.uniqueID != arrival.uniqueID {
      alter(arrival, channel, subscriber, now)
    }
    if let first = entry.position, first.epoch == arrival.position.epoch {
      violate(
        .publishedTwice, channel, subscriber, arrival.position, at: now,
        "message \(number) was let out as seq \(first.sequence) and again")
    }
    ledgers[channel].entries[number]?.position = arrival.position
    ledgers[channel].entries[number]?.letOut = arrival.sent
    ledgers[channel].place(number, at: arrival.position)
    if entry.sent.isEnd { ledgers[channel].end = (arrival.position, number) }
    if let end = ledger.end, end.position.epoch == arrival.position.epoch,
      arrival.position.sequence > end.position.sequence, number < end.number
    {
      violate(
        .afterEnd, channel, subscriber, arrival.position, at: now,
        "message \(number) was let out after the end, seq \(end.position.sequence)")
    }
    judgeMissed(arrival, entry, channel, at: now)
  }

  private mutating func alter(_ arrival: SoakArrival, _ channel: Int, _ subscriber: Int, _ now: Double) {
    violate(
      .altered, channel, subscriber, arrival.position, at: now,
      "message \(arrival.number ?? 0) is not what was published under its number: other bytes, or another unique-id"
    )
  }

  /// Somebody slow missed a number that is known only now.
  private mutating func judgeMissed(
    _ arrival: SoakArrival, _ entry: LedgerEntry, _ channel: Int, at now: Double
  ) {
    guard !ledgers[channel].missed.isEmpty else { return }
    let misses = ledgers[channel].missed.filter { $0.position == arrival.position }
    guard !misses.isEmpty else { return }
    ledgers[channel].missed.removeAll { $0.position == arrival.position }
    for miss in misses where entry.sent.isIrreplaceable {
      loseAlert(entry.sent.number, channel, miss.subscriber, miss.position, at: now)
    }
  }

  private mutating func loseAlert(
    _ number: Int, _ channel: Int, _ subscriber: Int, _ position: StreamPosition, at now: Double
  ) {
    violate(
      .alertLost, channel, subscriber, position, at: now,
      "message \(number), an alert or an end, never reached this subscriber, which was slow and stayed connected"
    )
  }

  /// Does it follow what this subscriber had before?
  private mutating func follow(_ subscriber: Int, _ arrival: SoakArrival, at now: Double) {
    let record = subscribers[subscriber]
    let (channel, sequence) = (record.channel, arrival.position.sequence)
    check(.afterDismissal)
    if record.isDismissed {
      return violate(
        .afterDismissal, channel, subscriber, arrival.position, at: now,
        "it was unsubscribed, because its card was dismissed")
    }
    check(.order)
    guard let last = record.position else {
      return violate(
        .order, channel, subscriber, arrival.position, at: now, "a message before the subscription stands")
    }
    defer { subscribers[subscriber].mayGetStored = false }
    guard arrival.position.epoch == last.epoch else {
      return violate(
        .order, channel, subscriber, arrival.position, at: now,
        "the subscription stands in epoch \(last.epoch)")
    }
    if record.mayGetStored, sequence <= last.sequence {
      if let resumed = record.resumed, resumed.epoch == last.epoch, sequence <= resumed.sequence {
        violate(
          .once, channel, subscriber, arrival.position, at: now,
          "it resumed from seq \(resumed.sequence) and gets an older one")
      }
      return
    }
    if sequence <= last.sequence {
      let rule: SoakRule = sequence == last.sequence ? .once : .order
      return violate(
        rule, channel, subscriber, arrival.position, at: now, "it comes after seq \(last.sequence)")
    }
    subscribers[subscriber].position = arrival.position
    check(.gap)
    if sequence > last.sequence + 1 {
      missed(last.sequence + 1...sequence - 1, subscriber, arrival, at: now)
    }
  }

  private mutating func missed(
    _ numbers: ClosedRange<Int>, _ subscriber: Int, _ arrival: SoakArrival, at now: Double
  ) {
    let record = subscribers[subscriber]
    let channel = record.channel
    let grace = tolerance.catchingUp + excuse(at: now)
    let isExcused =
      record.wasSlow(between: record.lastSent, and: arrival.sent, grace: grace) || excuse(at: now) > 1
    guard isExcused else {
      return violate(
        .gap, channel, subscriber, arrival.position, at: now,
        "it reads and stayed connected, and misses \(numbers.count == 1 ? "seq \(numbers.lowerBound)" : "seq \(numbers.lowerBound) to \(numbers.upperBound)")"
      )
    }
    conflated += numbers.count
    for sequence in numbers {
      check(.alertLost)
      let position = StreamPosition(epoch: arrival.position.epoch, sequence: sequence)
      if let number = ledgers[channel].numbers[sequence] {
        if ledgers[channel].entries[number]?.sent.isIrreplaceable == true {
          loseAlert(number, channel, subscriber, position, at: now)
        }
      } else if ledgers[channel].missed.count < 4_096 {
        ledgers[channel].missed.append(ChannelLedger.Missed(subscriber: subscriber, position: position))
      }
    }
  }

  // MARK: Activities

  private mutating func judgeShown(_ subscriber: Int, _ arrival: SoakArrival, _ shown: Shown, at now: Double)
  {
    let record = subscribers[subscriber]
    guard !record.isDismissed else { return }
    check(.notDisplayed)
    switch shown {
    case .displayed:
      check(.afterEnd)
      if record.hasEnded {
        violate(
          .afterEnd, record.channel, subscriber, arrival.position, at: now,
          "the activity had ended, and shows the message")
      }
      if let held = record.timestamp, arrival.timestamp < held {
        violate(
          .order, record.channel, subscriber, arrival.position, at: now,
          "the activity shows the state of \(arrival.timestamp) in place of the newer one of \(held)")
      }
      subscribers[subscriber].timestamp = arrival.timestamp
      if arrival.isEnd { subscribers[subscriber].hasEnded = true }
    case .ignoredOlder:
      guard record.timestamp ?? .min <= arrival.timestamp else { return }
      notDisplayed(subscriber, arrival, at: now, "as older than it is")
    case .ignoredAfterEnd:
      guard !record.hasEnded else { return }
      notDisplayed(subscriber, arrival, at: now, "as after the end, which it is not")
    case .nothing:
      // A card that is gone takes messages in silence until the server has heard of it.
      guard !record.hasEnded, !record.isLeaving else { return }
      notDisplayed(subscriber, arrival, at: now, "without a word")
    }
  }

  private mutating func notDisplayed(_ subscriber: Int, _ arrival: SoakArrival, at now: Double, _ why: String)
  {
    violate(
      .notDisplayed, subscribers[subscriber].channel, subscriber, arrival.position, at: now,
      "the message was received, and passed over \(why)")
  }

  private mutating func wentStale(_ subscriber: Int, _ staleDate: Double, _ clock: Double, at now: Double) {
    check(.stale)
    let record = subscribers[subscriber]
    let due = max(staleDate, record.jumpedTo)
    let allowed = tolerance.stale + excuse(at: now)
    if clock < staleDate - 0.001 {
      violate(
        .stale, record.channel, subscriber, record.position, at: now,
        "stale \(Decimals.text(staleDate - clock, 3)) s before its stale date")
    } else if clock - due > allowed {
      violate(
        .stale, record.channel, subscriber, record.position, at: now,
        "stale \(Decimals.text(clock - due, 3)) s after its stale date; \(Decimals.text(allowed, 3)) s are allowed"
      )
    }
  }

  // MARK: Accounts

  private mutating func judgeBudget(_ channel: Int, at now: Double) {
    var ledger = ledgers[channel]
    guard ledger.newestSequence > 0, (ledger.nextJudged ?? 1) <= ledger.newestSequence else { return }
    // Moved out and in again, so that nothing is copied.
    ledgers[channel] = ChannelLedger(settings[channel])
    defer { ledgers[channel] = ledger }
    var next = ledger.nextJudged ?? ledger.numbers.keys.min() ?? 1
    if ledger.nextJudged == nil { ledger.judge.reset() }
    var found: [(rule: SoakRule, detail: String, sequence: Int)] = []
    while next <= ledger.newestSequence {
      guard let entry = ledger.numbers[next].flatMap({ ledger.entries[$0] }), let letOut = entry.letOut else {
        // Somebody who joined has seen a later number already; its turn comes, or nobody sees it.
        if ledger.newestSequence - next < 64 { break }
        next += 1
        continue
      }
      guard let outcome = entry.outcome else {
        // The answer is still on its way; after a while it is lost with its connection.
        if now - entry.sentAt < tolerance.delivery { break }
        next += 1
        continue
      }
      if let stop = stops.last, stop < letOut, stop >= (ledger.judgedAt ?? .infinity) { ledger.judge.reset() }
      ledger.judgedAt = letOut
      check(outcome == .delivered ? .budget : .window)
      let delivered = BudgetJudge.Delivered(
        sequence: next, number: entry.sent.number, sent: letOut, priority: entry.sent.priority,
        outcome: outcome, isIrreplaceable: entry.sent.isIrreplaceable)
      if let problem = ledger.judge.judge(delivered), !isNearStop(letOut, channel) {
        found.append((problem.rule, problem.detail, next))
      }
      next += 1
    }
    ledger.nextJudged = next
    for problem in found {
      violate(
        problem.rule, channel, nil, StreamPosition(epoch: ledger.epoch, sequence: problem.sequence), at: now,
        problem.detail)
    }
  }

  /// What waits in a window is let out early when the server stops.
  private func isNearStop(_ moment: Double, _ channel: Int) -> Bool {
    stops.contains { abs($0 - moment) < settings[channel].windows.passive + 1 }
  }

  private mutating func record(
    _ channel: Int, _ number: Int, _ written: Int, _ acknowledged: Int, _ displayed: Int, at now: Double
  ) {
    guard let entry = ledgers[channel].entries[number] else { return }
    check(.record)
    let position = entry.position
    if written < entry.received {
      violate(
        .record, channel, nil, position, at: now,
        "message \(number) was written to \(written) subscribers, and \(entry.received) received it")
    }
    for (name, count, mine) in [
      ("acknowledged", acknowledged, entry.acknowledged), ("displayed", displayed, entry.displayed),
    ] where !(mine.confirmed...max(mine.confirmed, mine.sent)).contains(count) {
      violate(
        .record, channel, nil, position, at: now,
        "message \(number): the server counts \(count) \(name); \(mine.confirmed) were confirmed and \(mine.sent) sent"
      )
    }
  }
}

extension Verifier {
  /// How many messages of a channel can be asked for: those of the newest counting that were let out, the newest first.
  public func questions(channel: Int, atMost most: Int, after: Double) -> [(number: Int, uniqueID: String)] {
    let entries = ledgers[channel].entries.values.filter { entry in
      entry.uniqueID != nil && entry.letOut.map { $0 > after } ?? false
        && entry.position?.epoch == ledgers[channel].epoch
    }
    return entries.sorted { $0.sent.number > $1.sent.number }.prefix(most).compactMap { entry in
      entry.uniqueID.map { (entry.sent.number, $0) }
    }
  }
}
