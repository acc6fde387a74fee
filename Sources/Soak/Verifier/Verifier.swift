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
    /// The same for what was published last, when all is quiet.
    public var lastDelivery: Double = 2
    /// From wanting a subscription to having it.
    public var reaching: Double = 10
    /// The same at the end of the run, when nothing has happened to anybody for a while.
    public var lastReaching: Double = 5

    /// Makes the stated tolerances.
    public init() {}

    /// Makes the tolerances of a run: thousands that come back at once, to a server that was killed, take a second a thousand.
    public init(subscribers: Int) { reaching = max(reaching, Double(subscribers) / 1_000) }
  }

  /// The tolerances that it judges by.
  public let tolerance: Tolerance
  /// The first violations of each rule, in the order in which they were noticed.
  public internal(set) var violations: [Violation] = []
  /// How many there were of each rule.
  public internal(set) var counts: [SoakRule: Int] = [:]
  /// How often each rule was held against something.
  public internal(set) var checks: [SoakRule: Int] = [:]
  /// Messages that slow subscribers missed because newer ones took their place.
  public internal(set) var conflated = 0
  /// Messages of which nothing can be said: the server stopped, or they were seen by nobody.
  public internal(set) var undecided = 0
  /// Messages that publishers sent.
  public internal(set) var sent = 0

  /// Those of them that somebody slow missed, and nobody else saw.
  private var unseen = 0

  /// Seconds that the soak's processes stood still, all together.
  private var stoodStill: Double = 0
  private var finishedAt: Double

  /// Messages within a second that are a burst.
  static let burst = 6

  /// Violations of each rule that are kept with their details: one rule that is broken all the time hides no other.
  public static let kept = 50

  let start: Double
  let settings: [ChannelSettings]
  var ledgers: [ChannelLedger]
  var subscribers: [SubscriberRecord]
  var publishers: [PublisherRecord]
  var stops: [Double] = []
  /// When the soak itself, or the machine, stood still: the newest spans, in their order.
  var standstills: [ClosedRange<Double>] = []
  var owing: Set<Int> = []
  /// Who may want a subscription and not have it.
  var wanting: Set<Int> = []
  /// The subscriber that was looked at last for what it is owed.
  var nextLookedAt = -1
  /// Channels that the server says it doesn't have.
  var missingChannels: Set<Int> = []
  /// Whether the soak has stopped its server and not started it again.
  var isServerDown = false

  /// Prepares to judge a run.
  ///
  /// - Parameters:
  ///   - start: the run's beginning, in Unix seconds.
  ///   - channels: each channel's rules.
  ///   - subscribers: the channel of each place, whether it is the channel's witness, and whether its connection holds so
  ///     little that a burst alone makes it slow.
  public init(
    start: Double, channels: [ChannelSettings],
    subscribers: [(channel: Int, isWitness: Bool, isNarrow: Bool)], tolerance: Tolerance = Tolerance()
  ) {
    self.start = start
    finishedAt = start
    self.tolerance = tolerance
    settings = channels
    ledgers = channels.map { ChannelLedger($0) }
    publishers = channels.map { _ in PublisherRecord() }
    for index in ledgers.indices { ledgers[index].blindSince = -.infinity }
    self.subscribers = subscribers.map {
      SubscriberRecord(channel: $0.channel, isWitness: $0.isWitness, isNarrow: $0.isNarrow)
    }
  }

  /// Whether nothing can be said of most messages, so that a verdict on the others says little. One whose machine stood still
  /// has seen little through no fault of the server.
  public var isTooUndecided: Bool {
    sent >= 20 && undecided - unseen > sent / 2 && stoodStill < 0.1 * (finishedAt - start)
  }

  /// How many violations there were.
  public var violationCount: Int { counts.values.reduce(0, +) }

  /// Takes in what happened at a moment, in Unix seconds.
  public mutating func observe(_ observation: Observation, at now: Double) {
    switch observation {
    case .sent(let channel, let message):
      sent += 1
      for old in ledgers[channel].add(LedgerEntry(sent: message, sentAt: now)) {
        settle(old, channel, within: tolerance.delivery, at: now)
      }
    case .accepted(let channel, let number, let uniqueID, let outcome, let isRepetition, let again):
      accepted(channel, number, uniqueID, outcome, isRepetition, again, at: now)
    case .refused(let channel, let number, let reason): refused(channel, number, reason, at: now)
    case .publisherWants(let channel): publisherWants(channel, at: now)
    case .publisherConnected(let channel): publisherConnected(channel, at: now)
    case .publisherClosed(let channel, let code, let problem):
      publisherClosed(channel, code, problem, at: now)
    case .arrived(let subscriber): subscribers[subscriber].replace()
    case .subscribed(let subscriber, let position, let resumed):
      reached(subscriber)
      subscribed(subscriber, position, resumed, at: now)
    case .wants(let subscriber): wants(subscriber, at: now)
    case .away(let subscriber): subscribers[subscriber].wantedSince = nil
    case .missing(let subscriber): isMissing(subscriber, at: now)
    case .failed(let subscriber, let problem): subscribers[subscriber].problem = problem
    case .garbled(let subscriber, let problem): garbled(subscriber, problem, at: now)
    case .closed(let subscriber, let code, let problem): closed(subscriber, code, problem, at: now)
    case .unsubscribed(let subscriber): unsubscribed(subscriber, at: now)
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
    case .clockJumped(let subscriber, let clock):
      subscribers[subscriber].jumpedTo = clock
      subscribers[subscriber].clockOffset = clock - now
    case .leaving(let subscriber):
      judgeStale(subscriber, at: now)
      subscribers[subscriber].isLeaving = true
      subscribers[subscriber].wantedSince = nil
      subscribers[subscriber].owes = nil
      subscribers[subscriber].staleDue = nil
    case .dismissed(let subscriber):
      check(.afterDismissal)
      subscribers[subscriber].isDismissed = true
      subscribers[subscriber].owes = nil
    case .acknowledged(let subscriber, let numbers, let displayed):
      let channel = subscribers[subscriber].channel
      acknowledged(subscriber, at: now)
      for number in numbers { ledgers[channel].entries[number]?.acknowledged.sent += 1 }
      for number in displayed { ledgers[channel].entries[number]?.displayed.sent += 1 }
    case .confirmed(let subscriber, let numbers, let displayed):
      let channel = subscribers[subscriber].channel
      confirmed(subscriber)
      for number in numbers { ledgers[channel].entries[number]?.acknowledged.confirmed += 1 }
      for number in displayed { ledgers[channel].entries[number]?.displayed.confirmed += 1 }
    case .record(let channel, let number, let written, let acknowledged, let displayed):
      record(channel, number, written, acknowledged, displayed, at: now)
    case .unrecorded(let channel, let number, let problem):
      unrecorded(channel, number, problem, at: now)
    case .serverStopped:
      stops.append(now)
      isServerDown = true
    case .serverStarted: isServerDown = false
    case .lagged(let seconds):
      stoodStill += seconds
      noteStandstill(from: now - seconds, to: now)
    }
  }

  /// Judges what has come due. Call it some ten times a second.
  public mutating func advance(to now: Double) {
    for channel in ledgers.indices {
      judgeAnswers(channel, within: tolerance.delivery, at: now)
      judgeBudget(channel, at: now)
    }
    if !isServerDown { judgeReaching(within: tolerance.reaching, at: now) }
    judgeConnected(at: now)
    for subscriber in owing where subscribers[subscriber].owes.map({ isOverdue($0.by, at: now) }) ?? true {
      owing.remove(subscriber)
      judgeReturn(subscriber, at: now)
    }
  }

  private func isOverdue(_ by: Double, at now: Double) -> Bool {
    by <= now && by + excuse(since: by - tolerance.newest, at: now) <= now
  }

  /// Judges what is left at the end of the run. Nothing may be observed afterwards.
  ///
  /// - Parameter isEarly: whether the run ends in its middle: what was under way gets no other time than during the run, and
  ///   what has none left is undecided.
  public mutating func finish(at now: Double, isEarly: Bool = false) {
    finishedAt = now
    advance(to: now)
    let patience = isEarly ? tolerance.delivery : tolerance.lastDelivery
    if !isEarly { judgeReaching(within: tolerance.lastReaching, at: now) }
    var known: [Int: (usual: Int, narrow: Int)] = [:]
    for subscriber in subscribers.indices {
      judgeStale(subscriber, at: now)
      if !isServerDown { judgeConnected(subscriber, within: patience, &known, at: now) }
    }
    for channel in ledgers.indices {
      judgeAnswers(channel, within: patience, at: now)
      for number in ledgers[channel].entries.keys.sorted() {
        if let entry = ledgers[channel].entries[number] {
          settle(entry, channel, within: patience, at: now)
        }
      }
      unseen += ledgers[channel].missed.count
      undecided += ledgers[channel].missed.count
    }
  }

  private mutating func noteStandstill(from start: Double, to end: Double) {
    // Processes of one machine stand still together, which is one standstill. They don't tell in the order of time.
    var span = start...end
    let first = standstills.lastIndex { $0.upperBound < start }.map { $0 + 1 } ?? 0
    var behind = first
    while behind < standstills.count, standstills[behind].lowerBound <= end {
      span =
        min(
          span.lowerBound, standstills[behind].lowerBound)...max(
          span.upperBound, standstills[behind].upperBound)
      behind += 1
    }
    standstills.replaceSubrange(first..<behind, with: [span])
    if standstills.count > 1_024 { standstills.removeFirst(512) }
  }

  /// How late something may be that was due at a moment, because the soak stood still since then: in seconds. What gathered
  /// meanwhile has to be worked off, too.
  func excuse(since due: Double, at now: Double) -> Double {
    var seconds: Double = 0
    for span in standstills.reversed() {
      guard span.upperBound > due else { break }
      seconds += max(0, min(span.upperBound, now) - max(span.lowerBound, due))
    }
    return seconds * 1.1
  }

  mutating func violate(
    _ rule: SoakRule, _ channel: Int, _ subscriber: Int?, _ position: StreamPosition?, at now: Double,
    _ detail: String
  ) {
    counts[rule, default: 0] += 1
    guard counts[rule] ?? 0 <= Self.kept else { return }
    violations.append(
      Violation(
        rule: rule, channel: channel, subscriber: subscriber, sequence: position?.sequence,
        epoch: position?.epoch, at: now - start, detail: detail))
  }

  mutating func check(_ rule: SoakRule) { checks[rule, default: 0] += 1 }
}
