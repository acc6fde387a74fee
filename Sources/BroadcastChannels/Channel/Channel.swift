import Foundation

/// A broadcast channel as a state machine: messages and time go in, deliveries come out.
///
/// It reads no clock and does no I/O. Every call says what time it is; ``nextDeadline`` says when ``advance(to:)``
/// will have something to do. The server drives it with the real clock, a rehearsal and the simulator with a virtual
/// one, and all three see the same rules.
///
/// The way of a message: a known request id is answered as before; the publish rate may refuse it; at priority 10 it
/// takes a token of the budget or is demoted, dropped or rejected; then it is delivered at once or waits in the
/// delivery window. A sequence number is given when a message is let out, never before, so that the numbers that
/// subscribers see have no gaps but for what they missed.
public struct Channel: Sendable {
  /// The channel's name.
  public let id: ChannelID
  /// The local name, if it has one.
  public let alias: ChannelAlias?
  /// The rules that it runs by.
  public private(set) var settings: ChannelSettings
  /// The place of the newest delivery.
  public private(set) var position: StreamPosition
  /// How many messages took which way.
  public private(set) var counts = ChannelCounts()

  private var budget: TokenBucket?
  private var rate: TokenBucket?
  private var window = DeliveryWindow()
  private var history = RequestHistory()
  /// With policy 1, the newest message that is stored, expired or not.
  public private(set) var stored: Delivery?

  /// Makes a channel as it is created.
  ///
  /// - Parameters:
  ///   - position: a new epoch with sequence 0.
  ///   - stored: with policy 1, the newest message that was stored.
  public init(
    id: ChannelID, alias: ChannelAlias?, settings: ChannelSettings, position: StreamPosition,
    stored: Delivery? = nil,
    now: Date
  ) {
    self.init(
      id: id, alias: alias, settings: settings, state: ChannelState(position: position, newest: stored),
      now: now)
  }

  /// Makes a channel that goes on where a store has it: a window that was open goes on too, and ends at once when its time
  /// has passed.
  public init(
    id: ChannelID, alias: ChannelAlias?, settings: ChannelSettings, state: ChannelState, now: Date
  ) {
    self.id = id
    self.alias = alias
    self.settings = settings
    position = state.position
    stored = state.newest
    budget = settings.budget.bucket(at: now).map { full in state.budget.map { full.at($0) } ?? full }
    rate = settings.publishRate.bucket(at: now).map { full in state.rate.map { full.at($0) } ?? full }
    window = DeliveryWindow(waiting: state.waiting, until: state.deadline, now: now)
    history = RequestHistory(state.answers)
  }

  /// Runs by other rules from now on. What was spent stays spent, what waits goes on waiting until its window ends, and
  /// known request ids stay known.
  public mutating func adopt(_ settings: ChannelSettings, at now: Date) {
    budget = Self.resized(budget, to: settings.budget.bucket(at: now), at: now)
    rate = Self.resized(rate, to: settings.publishRate.bucket(at: now), at: now)
    self.settings = settings
  }

  private static func resized(_ old: TokenBucket?, to new: TokenBucket?, at now: Date) -> TokenBucket? {
    guard let old, let new else { return new }
    return old.resized(capacity: new.capacity, refillPerSecond: new.refillPerSecond, at: now)
  }

  // MARK: Publishing

  /// Takes a message in.
  ///
  /// Deadlines that have passed are worked off first, so the effects may begin with those of an older window.
  ///
  /// - Throws: ``RefusalReason/badExpirationDate`` for a non-zero expiration on policy 0;
  ///   ``RefusalReason/tooManyRequests`` beyond the publish rate, or beyond the budget where the channel rejects.
  ///   Nothing has changed then.
  public mutating func publish(_ message: Message, at now: Date) throws(Refusal) -> PublishResult {
    try checkExpiration(message.expiration)
    history.forget(before: now)
    if let id = message.requestID, let first = history.answer(to: id) {
      counts.repeated += 1
      return PublishResult(uniqueID: first.uniqueID, outcome: first.outcome, isRepetition: true, effects: [])
    }
    let overBudget = try spend(for: message, at: now)
    counts.accepted += 1
    var effects = advance(to: now)
    let outcome = route(message, overBudget: overBudget, at: now, effects: &effects)
    if let id = message.requestID {
      history.remember(id, message.uniqueID, outcome, at: now)
    }
    return PublishResult(uniqueID: message.uniqueID, outcome: outcome, isRepetition: false, effects: effects)
  }

