import BroadcastChannels
import Foundation

/// Watches one channel from outside and knows the rules independently: by brute force over a record of what came in
/// and what went out, without a bucket or a window of its own.
struct ChannelJudge {
  /// A message that was accepted and is neither delivered nor superseded yet.
  private struct Waiting {
    let number: Int
    let payload: Payload
    /// When it, or something newer, must be out: its own window's end, or that of what it replaced.
    var due: Date

    /// Whether it goes out after another: by timestamp, then arrival.
    func follows(_ number: Int, _ payload: Payload) -> Bool {
      (self.payload.timestamp, self.number) > (payload.timestamp, number)
    }
  }

  /// What the newest rule says is stored.
  private struct Stored {
    let number: Int
    let timestamp: Int64
    let expiry: Date
  }

  private let settings: ChannelSettings
  /// By how much the channel is driven late, as by a busy event loop.
  private let lag: Double
  private var waiting: [Waiting] = []
  private var delivered: Set<Int> = []
  private var stored: Stored?
  private var sequence = 0
  private var epoch = "epoch"
  /// Deliveries since the channel was loaded, as it counts them.
  private var loadedDeliveries = 0
  private var budgetTakes: [Date] = []
  private var rateTakes: [Date] = []
  private var answers: [RequestID: (number: Int, outcome: Outcome, at: Date)] = [:]
  private var counts = ChannelCountsRecord()

  /// Dates and levels are floating point.
  private static let hair = 1e-3

  init(_ settings: ChannelSettings, lag: Double) {
    self.settings = settings
    self.lag = lag
  }

  // MARK: Publishing

  /// Checks what a channel did with a message.
  mutating func published(
    _ message: Message, number: Int, _ result: PublishResult, at now: Date
  ) throws(Violation) {
    if let id = message.requestID, let first = answers[id], now.timeIntervalSince(first.at) < 600 {
      try Violation.unless(result.isRepetition, "a repeated request id was published again")
      try Violation.unless(
        result.uniqueID.text == String(first.number) && result.outcome == first.outcome
          && result.effects.isEmpty,
        "a repeated request id was not answered as the first time")
      counts.repeated += 1
      return
    }
    try Violation.unless(!result.isRepetition, "a new request was taken for a repetition")
    counts.accepted += 1
    if let id = message.requestID { answers[id] = (number, result.outcome, now) }
    try account(for: message, result.outcome, at: now)
    switch result.outcome {
    case .superseded:
      try Violation.unless(!message.payload.isIrreplaceable, "an alert or end was superseded on arrival")
      // What came due before the message came goes out first; the newer one that waits must still be there after it.
      try apply(result.effects, at: now)
      guard let newer = waiting.indices.last, waiting[newer].payload.timestamp > message.payload.timestamp
      else {
        throw Violation(description: "an update was superseded although nothing newer waits")
      }
      waiting[newer].due = min(waiting[newer].due, due(message, result.outcome, at: now))
      counts.superseded += 1
    case .dropped:
      try apply(result.effects, at: now)
      counts.dropped += 1
    case .delivered, .windowed, .demoted:
      let due = due(message, result.outcome, at: now)
      try apply(
        result.effects, publishing: Waiting(number: number, payload: message.payload, due: due), at: now)
    }
  }

  /// Checks that a refusal was right. Whether anything changed is for the one who has the channel to see.
  mutating func refused(_ message: Message, _ refusal: Refusal, at now: Date) throws(Violation) {
    if refusal.reason == .badExpirationDate {
      try Violation.unless(
        settings.storagePolicy == .none && message.expiration != .once, "a good expiration was refused")
      return
    }
    try Violation.unless(refusal.reason == .tooManyRequests, "refused for \(refusal.reason)")
    let rateIsSpent = settings.publishRate.perSecond.map {
      Self.isSpent(rateTakes, capacity: burst, perSecond: $0, at: now)
    }
    let mayReject = message.priority == .immediate && settings.budget.overBudget == .reject
    try Violation.unless(
      rateIsSpent == true || mayReject && budgetIsSpent(at: now),
      "refused although rate and budget were there")
    counts.rejected += 1
  }

