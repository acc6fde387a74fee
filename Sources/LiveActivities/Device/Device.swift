import BroadcastChannels
import Foundation

/// A simulated phone: several Live Activities of several apps, the limits and budgets that the system puts on them, and
/// what a person does.
///
/// Like everything here it reads no clock: time is an argument, ``nextDeadline`` says when ``advance(to:)`` has something
/// to do, and each call returns what changed, in order.
public struct Device: Sendable {
  /// Something that changed on the device.
  public struct Change: Sendable {
    /// What it was.
    public enum Kind: Sendable {
      /// The activity's data changed, or ignored a message.
      case activity(LiveActivity.Change)
      /// An update waits, because the hourly budget for priority 10 is spent or its group has not ended; what waited
      /// before is merged into it.
      case deferred(until: Date, isOverBudget: Bool)
      /// The screen lit up.
      case alert(Alert)
      /// An action was confirmed by the publisher's state.
      case confirmed(ActivityAction)
    }

    /// The activity's channel, as the person named it.
    public let name: String
    /// When.
    public let at: Date
    /// What it was.
    public let kind: Kind
  }

  /// A pressed button on its way to the publisher. Pressing again before it is confirmed sends the same intent again.
  public struct Intent: Sendable, Hashable {
    /// The activity's channel.
    public let name: String
    /// The action's name.
    public let action: String
    /// The intent's own id, by which a repetition is known.
    public let id: String
  }

  /// What a person and the system have set.
  public private(set) var settings: DeviceSettings
  /// The activities, dismissed ones included, in the order of their starts.
  public private(set) var activities: [DeviceActivity] = []
  private var started = 0

  /// Makes a device without activities.
  public init(settings: DeviceSettings = DeviceSettings()) { self.settings = settings }

  /// Takes a device up again where it was left.
  ///
  /// - Parameters:
  ///   - settings: instead of the ones that were kept; the budgets are resized to them.
  /// - Throws: ``DeviceSnapshot/Problem``.
  public init(
    restoring snapshot: DeviceSnapshot, settings: DeviceSettings? = nil, at now: Date
  ) throws(DeviceSnapshot.Problem) {
    self.settings = settings ?? snapshot.settings
    guard snapshot.format <= DeviceSnapshot.currentFormat else { throw .newerFormat(snapshot.format) }
    for kept in snapshot.activities {
      guard self[kept.name] == nil else { throw .broken("\"\(kept.name)\" is there twice") }
      var activity = try kept.restored()
      let hourly = Double(hourlyBudget(activity.definition))
      activity.budget = activity.budget.resized(capacity: hourly, refillPerSecond: hourly / 3_600, at: now)
      activities.append(activity)
    }
    started = activities.map(\.number).max() ?? 0
  }

  /// The activity of a channel.
  public subscript(name: String) -> DeviceActivity? { activities.first { $0.name == name } }

  // MARK: Starting

  /// Starts the activity of a channel, or finds the one that is there: an activity is never started twice.
  ///
  /// - Parameters:
  ///   - scheduled: when it begins, if not now: it is pending until then.
  /// - Throws: ``StartError``; nothing has changed then.
  /// - Returns: whether it is a new one.
  @discardableResult
  public mutating func start(
    _ name: String, definition: ChannelDefinition, scheduled: Date? = nil, at now: Date
  ) throws(StartError) -> Bool {
    if let known = self[name] {
      if known.activity.isDismissedByPerson, known.isEventOngoing { throw .dismissedByPerson(name: name) }
      if known.isAlive { return false }
    }
    try checkRoom(for: definition.settings.app)
    let bytes = definition.attributes?.bytes.count ?? 0
    if bytes > Limits.activityStateBytes { throw .tooLarge(bytes: bytes) }
    add(
      name, definition,
      scheduled.map { LiveActivity(scheduledFor: max($0, now)) } ?? LiveActivity(startedAt: now), at: now)
    return true
  }