  /// Refuses an expiration that the storage policy can't keep.
  ///
  /// - Throws: ``RefusalReason/badExpirationDate`` for anything but 0 on a channel that stores nothing (Apple).
  public func checkExpiration(_ expiration: Expiration) throws(Refusal) {
    if case .at = expiration, settings.storagePolicy == .none {
      throw Refusal(
        .badExpirationDate, "the channel stores no message (policy 0), so the expiration must be 0")
    }
  }

  /// Takes what the message costs, or nothing at all when it is refused.
  ///
  /// - Returns: whether a message at priority 10 found no token.
  private mutating func spend(for message: Message, at now: Date) throws(Refusal) -> Bool {
    if let rate, rate.remaining(at: now) == 0 {
      counts.rejected += 1
      throw Refusal(
        .tooManyRequests,
        "more than \(settings.publishRate.perSecond.map { JSONWriter.seconds($0) } ?? "?") publishes a second on this channel; try again after retry-after",
        retryAfter: Self.retryAfter(rate, at: now))
    }
    var overBudget = false
    if message.priority == .immediate, let budget, budget.remaining(at: now) == 0 {
      if settings.budget.overBudget == .reject {
        counts.rejected += 1
        throw Refusal(
          .tooManyRequests,
          "the channel's budget for priority 10 is spent; send at priority 5"
            + (budget.secondsToFill == nil
              ? ", the budget doesn't come back" : ", or try again after retry-after"),
          retryAfter: Self.retryAfter(budget, at: now))
      }
      overBudget = true
    }
    _ = rate?.take(at: now)
    if message.priority == .immediate, !overBudget { _ = budget?.take(at: now) }
    return overBudget
  }

  /// Whole milliseconds, rounded up: who waits that long finds a token.
  private static func retryAfter(_ bucket: TokenBucket, at now: Date) -> Double? {
    bucket.secondsToNext(at: now).map { ($0 * 1_000).rounded(.up) / 1_000 }
  }

  private mutating func route(
    _ message: Message, overBudget: Bool, at now: Date, effects: inout [ChannelEffect]
  ) -> Outcome {
    if overBudget, settings.budget.overBudget == .drop {
      counts.dropped += 1
      return .dropped
    }
    if overBudget { counts.demoted += 1 }
    let seconds: Double =
      switch overBudget ? .considerate : message.priority {
      case .immediate: 0
      case .considerate: settings.windows.considerate
      case .passive: settings.windows.passive
      }
    if seconds <= 0 {
      deliverNow(message, at: now, effects: &effects)
      return overBudget ? .demoted : .delivered
    }
    switch window.join(message, for: seconds, at: now) {
    case .superseded:
      counts.superseded += 1
      return .superseded
    case .waiting(let superseded):
      counts.windowed += 1
      supersede(superseded, effects: &effects)
      effects += advance(to: now)
      return overBudget ? .demoted : .windowed
    }
  }

  // MARK: Undoing

  /// What a publish or the passing of time changes, but for the request ids: enough to undo it cheaply.
  public struct Checkpoint: Sendable {
    /// The place of the newest delivery.
    public let position: StreamPosition
    /// The newest message that is stored.
    public let stored: Delivery?
    fileprivate let counts: ChannelCounts
    let budget: TokenBucket?
    let rate: TokenBucket?
    let window: DeliveryWindow
    /// The numbers of the oldest remembered answer and of the next one.
    let firstAnswer: Int
    let nextAnswer: Int

    /// The newest stored message for somebody who subscribes, see ``Channel/newest(after:at:)``.
    public func newest(after position: StreamPosition?, at now: Date) -> Delivery? {
      guard let stored, Channel.expiry(of: stored) > now else { return nil }
      if let position, position.epoch == stored.position.epoch,
        position.sequence >= stored.position.sequence
      {
        return nil
      }
      return stored
    }
  }

  /// Where the channel stands now.
  public var checkpoint: Checkpoint {
    Checkpoint(
      position: position, stored: stored, counts: counts, budget: budget, rate: rate, window: window,
      firstAnswer: history.first, nextAnswer: history.next)
  }

  /// The answers to request ids from a number on.
  func answers(from number: Int) -> [AnsweredRequest] { history.answers(from: number) }

