import BroadcastChannels
import Foundation
import TestSupport

/// One channel, its publisher and its subscribers on a virtual clock, all from one seed.
///
/// A step publishes something, breaks or mends a connection, crashes the server, fills its disk, or does nothing; then time
/// passes, and everything that comes due happens in its order. After each of these the rules are checked: the channel's by
/// ``ChannelJudge``, the devices' by ``Subscriber``. A rule that did not hold is thrown, and the seed is all that it takes to
/// see it again.
///
/// The store is ``VirtualStore``: what it doesn't have yet nobody has heard of, and a crash takes it back.
struct Simulation {
  var random: SplitMix64
  var now = Date(timeIntervalSince1970: 1_700_000_000)
  var channel: Channel
  var judge: ChannelJudge
  var store: VirtualStore
  var subscribers: [Subscriber] = []
  private var published = 0
  private var requestIDs: [RequestID] = []
  /// Seconds by which the channel is driven late.
  private let lag: Double
  /// The longest ordinary pause between steps.
  private let pace: Double
  /// Whether a match may be followed by a night of 7 to 13 hours, in which everything expires and ends.
  private let hasNights: Bool
  /// What happened, newest last.
  private(set) var trace: [String] = []

  init(seed: UInt64) throws {
    var random = SplitMix64(seed: seed)
    let settings = try Self.settings(using: &random)
    lag = random.pick([0, 0, 0.25])
    pace = random.pick([0.5, 2, 30, 600])
    hasNights = random.chance(25)
    let position = StreamPosition(epoch: "epoch", sequence: 0)
    store = VirtualStore(position, isSlow: random.chance(60))
    judge = ChannelJudge(settings, lag: lag)
    channel = Channel(
      id: ChannelID.random(using: &random), alias: nil, settings: settings,
      position: position, now: now)
    for _ in 0...random.below(4) { subscribers.append(Subscriber(link: .random(using: &random), at: now)) }
    self.random = random
    trace = ["\(settings), lag \(lag), links \(subscribers.map(\.link))"]
  }

  private static func settings(using random: inout SplitMix64) throws -> ChannelSettings {
    guard let app = BundleID("com.example.scores") else { throw Violation(description: "no bundle id") }
    return ChannelSettings(
      app: app, storagePolicy: random.pick([.none, .latest]),
      budget: FrequencyBudget(
        capacity: random.pick([nil, 0, 1, 3, 20, 60]),
        refillPerHour: random.pick([0, 60, 240, 3_600, 7_201]),
        overBudget: random.pick([.demote, .drop, .reject])),
      windows: DeliveryWindows(
        considerate: random.pick([0, 0.3, 1, 1, 5]), passive: random.pick([0, 1, 5, 5, 60])),
      publishRate: PublishRate(
        perSecond: random.pick([nil, nil, 0.5, 3, 20]), burst: random.pick([nil, 1, 5, 40])))
  }

  // MARK: Steps

  /// Runs some steps, then until nothing is under way.
  ///
  /// - Throws: a violation, with the step and the last events.
  mutating func run(steps: Int) throws(Violation) {
    for step in 0..<steps {
      do throws(Violation) { try self.step() } catch {
        let last = trace.suffix(8).joined(separator: "\n  ")
        throw Violation(description: "step \(step): \(error)\n  \(last)")
      }
    }
    do throws(Violation) {
      // Longer than the longest window and delay.
      try pass(seconds: 100)
      storeAll()
      try judge.checkEnd(channel)
    } catch {
      throw Violation(description: "after the last step: \(error)")
    }
  }

  private mutating func step() throws(Violation) {
    switch random.below(100) {
    case ..<70: try publish()
    case ..<80: try breakOrMend(random.below(subscribers.count))
    case ..<83: try startAnew(random.below(subscribers.count))
    case ..<85 where hasNights: try pass(seconds: 7 * 3_600 + random.seconds(upTo: 6 * 3_600))
    case ..<87: try crash()
    case ..<89: try fillDisk()
    default: break
    }
    if random.chance(50) { storeSome() }
    switch random.below(10) {
    case ..<4: break
    case ..<8: try pass(seconds: random.seconds(upTo: min(pace, 2)))
    case ..<9: try pass(seconds: random.seconds(upTo: pace))
    default: try pass(seconds: random.seconds(upTo: pace * 4))
    }
    for index in subscribers.indices { try subscribers[index].advance(to: now) }
    try judge.check(channel, at: now)
  }

  private mutating func breakOrMend(_ index: Int) throws(Violation) {
    guard subscribers[index].link.breaks else { return }
    if subscribers[index].isConnected {
      note("subscriber \(index) loses its connection")
      subscribers[index].disconnect()
    } else {
      note("subscriber \(index) resumes after \(subscribers[index].position?.description ?? "nothing")")
      try subscribers[index].reconnect(to: seen, at: now, using: &random)
    }
  }

  /// The next match of somebody whose card is over.
  private mutating func startAnew(_ index: Int) throws(Violation) {
    guard [.ended, .dismissed].contains(subscribers[index].activity.state) else { return }
    note("subscriber \(index) starts anew")
    subscribers[index] = Subscriber(link: subscribers[index].link, at: now)
    try subscribers[index].reconnect(to: seen, at: now, using: &random)
  }

  // MARK: Publishing