  private var burst: Double {
    max(1, settings.publishRate.burst.map(Double.init) ?? settings.publishRate.perSecond?.rounded(.up) ?? 1)
  }

  private func budgetIsSpent(at now: Date) -> Bool {
    settings.budget.capacity.map {
      Self.isSpent(
        budgetTakes, capacity: Double($0), perSecond: settings.budget.refillPerHour / 3_600, at: now)
    } ?? false
  }

  private mutating func account(for message: Message, _ outcome: Outcome, at now: Date) throws(Violation) {
    rateTakes.append(now)
    if let perSecond = settings.publishRate.perSecond {
      try Violation.unless(
        Self.holds(rateTakes, capacity: burst, perSecond: perSecond), "more publishes than the rate allows")
    }
    guard message.priority == .immediate else {
      try Violation.unless(outcome != .demoted && outcome != .dropped, "a lower priority cost budget")
      counts.windowed += outcome == .windowed ? 1 : 0
      return
    }
    if outcome == .delivered {
      budgetTakes.append(now)
      guard let capacity = settings.budget.capacity else { return }
      // Every span, and so also every sliding hour: capacity + refill of an hour.
      try Violation.unless(
        Self.holds(
          budgetTakes, capacity: Double(capacity), perSecond: settings.budget.refillPerHour / 3_600),
        "more deliveries at priority 10 than the budget allows")
    } else {
      try Violation.unless(budgetIsSpent(at: now), "priority 10 was \(outcome) although a token was left")
      let allowed: [Outcome] = settings.budget.overBudget == .demote ? [.demoted, .superseded] : [.dropped]
      try Violation.unless(
        allowed.contains(outcome), "over budget, \(settings.budget.overBudget) gave \(outcome)")
      if settings.budget.overBudget == .demote { counts.demoted += 1 }
      if outcome == .demoted, settings.windows.considerate > 0 { counts.windowed += 1 }
    }
  }

  private func due(_ message: Message, _ outcome: Outcome, at now: Date) -> Date {
    let seconds =
      outcome == .delivered
      ? 0 : message.priority == .passive ? settings.windows.passive : settings.windows.considerate
    return now.addingTimeInterval(seconds)
  }

  // MARK: Limits by brute force

  /// Whether no span that ends with the newest take holds more than its limit and what flowed in during it.
  private static func holds(_ takes: [Date], capacity: Double, perSecond: Double) -> Bool {
    guard let last = takes.last else { return true }
    return !takes.indices.reversed().contains { index in
      Double(takes.count - index) > capacity + perSecond * last.timeIntervalSince(takes[index]) + hair
    }
  }

  /// Whether one more take would be too much for some span that ends now.
  private static func isSpent(_ takes: [Date], capacity: Double, perSecond: Double, at now: Date) -> Bool {
    capacity < 1
      || takes.indices.reversed().contains { index in
        Double(takes.count - index + 1) > capacity + perSecond * now.timeIntervalSince(takes[index]) - hair
      }
  }

  // MARK: Effects

  /// Checks what a channel let out as time passed.
  mutating func advanced(_ effects: [ChannelEffect], at now: Date) throws(Violation) {
    try apply(effects, at: now)
  }

  private mutating func apply(
    _ effects: [ChannelEffect], publishing: Waiting? = nil, at now: Date
  ) throws(Violation) {
    var publishing = publishing
    for effect in effects {
      switch effect {
      case .supersede(let message):
        guard let index = waiting.firstIndex(where: { String($0.number) == message.uniqueID.text }) else {
          throw Violation(description: "message \(message.uniqueID) was superseded although it didn't wait")
        }
        let old = waiting.remove(at: index)
        try Violation.unless(!old.payload.isIrreplaceable, "the alert or end \(old.number) was superseded")
        guard var newer = publishing, newer.follows(old.number, old.payload) else {
          throw Violation(description: "message \(old.number) was superseded by nothing newer")
        }
        newer.due = min(newer.due, old.due)
        publishing = newer
        counts.superseded += 1
      case .deliver(let delivery):
        try deliver(delivery, publishing: &publishing, at: now)
      }
    }
    if let publishing {
      let index = waiting.firstIndex { $0.follows(publishing.number, publishing.payload) } ?? waiting.endIndex
      waiting.insert(publishing, at: index)
    }
  }

