import BroadcastChannels
import Foundation
import LiveActivities

/// What the facts allow a device to be and to do; everything else is a violation.
///
/// Source: facts/live-activity.md. The rules, in the order in which they are checked:
///
/// Of changes
/// 1. they come in the order of time, never after now;
/// 2. each is a transition of ``transitions``, and no state changes without one;
/// 3. what is shown never gets older, and a dismissed card changes no more.
///
/// Of each activity
/// 4. active means that the stale date is to come, stale that it is past;
/// 5. it is alive for less than 8 hours, its card there for less than 12, and for less than 4 after its end;
/// 6. it has an end when it is ended, or dismissed by anything but the person;
/// 7. an alert lights the screen only for a card that is shown, and for a while to come;
/// 8. only what is alive waits for the budget, and no more is shown at priority 10 than the budget holds;
/// 9. an action is confirmed by its own value, and pressed again it has the same intent.
///
/// Of the device
/// 10. no channel has two activities; alive ones are no more than the limits, of each app and in all;
/// 11. who was dismissed by the person does not come back while the event goes on;
/// 12. the island holds active and stale ones, the Lock Screen also ended ones, neither hidden or pending ones, both by
///     relevance and then by start;
/// 13. the next deadline is to come;
/// 14. a restart doubles, loses and changes nothing (the simulation checks it).
struct DeviceJudge {
  /// One way from state to state.
  struct Transition: Hashable, CustomStringConvertible {
    let cause: LiveActivity.Cause
    let from: LiveActivity.State
    let to: LiveActivity.State
    var description: String { "\(cause.rawValue): \(from.rawValue) → \(to.rawValue)" }
  }

  /// Every way that the facts know. The tests also see to it that each of them is taken.
  static let transitions: Set<Transition> = {
    let ways: [(LiveActivity.Cause, [LiveActivity.State], [LiveActivity.State])] = [
      (.start, [.pending], [.active, .stale]), (.update, [.pending], [.pending]),
      (.update, [.active, .stale], [.active, .stale]), (.staleDate, [.active], [.stale]),
      (.end, [.pending, .active, .stale], [.ended]), (.lifetime, [.active, .stale], [.ended]),
      (.orphan, [.pending, .active, .stale], [.ended]), (.dismissal, [.ended], [.dismissed]),
      (.person, [.pending, .active, .stale, .ended], [.dismissed]), (.ignoredAfterEnd, [.ended], [.ended]),
      (.ignoredOlder, [.pending], [.pending]), (.ignoredOlder, [.active], [.active]),
      (.ignoredOlder, [.stale], [.stale]),
    ]
    return Set(
      ways.flatMap { cause, from, to in
        from.flatMap { start in to.map { Transition(cause: cause, from: start, to: $0) } }
      })
  }()

  /// The ways that were taken.
  private(set) var taken: Set<Transition> = []

  /// What is known of an activity, by the number of its start.
  private struct Record {
    var state: LiveActivity.State
    var timestamp: Int64?
    var ignoredOlder = 0
    var immediate = 0
    var startedBudget: Date
  }

  private var records: [Int: Record] = [:]
  private var last = Date.distantPast
  /// Names that the person dismissed while their event went on.
  private var gone: Set<String> = []

  // MARK: Changes

  /// A new activity.
  mutating func started(_ activity: DeviceActivity, at now: Date) throws(Violation) {
    try Violation.unless(!gone.contains(activity.name), "11: \(activity.name) came back")
    records[activity.number] = Record(state: activity.activity.state, startedBudget: now)
  }

  /// What a call returned.
  mutating func changed(_ changes: [Device.Change], on device: Device, at now: Date) throws(Violation) {
    for change in changes {
      try Violation.unless(change.at >= last && change.at <= now, "1: \(change.name) changes at \(change.at)")
      last = change.at
      guard let activity = device[change.name], var record = records[activity.number] else {
        throw Violation(description: "2: a change of \(change.name), which is not there")
      }
      switch change.kind {
      case .activity(let data):
        let way = Transition(cause: data.cause, from: record.state, to: data.state)
        try Violation.unless(Self.transitions.contains(way), "2: \(change.name) took \(way)")
        taken.insert(way)
        record.state = data.state
        if data.cause == .ignoredOlder { record.ignoredOlder += 1 }
        if data.cause == .person, activity.activity.endedAt == nil { gone.insert(change.name) }
      case .alert:
        let isThere = record.state != .dismissed && record.state != .pending
        try Violation.unless(isThere, "7: \(change.name) lights the screen, \(record.state)")
      case .deferred: try Violation.unless(record.state != .dismissed, "8: \(change.name) waits, and is gone")
      case .confirmed(let action):
        try Violation.unless(Self.shows(activity, action), "9: \(action.name) was confirmed by another value")
      }
      records[activity.number] = record
    }
  }

