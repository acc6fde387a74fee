import BroadcastChannels
import Foundation
import LiveActivities
import TestSupport

/// The way from a channel to one device.
struct Link {
  /// Seconds that a message takes at most.
  var delay: Double
  /// Whether messages overtake each other.
  var reorders: Bool
  /// How many of a hundred arrive twice.
  var duplicates: Int
  /// How many of a hundred are lost.
  var drops: Int
  /// Whether the connection breaks.
  var breaks: Bool

  var isLossFree: Bool { drops == 0 && !breaks }

  /// Half of all links lose nothing, half of all keep the order.
  static func random(using random: inout SplitMix64) -> Link {
    let isLossFree = random.chance(50)
    return Link(
      delay: random.pick([0, 0.05, 1, 20]), reorders: random.chance(50), duplicates: random.pick([0, 0, 20]),
      drops: isLossFree ? 0 : random.pick([0, 10, 50]), breaks: !isLossFree)
  }
}

/// A device with one Live Activity behind a link, and what the activity must be by the facts.
struct Subscriber {
  let link: Link
  private(set) var activity: LiveActivity
  private(set) var isConnected = true
  private var inFlight: [(at: Date, delivery: Delivery)] = []
  /// Where it stands, as it would say on resuming.
  private(set) var position: StreamPosition?
  private var model: Model
  /// The newest delivery that was handed to the link since the activity started, by timestamp, then order.
  private var newestHanded: Payload?

  init(link: Link, at now: Date) {
    self.link = link
    activity = LiveActivity(startedAt: now)
    model = Model(startedAt: now)
  }

  // MARK: The link

  mutating func hand(_ delivery: Delivery, at now: Date, using random: inout SplitMix64) {
    guard isConnected else { return }
    if newestHanded.map({ $0.timestamp <= delivery.message.payload.timestamp }) ?? true {
      newestHanded = delivery.message.payload
    }
    guard !random.chance(link.drops) else { return }
    for _ in 0...(random.chance(link.duplicates) ? 1 : 0) {
      var arrival = now.addingTimeInterval(random.seconds(upTo: link.delay))
      if !link.reorders, let last = inFlight.last { arrival = max(arrival, last.at) }
      inFlight.append((arrival, delivery))
    }
  }

  mutating func disconnect() {
    isConnected = false
    inFlight = []
  }

  /// Resumes from where it stood.
  ///
  /// - Throws: when a device that keeps the order and loses nothing while connected would miss what is stored.
  mutating func reconnect(
    to channel: Channel.Checkpoint, at now: Date, using random: inout SplitMix64
  ) throws(Violation) {
    isConnected = true
    let newest = channel.newest(after: position, at: now)
    if let newest {
      hand(newest, at: now, using: &random)
    } else if let stored = channel.newest(after: nil, at: now), link.drops == 0, !link.reorders,
      isLive(at: now)
    {
      try Violation.unless(
        (activity.timestamp ?? 0) >= stored.message.payload.timestamp, "resuming missed the stored message")
    }
  }

  // MARK: Time

  /// When something happens here next.
  var nextEvent: Date? {
    let arrival = inFlight.lazy.map(\.at).min()
    return [arrival, activity.nextDeadline].compactMap(\.self).min()
  }

  /// Takes what arrives, each at its time, and passes the activity's deadlines.
  mutating func advance(to now: Date) throws(Violation) {
    while let index = inFlight.indices.min(by: { inFlight[$0].at < inFlight[$1].at }),
      inFlight[index].at <= now
    {
      let arrived = inFlight.remove(at: index)
      try receive(arrived.delivery, at: arrived.at)
    }
    try check(activity.advance(to: now))
    try check(at: now)
  }

  private mutating func receive(_ delivery: Delivery, at now: Date) throws(Violation) {
    let payload = delivery.message.payload
    let before = position.flatMap { $0.epoch == delivery.position.epoch ? $0.sequence : nil } ?? 0
    position = StreamPosition(
      epoch: delivery.position.epoch, sequence: max(delivery.position.sequence, before))
    let shown = activity.timestamp
    let mustEnd = payload.event == .end && isLive(at: now) && payload.timestamp >= shown ?? 0
    try check(activity.receive(payload, at: now))
    model.receive(payload, at: now)
    try Violation.unless(activity.timestamp ?? 0 >= shown ?? 0, "the shown timestamp ran backwards")
    try Violation.unless(!mustEnd || activity.endedAt == now, "an end was lost")
    try check(at: now)
  }

  private func isLive(at now: Date) -> Bool {
    let state = model.state(at: now)
    return state == .active || state == .stale
  }

  // MARK: Checks

  /// A stale date and the others pass at their own time, however late time was advanced.
  private func check(_ changes: [LiveActivity.Change]) throws(Violation) {
    for change in changes {
      switch change.cause {
      case .staleDate:
        try Violation.unless(change.at == model.staleDate, "went stale at another time than its stale date")
      case .lifetime:
        try Violation.unless(change.at == model.endOfLife, "the system ended it at another time than 8 hours")
      default: break
      }
    }
  }

  private func check(at now: Date) throws(Violation) {
    let state = model.state(at: now)
    try Violation.unless(activity.state == state, "the activity is \(activity.state), not \(state)")
    try Violation.unless(
      activity.contentState == model.shown?.contentState && activity.timestamp == model.shown?.timestamp,
      "the activity shows \(activity.contentState?.string ?? "nothing") of \(activity.timestamp ?? 0)")
    try Violation.unless(
      activity.ignoredOlder == model.ignoredOlder && activity.ignoredAfterEnd == model.ignoredAfterEnd,
      "ignored messages were counted wrongly")
    guard link.isLossFree, inFlight.isEmpty, isLive(at: now), let newest = newestHanded else { return }
    try Violation.unless(
      activity.timestamp == newest.timestamp, "a loss-free link did not end with the newest timestamp")
    guard !link.reorders, link.duplicates == 0 else { return }
    try Violation.unless(
      activity.contentState == newest.contentState,
      "a link that keeps the order did not end with the newest state")
  }
}

extension Subscriber {
  /// What an activity must be, from the facts: a newest payload and an end, and everything else computed from them.
  private struct Model {
    let startedAt: Date
    private(set) var shown: Payload?
    private(set) var ended: Date?
    private(set) var ignoredOlder = 0
    private(set) var ignoredAfterEnd = 0

    init(startedAt: Date) { self.startedAt = startedAt }

    var endOfLife: Date { startedAt.addingTimeInterval(8 * 3_600) }
    var staleDate: Date? { shown?.staleDate.map { Date(timeIntervalSince1970: Double($0)) } }

    mutating func receive(_ payload: Payload, at now: Date) {
      if ended != nil || now >= endOfLife {
        ignoredAfterEnd += 1
      } else if let shown, shown.timestamp > payload.timestamp {
        ignoredOlder += 1
      } else {
        shown = payload
        if payload.event == .end { ended = now }
      }
    }

    func state(at now: Date) -> LiveActivity.State {
      if let ended {
        let latest = ended.addingTimeInterval(4 * 3_600)
        let asked = shown?.dismissalDate.map { Date(timeIntervalSince1970: Double($0)) }
        return now >= min(asked ?? latest, latest) ? .dismissed : .ended
      }
      if now >= endOfLife { return now >= endOfLife.addingTimeInterval(4 * 3_600) ? .dismissed : .ended }
      return staleDate.map { now >= $0 } == true ? .stale : .active
    }
  }
}