  /// Starts the activity that a push asks for, with the push's attributes and first state.
  ///
  /// Unlike a start by the app it is a new activity each time, so it also takes the place of one that the person
  /// dismissed. It doesn't take the place of one that is on the device. Time must have been advanced before.
  ///
  /// - Parameters:
  ///   - name: what it is called from now on.
  ///   - definition: how the app presents its activities.
  ///   - isOnChannel: whether its updates come from the channel of its name; if not, from pushes alone.
  /// - Throws: ``StartError``; nothing has changed then.
  public mutating func start(
    _ name: String, by payload: Payload, _ start: ActivityStart, definition: ChannelDefinition,
    isOnChannel: Bool, at now: Date
  ) throws(StartError) -> [Change] {
    if self[name]?.isAlive ?? false { throw .alreadyStarted(name: name) }
    try checkRoom(for: definition.settings.app)
    let bytes = start.attributes.bytes.count + (payload.contentState?.bytes.count ?? 0)
    if bytes > Limits.activityStateBytes { throw .tooLarge(bytes: bytes) }
    var definition = definition
    definition.attributesType = start.attributesType
    definition.attributes = start.attributes
    let (activity, change) = LiveActivity.started(by: payload, at: now)
    let index = add(name, definition, activity, at: now)
    activities[index].isOnChannel = isOnChannel
    activities[index].updatedAt = min(now, Date(timeIntervalSince1970: Double(payload.timestamp)))
    return [Change(name: name, at: now, kind: .activity(change))] + light(payload.alert, index, at: now)
  }

  private func checkRoom(for app: BundleID) throws(StartError) {
    let identifier = app.identifier
    if settings.disabledApps.contains(identifier) { throw .disabled(app: identifier) }
    let alive = activities.filter(\.isAlive)
    if alive.count(where: { $0.definition.settings.app == app }) >= settings.activitiesPerApp {
      throw .tooManyOfApp(app: identifier, limit: settings.activitiesPerApp)
    }
    if alive.count >= settings.activitiesOnDevice {
      throw .tooManyOnDevice(limit: settings.activitiesOnDevice)
    }
  }

  /// - Returns: its place in ``activities``.
  @discardableResult
  private mutating func add(
    _ name: String, _ definition: ChannelDefinition, _ activity: LiveActivity, at now: Date
  ) -> Int {
    activities.removeAll { $0.name == name }
    started += 1
    activities.append(
      DeviceActivity(
        name: name, definition: definition, activity: activity, number: started,
        hourlyBudget: hourlyBudget(definition), now: now))
    return activities.count - 1
  }

  private func hourlyBudget(_ definition: ChannelDefinition) -> Int {
    let allowed = !settings.infrequentApps.contains(definition.settings.app.identifier)
    return definition.settings.frequentUpdates && allowed
      ? settings.frequentHourlyBudget : settings.hourlyBudget
  }

  // MARK: Messages

  /// Takes a message that came for a channel's activity.
  ///
  /// At priority 10 it takes a token of the hourly budget; without one it waits, merged with what waits already, until a
  /// token is back. Lower priorities are grouped. An `end` is never held back.
  public mutating func receive(
    _ payload: Payload, priority: Priority, position: StreamPosition? = nil, for name: String, at now: Date
  ) -> [Change] {
    var changes = advance(to: now)
    guard let index = activities.firstIndex(where: { $0.name == name }) else { return changes }
    if let position { activities[index].position = position }
    guard activities[index].isAlive, payload.event == .update else {
      changes += show(payload, index, at: now)
      // An end that came too late to end anything takes nothing with it.
      if activities[index].activity.endedAt != nil, activities[index].waiting != nil {
        activities[index].waiting = nil
        activities[index].mergedCount += 1
      }
      return changes
    }
    if let due = holdBack(payload, priority, index, at: now) {
      let isOverBudget = priority == .immediate
      wait(payload, due: due, isOverBudget: isOverBudget, index)
      changes.append(Change(name: name, at: now, kind: .deferred(until: due, isOverBudget: isOverBudget)))
      return changes
    }
    if let waiting = activities[index].waiting, waiting.payload.timestamp <= payload.timestamp {
      activities[index].waiting = nil
      activities[index].mergedCount += 1
    }
    return changes + show(payload, index, at: now)
  }