  /// Goes back to where the channel stood: what came of a publish could not be stored.
  ///
  /// - Parameter id: the request that is forgotten, so that trying it again publishes it.
  public mutating func restore(_ checkpoint: Checkpoint, forgetting id: RequestID?) {
    position = checkpoint.position
    stored = checkpoint.stored
    counts = checkpoint.counts
    budget = Self.refitted(checkpoint.budget, like: budget)
    rate = Self.refitted(checkpoint.rate, like: rate)
    window = checkpoint.window
    if let id { history.forget(id) }
  }

  /// The rules may have changed since, and stay: what was spent then counts under those of now.
  private static func refitted(_ old: TokenBucket?, like present: TokenBucket?) -> TokenBucket? {
    guard let old, let present else { return present }
    let isAlike = old.capacity == present.capacity && old.refillPerSecond == present.refillPerSecond
    return isAlike
      ? old
      : old.resized(
        capacity: present.capacity, refillPerSecond: present.refillPerSecond, at: old.lastLevel.asOf)
  }

  // MARK: Time

  /// When ``advance(to:)`` has something to do next; nil while nothing waits.
  public var nextDeadline: Date? { window.deadline }

  /// Works off what has come due.
  public mutating func advance(to now: Date) -> [ChannelEffect] {
    var effects: [ChannelEffect] = []
    for message in window.end(at: now) { deliver(message, at: now, effects: &effects) }
    return effects
  }

  /// Lets out what waits before its time has come, because the channel or its server ends: what was accepted is
  /// not recalled (Apple).
  public mutating func finish(at now: Date) -> [ChannelEffect] {
    var effects: [ChannelEffect] = []
    for message in window.end() { deliver(message, at: now, effects: &effects) }
    return effects
  }

  // MARK: Subscribing

  /// The newest stored message for somebody who subscribes.
  ///
  /// - Parameter position: where the subscriber stood, when it resumes: it gets the message only if that is newer.
  public func newest(after position: StreamPosition?, at now: Date) -> Delivery? {
    checkpoint.newest(after: position, at: now)
  }

  /// Until when a stored message waits: its expiration, and never longer than 8 hours (Apple).
  static func expiry(of delivery: Delivery) -> Date {
    guard case .at(let seconds) = delivery.message.expiration else { return .distantPast }
    return min(
      Date(timeIntervalSince1970: Double(seconds)),
      delivery.sent.addingTimeInterval(Limits.storedMessageSeconds))
  }

  /// Whether an answer is remembered that no longer has to be, so that ``forgetAnswers(at:)`` would do something.
  public func hasOutdatedAnswers(at now: Date) -> Bool { history.isOutdated(at: now) }

  /// Forgets the answers to requests whose time has passed. Each publish does; a channel that nobody publishes to has to be
  /// told.
  public mutating func forgetAnswers(at now: Date) { history.forget(before: now) }

  /// How much of the budget and the rate is left.
  public func budgetReport(at now: Date) -> BudgetReport {
    BudgetReport(
      priority10: budget.map { BudgetReport.Quota($0, at: now) },
      publishRate: rate.map { BudgetReport.Quota($0, at: now) })
  }

  // MARK: Delivering

  private mutating func deliverNow(_ message: Message, at now: Date, effects: inout [ChannelEffect]) {
    let way = window.makeWay(for: message)
    supersede(way.superseded, effects: &effects)
    for earlier in way.first { deliver(earlier, at: now, effects: &effects) }
    deliver(message, at: now, effects: &effects)
  }

  private mutating func deliver(_ message: Message, at now: Date, effects: inout [ChannelEffect]) {
    position = StreamPosition(epoch: position.epoch, sequence: position.sequence + 1)
    let delivery = Delivery(message: message, position: position, sent: now)
    counts.delivered += 1
    store(delivery)
    effects.append(.deliver(delivery))
  }

  /// Keeps the newest by timestamp, then arrival. A message with expiration 0, or one that expired already, leaves
  /// alone what is stored.
  private mutating func store(_ delivery: Delivery) {
    guard settings.storagePolicy == .latest, Self.expiry(of: delivery) > delivery.sent else { return }
    if let stored, stored.message.payload.timestamp > delivery.message.payload.timestamp,
      Self.expiry(of: stored) > delivery.sent
    {
      return
    }
    stored = delivery
  }

  private mutating func supersede(_ messages: [Message], effects: inout [ChannelEffect]) {
    counts.superseded += messages.count
    effects += messages.map { .supersede($0) }
  }
}