  /// An update at priority 10 was shown at once, or after it waited for the budget.
  mutating func spent(_ number: Int) { records[number]?.immediate += 1 }

  private static func shows(_ activity: DeviceActivity, _ action: ActivityAction) -> Bool {
    guard let state = activity.activity.contentState, let root = (try? JSONDocument(state.bytes))?.root else {
      return false
    }
    return root[action.property]?.bool.map { String($0) } == action.value.string
  }

  // MARK: States

  /// Looks at everything after a step.
  mutating func look(at device: Device, now: Date) throws(Violation) {
    for activity in device.activities { try look(at: activity, device.settings, now) }
    let names = device.activities.map(\.name)
    try Violation.unless(Set(names).count == names.count, "10: two activities of one channel in \(names)")
    let alive = device.activities.filter(\.isAlive)
    try Violation.unless(alive.count <= device.settings.activitiesOnDevice, "10: \(alive.count) are alive")
    for (app, ones) in Dictionary(grouping: alive, by: { $0.definition.settings.app }) {
      try Violation.unless(
        ones.count <= device.settings.activitiesPerApp, "10: \(ones.count) of \(app) are alive")
    }
    try order(device.island, of: device, "island", [.active, .stale])
    try order(device.lockScreen, of: device, "Lock Screen", [.active, .stale, .ended])
    try Violation.unless(device.nextDeadline.map { $0 > now } ?? true, "13: a deadline is past")
  }

  private mutating func look(at card: DeviceActivity, _ settings: DeviceSettings, _ now: Date)
    throws(Violation)
  {
    let activity = card.activity
    guard var record = records[card.number] else {
      throw Violation(description: "2: \(card.name) is unknown")
    }
    let name = card.name
    try Violation.unless(
      record.state == activity.state, "2: \(name) became \(activity.state) without a change")
    let isOlder = record.timestamp.map { old in activity.timestamp.map { $0 < old } ?? true } ?? false
    try Violation.unless(!isOlder, "3: \(name) shows something older than before")
    record.timestamp = activity.timestamp
    try Violation.unless(
      activity.ignoredOlder == record.ignoredOlder, "3: \(name) counts \(activity.ignoredOlder) older ones")
    records[card.number] = record
    try life(activity, name, now)
    if let alert = card.alert {
      let isShown = !card.isHidden && activity.state != .pending
      try Violation.unless(isShown && alert.until > now, "7: \(name) lights the screen until \(alert.until)")
    }
    try Violation.unless(!card.isOverBudget || card.isAlive, "8: \(name) is gone and waits for the budget")
    if settings.groupingSeconds == 0 {
      let capacity = Double(max(settings.hourlyBudget, settings.frequentHourlyBudget))
      let most = capacity * (1 + now.timeIntervalSince(record.startedBudget) / 3_600)
      try Violation.unless(
        Double(record.immediate) <= most + 0.001,
        "8: \(name) showed \(record.immediate) at priority 10, of \(most)")
    }
  }

  private func life(_ activity: LiveActivity, _ name: String, _ now: Date) throws(Violation) {
    let age = now.timeIntervalSince(activity.startedAt)
    let isPast = activity.staleDate.map { $0 <= now } ?? false
    switch activity.state {
    case .pending: try Violation.unless(age < 0, "4: \(name) is pending after its start")
    case .active: try Violation.unless(!isPast && age < 8 * 3_600, "4, 5: \(name) is active")
    case .stale: try Violation.unless(isPast && age < 8 * 3_600, "4, 5: \(name) is stale")
    case .ended:
      let left = activity.dismissalDate.map { $0.timeIntervalSince(now) } ?? -1
      let since = activity.endedAt.map { now.timeIntervalSince($0) } ?? -1
      try Violation.unless(age < 12 * 3_600 && left > 0, "5: \(name) is there, ended")
      try Violation.unless(since >= 0 && since < 4 * 3_600, "5, 6: \(name) ended \(since) s ago")
    case .dismissed:
      let byPerson = activity.isDismissedByPerson
      try Violation.unless(byPerson || activity.endedAt != nil, "6: \(name) is gone without an end")
    }
  }

  private func order(
    _ shown: [DeviceActivity], of device: Device, _ place: String, _ states: Set<LiveActivity.State>
  ) throws(Violation) {
    let expected = device.activities.filter { states.contains($0.activity.state) && !$0.isHidden }
    let names = Set(shown.map(\.name))
    try Violation.unless(names == Set(expected.map(\.name)), "12: the \(place) holds \(names)")
    for (first, second) in zip(shown, shown.dropFirst()) {
      let (one, two) = (first.activity.relevanceScore ?? 0, second.activity.relevanceScore ?? 0)
      let isOrdered = one > two || one == two && first.number < second.number
      try Violation.unless(isOrdered, "12: \(second.name) follows \(first.name) in the \(place)")
    }
  }
}
