import BroadcastChannels
import Foundation
import LiveActivities
import TestSupport

/// One device and a person, messages and time, all from one seed; a ``DeviceJudge`` looks on after every step.
struct DeviceSimulation {
  private(set) var trace: [String] = []
  private(set) var judge = DeviceJudge()

  private var random: SplitMix64
  private var device: Device
  private var now = Self.beginning
  private var intents = 0

  private static let beginning = Date(timeIntervalSince1970: 1_800_000_000)
  private static let names = ["a", "b", "c", "d", "e", "f", "g"]
  private static let apps = ["com.example.scores", "com.example.tennis"]

  init(seed: UInt64) {
    random = SplitMix64(seed: seed)
    var settings = DeviceSettings()
    settings.activitiesPerApp = 1 + random.below(4)
    settings.activitiesOnDevice = 2 + random.below(4)
    settings.hourlyBudget = random.below(6)
    settings.frequentHourlyBudget = 4 + random.below(20)
    settings.groupingSeconds = random.chance(30) ? 20 : 0
    settings.alertSeconds = random.pick([0, 5, 60])
    if random.chance(10) { settings.disabledApps = [Self.apps[1]] }
    device = Device(settings: settings)
  }

  mutating func run(steps: Int) throws(Violation) {
    for step in 0..<steps {
      do throws(Violation) { try self.step() } catch {
        throw Violation(description: "step \(step): \(error)")
      }
    }
  }

  private mutating func step() throws(Violation) {
    switch random.below(100) {
    case ..<14: try start()
    case ..<56: try receive()
    case ..<78: pass()
    case ..<82: try person("dismiss") { $0.dismiss($1, at: $2) }
    case ..<85: try person("orphan") { $0.endOrphan($1, at: $2) }
    case ..<89: try frequent()
    case ..<91: try restart()
    default: try press()
    }
    try record(device.advance(to: now))
    try judge.look(at: device, now: now)
  }

  // MARK: Time

  /// Seconds, minutes or hours; often right to a deadline, or a thousandth before it.
  private mutating func pass() {
    if let deadline = device.nextDeadline, random.chance(40) {
      now = max(now, random.chance(50) ? deadline : deadline.addingTimeInterval(-0.001))
    } else {
      now += random.seconds(upTo: random.pick([2, 60, 600, 12_000]))
    }
    note("time passes")
  }

  // MARK: Starting

  private mutating func start() throws(Violation) {
    let name = random.pick(Self.names)
    let scheduled = random.chance(30) ? now.addingTimeInterval(random.seconds(upTo: 300) - 20) : nil
    let known = device[name]
    var failure: StartError?
    var isNew = false
    do throws(StartError) {
      isNew = try device.start(name, definition: definition(of: name), scheduled: scheduled, at: now)
    } catch { failure = error }
    note("start \(name): \(failure.map { "\($0)" } ?? (isNew ? "new" : "there"))")
    if isNew, let activity = device[name] {
      try judge.started(activity, at: now)
    } else {
      try Violation.unless(device[name]?.number == known?.number, "10: no start, and \(name) is another one")
    }
  }

  private func definition(of name: String) -> ChannelDefinition {
    let isFirst = Self.names.firstIndex(of: name).map { $0 < 4 } ?? true
    let settings = ChannelSettings(
      app: BundleID(Self.apps[isFirst ? 0 : 1]) ?? .scores, frequentUpdates: isFirst)
    let actions = [("follow", "followed", "true"), ("mute", "muted", "true"), ("unmute", "muted", "false")]
    return ChannelDefinition(
      settings: settings,
      actions: actions.map { name, property, value in
        ActivityAction(name: name, title: name, property: property, value: JSONText(compacting: value.utf8))
      })
  }

  // MARK: Messages

  private mutating func receive() throws(Violation) {
    let name = random.pick(Self.names)
    let payload = try payload()
    let priority = random.chance(60) ? Priority.immediate : random.pick([.considerate, .passive])
    let activity = device[name]
    note("\(name) gets \(String(decoding: payload.aps, as: UTF8.self)) at \(priority.rawValue)")
    let wasAlive = activity?.isAlive ?? false
    let changes = device.receive(payload, priority: priority, for: name, at: now)
    if let activity, wasAlive, priority == .immediate, payload.event == .update {
      let waits = changes.contains { if case .deferred = $0.kind { true } else { false } }
      if !waits, device[name]?.isAlive == true { judge.spent(activity.number) }
    }
    try record(changes)
  }