  private mutating func deliver(
    _ delivery: Delivery, publishing: inout Waiting?, at now: Date
  ) throws(Violation) {
    let name = delivery.message.uniqueID.text
    let item: Waiting
    if let own = publishing, String(own.number) == name {
      item = own
      publishing = nil
    } else if let index = waiting.firstIndex(where: { String($0.number) == name }) {
      item = waiting.remove(at: index)
    } else {
      throw Violation(description: "message \(name) was delivered although it didn't wait")
    }
    try Violation.unless(delivered.insert(item.number).inserted, "message \(name) was delivered twice")
    sequence += 1
    loadedDeliveries += 1
    try Violation.unless(
      delivery.position == StreamPosition(epoch: epoch, sequence: sequence), "a gap at \(delivery.position)"
    )
    try Violation.unless(
      waiting.allSatisfy { $0.follows(item.number, item.payload) },
      "message \(name) was delivered although something older waits, so time will run backwards")
    try Violation.unless(
      delivery.sent == now && now.timeIntervalSince(item.due) <= lag + Self.hair, "message \(name) came late")
    if case .at(let seconds) = delivery.message.expiration {
      if let stored, stored.expiry > now, stored.timestamp > item.payload.timestamp { return }
      // What expired before it was let out is not kept, and leaves alone what is.
      if Double(seconds) <= now.timeIntervalSince1970 { return }
      let limit = now.addingTimeInterval(8 * 3_600)
      let expiry = min(Date(timeIntervalSince1970: Double(seconds)), limit)
      stored = Stored(number: item.number, timestamp: item.payload.timestamp, expiry: expiry)
    }
  }

  // MARK: Troubles

  /// The server was away: what came due meanwhile is due now.
  mutating func excuseDelay(at now: Date) {
    for index in waiting.indices { waiting[index].due = max(waiting[index].due, now) }
  }

  /// The server comes back from what it has stored. A channel that stores nothing has lost what waited, and says so with a
  /// new epoch; what was spent and what was answered it still knows.
  mutating func restarted(epoch: String, at now: Date) {
    excuseDelay(at: now)
    counts = ChannelCountsRecord()
    loadedDeliveries = 0
    guard settings.storagePolicy == .none else { return }
    self.epoch = epoch
    sequence = 0
    waiting = []
  }

  // MARK: After every step

  /// Checks what must hold at any time.
  func check(_ channel: Channel, at now: Date) throws(Violation) {
    let kept = stored.flatMap { $0.expiry > now ? String($0.number) : nil }
    let newest = channel.newest(after: nil, at: now)?.message.uniqueID.text
    try Violation.unless(newest == kept, "\(newest ?? "nothing") is stored, not \(kept ?? "nothing")")
    try Violation.unless(
      (channel.nextDeadline == nil) == waiting.isEmpty, "a message waits without a deadline")
    for item in waiting {
      try Violation.unless(
        now.timeIntervalSince(item.due) <= lag + Self.hair, "message \(item.number) waits beyond its window")
    }
    try Violation.unless(
      waiting.count { $0.payload.isIrreplaceable } <= Limits.windowKeeps, "a window grew beyond its bound")
  }

  /// Checks that nothing is left, and that the channel counted as the judge did.
  func checkEnd(_ channel: Channel) throws(Violation) {
    try Violation.unless(waiting.isEmpty, "messages \(waiting.map(\.number)) were never delivered")
    let own = channel.counts
    let counted = ChannelCountsRecord(
      accepted: own.accepted, windowed: own.windowed, demoted: own.demoted, superseded: own.superseded,
      dropped: own.dropped, rejected: own.rejected, repeated: own.repeated)
    try Violation.unless(
      own.delivered == loadedDeliveries,
      "\(own.delivered) deliveries were counted, not \(loadedDeliveries)")
    try Violation.unless(counted == counts, "\(counted) was counted, not \(counts)")
  }
}

/// The judge's own counts.
private struct ChannelCountsRecord: Equatable {
  var accepted = 0
  var windowed = 0
  var demoted = 0
  var superseded = 0
  var dropped = 0
  var rejected = 0
  var repeated = 0
}