  /// Until when an update has to wait; nil when it is shown at once.
  private mutating func holdBack(_ payload: Payload, _ priority: Priority, _ index: Int, at now: Date)
    -> Date?
  {
    if priority == .immediate {
      return activities[index].budget.take(at: now) ? nil : nextToken(index, at: now)
    }
    guard settings.groupingSeconds > 0 else { return nil }
    return min(
      activities[index].waiting?.due ?? .distantFuture, now.addingTimeInterval(settings.groupingSeconds))
  }

  /// When the budget has a token.
  private func nextToken(_ index: Int, at now: Date) -> Date {
    let budget = activities[index].budget
    if budget.remaining(at: now) > 0 { return now }
    return budget.secondsToNext(at: now).map { now.addingTimeInterval($0) } ?? .distantFuture
  }

  private mutating func wait(_ payload: Payload, due: Date, isOverBudget: Bool, _ index: Int) {
    if let alert = payload.alert { activities[index].heldAlert = alert }
    guard let old = activities[index].waiting else {
      activities[index].waiting = (payload, due, isOverBudget)
      return
    }
    activities[index].mergedCount += 1
    let newest = old.payload.timestamp > payload.timestamp ? old.payload : payload
    activities[index].waiting = (newest, min(due, old.due), isOverBudget || old.isOverBudget)
  }

  private mutating func show(_ payload: Payload, _ index: Int, at now: Date) -> [Change] {
    let name = activities[index].name
    let results = activities[index].activity.receive(payload, at: now)
    var changes = results.map { Change(name: name, at: $0.at, kind: .activity($0)) }
    guard results.contains(where: { $0.cause == .update || $0.cause == .end }) else { return changes }
    // The age of a state is that of what it says, not of its arrival.
    activities[index].updatedAt = min(now, Date(timeIntervalSince1970: Double(payload.timestamp)))
    let alert = payload.alert ?? activities[index].heldAlert
    activities[index].heldAlert = nil
    changes += light(alert, index, at: now)
    if let action = confirmedAction(index) {
      activities[index].unconfirmed = nil
      changes.append(Change(name: name, at: now, kind: .confirmed(action)))
    }
    clearIfGone(index)
    return changes
  }

  /// Lights the screen. A card that isn't shown lights nothing.
  private mutating func light(_ alert: Alert?, _ index: Int, at now: Date) -> [Change] {
    guard let alert, !activities[index].isHidden, activities[index].activity.state != .pending else {
      return []
    }
    activities[index].alert = (alert, now.addingTimeInterval(settings.alertSeconds))
    return [Change(name: activities[index].name, at: now, kind: .alert(alert))]
  }

  // MARK: Time

  /// When ``advance(to:)`` has something to do next.
  public var nextDeadline: Date? {
    activities.compactMap(\.nextDeadline).filter { $0 < .distantFuture }.min()
  }

  /// Passes the deadlines up to a moment, each at its own time, over all activities.
  public mutating func advance(to now: Date) -> [Change] {
    var changes: [Change] = []
    while let deadline = nextDeadline, deadline <= now {
      for index in activities.indices where activities[index].nextDeadline.map({ $0 <= deadline }) ?? false {
        changes += pass(deadline, index)
      }
    }
    return changes
  }

  private mutating func pass(_ deadline: Date, _ index: Int) -> [Change] {
    let name = activities[index].name
    var changes = activities[index].activity.advance(to: deadline)
      .map { Change(name: name, at: $0.at, kind: .activity($0)) }
    if let alert = activities[index].alert, alert.until <= deadline { activities[index].alert = nil }
    if let waiting = activities[index].waiting, waiting.due <= deadline {
      activities[index].waiting = nil
      // What was held back for the budget takes the token that came back.
      if waiting.isOverBudget { _ = activities[index].budget.take(at: deadline) }
      changes += show(waiting.payload, index, at: deadline)
    }
    clearIfGone(index)
    return changes
  }

  // MARK: The person

  /// The person dismisses a card: it doesn't come back, the event may go on.
  public mutating func dismiss(_ name: String, at now: Date) -> [Change] {
    change(name, at: now) { $0.dismiss(at: now) }
  }