  private mutating func payload() throws(Violation) -> Payload {
    let unix = Int(now.timeIntervalSince1970.rounded(.down))
    let isEnd = random.chance(7)
    let property = random.pick([#","followed":true"#, #","muted":true"#, #","muted":false"#, ""])
    let aps = JSONWriter.object([
      "timestamp": String(unix + random.pick([0, 0, 0, 1, -1, -90])),
      "event": isEnd ? "\"end\"" : "\"update\"",
      "content-state": isEnd && random.chance(30) ? nil : "{\"n\":\(random.below(100))\(property)}",
      "stale-date": random.chance(50) ? String(unix - 30 + random.below(200)) : nil,
      "dismissal-date": isEnd && random.chance(70) ? String(unix - 30 + random.below(20_000)) : nil,
      "relevance-score": random.chance(40) ? String(random.below(3)) : nil,
      "alert": random.chance(30) ? #"{"title":"Goal","body":"1–0"}"# : nil,
    ])
    do throws(PayloadError) { return try Payload(body: Array("{\"aps\":\(aps)}".utf8)) } catch {
      throw Violation(description: "\(error)")
    }
  }

  // MARK: The person

  private mutating func person(_ what: String, _ body: (inout Device, String, Date) -> [Device.Change])
    throws(Violation)
  {
    let name = random.pick(Self.names)
    note("\(what) \(name)")
    try record(body(&device, name, now))
  }

  private mutating func frequent() throws(Violation) {
    let isOn = random.chance(50)
    note("frequent updates \(isOn)")
    try record(device.setFrequentUpdates(isOn, app: Self.apps[0], at: now))
  }

  /// The program ends and starts again with its state file.
  private mutating func restart() throws(Violation) {
    note("restart")
    let before = device.activities.map(Self.facts)
    do {
      let file = try JSONEncoder().encode(DeviceSnapshot(device))
      let snapshot = try JSONDecoder().decode(DeviceSnapshot.self, from: file)
      device = try Device(restoring: snapshot, at: now)
    } catch {
      throw Violation(description: "14: \(error)")
    }
    let after = device.activities.map(Self.facts)
    try Violation.unless(before == after, "14: a restart made \(after) of \(before)")
  }

  /// What a restart must not change. An alert is not among it: it was seen, or it was not.
  private static func facts(_ card: DeviceActivity) -> String {
    let facts = [
      card.isEventOngoing, card.isStale, card.isHidden, card.isActionUnconfirmed, card.isOverBudget,
    ]
    let data = card.activity
    return "\(card.name) \(card.number) \(data.state) \(data.timestamp ?? -1) \(facts) \(card.mergedCount)"
  }

  private mutating func press() throws(Violation) {
    let name = random.pick(Self.names)
    let action = random.pick(["follow", "mute", "unmute", "pause"])
    let before = device[name]
    intents += 1
    let intent = device.press(action, of: name, intent: "\(intents)", at: now)
    note("press \(action) of \(name): \(intent?.id ?? "no")")
    let may = before?.isInIsland == true && action != "pause"
    try Violation.unless(
      (intent != nil) == may, "9: \(action) of \(name) could \(may ? "not " : "")be pressed")
    if let unconfirmed = before?.unconfirmed, unconfirmed.action.name == action, let intent {
      try Violation.unless(intent.id == unconfirmed.intent, "9: \(action) of \(name) was sent twice")
    }
  }

  // MARK: Recording

  private mutating func record(_ changes: [Device.Change]) throws(Violation) {
    for change in changes {
      let what =
        switch change.kind {
        case .activity(let data): "\(data.cause.rawValue), \(data.state.rawValue)"
        case .deferred(_, let isOverBudget): isOverBudget ? "over budget" : "grouped"
        case .alert: "lights the screen"
        case .confirmed(let action): "\(action.name) is confirmed"
        }
      trace.append("    \(change.name): \(what)")
    }
    try judge.changed(changes, on: device, at: now)
  }

  private mutating func note(_ text: String) {
    trace.append("\(JSONWriter.seconds(now.timeIntervalSince(Self.beginning))) \(text)")
  }
}