  private mutating func publish() throws(Violation) {
    published += 1
    let message = try message(number: published)
    let before = channel
    let judgeBefore = judge
    let answer: Result<PublishResult, Refusal>
    do throws(Refusal) { answer = .success(try channel.publish(message, at: now)) } catch {
      answer = .failure(error)
    }
    switch answer {
    case .success(let result):
      note("publish \(describe(message)) → \(result.outcome)\(result.isRepetition ? " (repeated)" : "")")
      try judge.published(message, number: published, result, at: now)
      hold(
        result.effects, since: before.checkpoint, judgeBefore, result.isRepetition ? nil : message.requestID)
    case .failure(let refusal):
      note("publish \(describe(message)) → \(refusal.reason.rawValue)")
      try judge.refused(message, refusal, at: now)
      try checkUnchanged(since: before)
      try checkRetry(message, refusal)
    }
  }

  private func checkUnchanged(since before: Channel) throws(Violation) {
    try Violation.unless(
      channel.position == before.position && channel.nextDeadline == before.nextDeadline
        && channel.budgetReport(at: now) == before.budgetReport(at: now)
        && channel.counts.accepted == before.counts.accepted, "a refused message changed the channel")
  }

  /// Who waits as told gets through: at most twice, because rate and budget may each refuse once.
  private func checkRetry(_ message: Message, _ refusal: Refusal) throws(Violation) {
    var channel = channel
    var moment = now
    var refusal = refusal
    for _ in 0..<2 {
      guard let wait = refusal.retryAfter else { return }
      moment += wait + 1e-3
      do throws(Refusal) {
        _ = try channel.publish(message, at: moment)
        return
      } catch {
        refusal = error
      }
    }
    throw Violation(description: "waiting for retry-after didn't help")
  }

  private mutating func message(number: Int) throws(Violation) -> Message {
    let seconds = Int64(now.timeIntervalSince1970.rounded(.down))
    // One in five is late or early; many of the others tie, because timestamps are whole seconds.
    let timestamp = seconds + Int64(random.chance(20) ? random.below(180) - 150 : 0)
    func date(_ percent: Int, from earliest: Int, over span: Int) -> String? {
      random.chance(percent) ? String(seconds + Int64(earliest + random.below(span))) : nil
    }
    let isEnd = random.chance(3)
    let aps = JSONWriter.object([
      "timestamp": String(timestamp), "event": isEnd ? "\"end\"" : "\"update\"",
      "content-state": "{\"n\":\(number)}", "stale-date": date(50, from: -20, over: 400),
      "dismissal-date": isEnd ? date(70, from: -20, over: 20_000) : nil,
      "alert": random.chance(10) ? "{\"title\":\"t\",\"body\":\"b\"}" : nil,
    ])
    let mayExpire = channel.settings.storagePolicy == .latest ? 70 : 2
    let expires = random.chance(mayExpire) ? seconds + Int64(random.pick([-5, 2, 60, 3_600, 100_000])) : 0
    guard let expiration = Expiration(unixSeconds: expires),
      let payload = try? Payload(body: Array("{\"aps\":\(aps)}".utf8))
    else { throw Violation(description: "a good payload was refused: \(aps)") }
    return Message(
      uniqueID: UniqueID(text: String(number)), requestID: requestID(),
      priority: random.pick(Priority.allCases),
      expiration: expiration, payload: payload)
  }

  /// None, a new one, or one of the last ten again.
  private mutating func requestID() -> RequestID? {
    guard random.chance(30) else { return nil }
    if random.chance(50), !requestIDs.isEmpty { return random.pick(Array(requestIDs.suffix(10))) }
    let id = RequestID.random(using: &random)
    requestIDs.append(id)
    return id
  }

  private func describe(_ message: Message) -> String {
    let payload = message.payload
    return
      "\(message.uniqueID) at \(message.priority.rawValue), \(payload.event) of \(payload.timestamp - 1_700_000_000)"
      + (payload.alert == nil ? "" : ", alert")
      + (message.expiration == .once ? "" : ", \(message.expiration)")
      + (message.requestID.flatMap { requestIDs.firstIndex(of: $0) }.map { ", request \($0)" } ?? "")
  }

  // MARK: Time

  /// Lets time pass, and whatever comes due happen in its order.
  private mutating func pass(seconds: Double) throws(Violation) {
    let end = now.addingTimeInterval(seconds)
    while let next = nextEvent, next <= end {
      now = max(now, next)
      if let deadline = channel.nextDeadline, deadline.addingTimeInterval(lag) <= now {
        let (before, judgeBefore) = (channel.checkpoint, judge)
        let effects = channel.advance(to: now)
        note("the window ends: \(effects.count) effects")
        try judge.advanced(effects, at: now)
        hold(effects, since: before, judgeBefore, nil)
      }
      for index in subscribers.indices { try subscribers[index].advance(to: now) }
    }
    now = end
  }

  private var nextEvent: Date? {
    let deadline = channel.nextDeadline?.addingTimeInterval(lag)
    return ([deadline] + subscribers.map(\.nextEvent)).compactMap(\.self).min()
  }

  mutating func fanOut(_ effects: [ChannelEffect]) {
    for case .deliver(let delivery) in effects {
      for index in subscribers.indices { subscribers[index].hand(delivery, at: now, using: &random) }
    }
  }

  mutating func note(_ event: String) {
    trace.append("\(JSONWriter.seconds(now.timeIntervalSince1970 - 1_700_000_000)) s: \(event)")
  }
}