  /// Ends an activity whose channel was found to be gone when the device came back.
  public mutating func endOrphan(_ name: String, at now: Date) -> [Change] {
    change(name, at: now) { $0.endOrphan(at: now) }
  }

  private mutating func change(
    _ name: String, at now: Date, _ body: (inout LiveActivity) -> [LiveActivity.Change]
  ) -> [Change] {
    var changes = advance(to: now)
    guard let index = activities.firstIndex(where: { $0.name == name }) else { return changes }
    changes += body(&activities[index].activity).map { Change(name: name, at: $0.at, kind: .activity($0)) }
    clearIfGone(index)
    return changes
  }

  /// A card that is gone lights no screen and waits for nothing.
  private mutating func clearIfGone(_ index: Int) {
    guard !activities[index].isAlive else { return }
    activities[index].waiting = nil
    activities[index].heldAlert = nil
    activities[index].alert = nil
  }

  /// The person switches an app's frequent updates: the budget of its activities becomes the other one at once, and
  /// what was used of it stays used. What waits for a token then waits for the new budget's.
  @discardableResult
  public mutating func setFrequentUpdates(_ isOn: Bool, app: String, at now: Date) -> [Change] {
    let changes = advance(to: now)
    if isOn { settings.infrequentApps.remove(app) } else { settings.infrequentApps.insert(app) }
    for index in activities.indices where activities[index].definition.settings.app.identifier == app {
      let hourly = Double(hourlyBudget(activities[index].definition))
      activities[index].budget = activities[index].budget.resized(
        capacity: hourly, refillPerSecond: hourly / 3_600, at: now)
      if activities[index].waiting?.isOverBudget == true {
        let due = nextToken(index, at: now)
        activities[index].waiting?.due = due
      }
    }
    return changes + advance(to: now)
  }

  /// The person presses an action's button.
  ///
  /// - Returns: the intent to send: the same one again while it is not confirmed. nil when the activity has no such
  ///   action, or has ended.
  public mutating func press(_ action: String, of name: String, intent id: String, at now: Date) -> Intent? {
    guard let index = activities.firstIndex(where: { $0.name == name }), activities[index].isInIsland,
      let action = activities[index].definition.actions.first(where: { $0.name == action })
    else { return nil }
    if let unconfirmed = activities[index].unconfirmed {
      if unconfirmed.action == action {
        return Intent(name: name, action: action.name, id: unconfirmed.intent)
      }
    } else if isShown(action, index) {
      // The state has the value already, so there is nothing to wait for; sending it again does no harm.
      return Intent(name: name, action: action.name, id: id)
    }
    activities[index].unconfirmed = (action, id)
    return Intent(name: name, action: action.name, id: id)
  }

  /// The intent that waits for its confirmation, to be sent again after a lost connection.
  public func unconfirmedIntent(of name: String) -> Intent? {
    self[name]?.unconfirmed.map { Intent(name: name, action: $0.action.name, id: $0.intent) }
  }

  /// An action is confirmed when the state has the value that it sets.
  private func confirmedAction(_ index: Int) -> ActivityAction? {
    activities[index].unconfirmed.flatMap { isShown($0.action, index) ? $0.action : nil }
  }

  private func isShown(_ action: ActivityAction, _ index: Int) -> Bool {
    guard let state = activities[index].activity.contentState,
      let document = try? JSONDocument(state.bytes), let value = document.root[action.property]
    else { return false }
    return JSONText(compacting: document.bytes[value.range]) == action.value
  }

  // MARK: Order

  /// The cards of the Lock Screen: the highest relevance first, ties and missing scores by the order of the starts.
  public var lockScreen: [DeviceActivity] {
    activities.filter { !$0.isHidden && $0.activity.state != .pending }.sorted(by: Self.comesFirst)
  }

  /// What competes for the Dynamic Island, in order: the first one has it.
  public var island: [DeviceActivity] { activities.filter(\.isInIsland).sorted(by: Self.comesFirst) }

  private static func comesFirst(_ a: DeviceActivity, _ b: DeviceActivity) -> Bool {
    let left = a.activity.relevanceScore ?? 0
    let right = b.activity.relevanceScore ?? 0
    return left == right ? a.number < b.number : left > right
  }
}
