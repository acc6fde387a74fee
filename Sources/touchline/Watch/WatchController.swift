import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import LiveActivities
import SubscriberProtocol

/// Joins a device, its subscriptions and whatever shows them: one `watch`, on the loop's time.
final class WatchController {
  /// How far every activity has to come for the watch to end.
  enum Goal: String {
    case ended, dismissed
  }

  /// What a watch is asked for.
  struct Plan {
    var goal: Goal?
    var since: StreamPosition?
    var waits = false
    var startAt: Date?
  }

  var device: Device
  /// Messages missed, by the activity's name.
  private(set) var missed: [String: Int] = [:]

  let client: ClientRun
  private let plan: Plan
  private let file: DeviceFile?
  let display: any WatchDisplay
  let administration: ChannelAdministration
  var names: [String]
  var failures: [String: String] = [:]
  var subscriptions: Subscriptions?
  var tokens: DeviceTokens?
  /// The tokens that were told.
  var told: [PushRegistration.Name: PushToken] = [:]
  var wasStartedByPush = false
  var positions: [String: StreamPosition] = [:]
  private var nameOfChannel: [String: String] = [:]
  private var arrivals: [String: [Arrival]] = [:]
  private var fetched: [String: (definition: ChannelDefinition, startedAt: Date)] = [:]
  private var waiting: [String: Arrival] = [:]
  var unsubscribed: Set<String> = []
  /// Kept activities that are gone, and begin anew with their subscription.
  private var restarting: Set<String> = []
  private var deadline: LoopTimer?
  var isLost = false
  private var waitedFor: Set<String> = []
  var isOver = false

  /// - Parameters:
  ///   - names: the channels to watch; what the device has kept alive comes in addition.
  init(
    _ client: ClientRun, _ server: ServerAccess, names: [String], device: Device, file: DeviceFile?,
    plan: Plan, tokens: (plan: DeviceTokens.Plan, kept: [PushRegistration]), display: any WatchDisplay
  ) {
    self.client = client
    self.names = names
    self.device = device
    self.file = file
    self.plan = plan
    self.display = display
    administration = ChannelAdministration(loop: client.loop, server: server)
    subscriptions = Subscriptions(loop: client.loop, server: server, waits: plan.waits) { [weak self] event in
      self?.handle(event)
    }
    // A token whose activity is no more was given up with it.
    let kept = tokens.kept.filter { kept in
      kept.activity.map { device[$0].map { $0.isAlive && $0.isEventOngoing } ?? false } ?? true
    }
    self.tokens = DeviceTokens(
      tokens.plan, kept: kept, loop: client.loop, server: server, waits: plan.waits
    ) { [weak self] event in self?.handle(event) }
  }

  // MARK: Beginning and end

  func start() {
    let now = Date()
    _ = device.advance(to: now)
    for activity in device.activities where activity.isAlive {
      if !names.contains(activity.name) { names.append(activity.name) }
      positions[activity.name] = activity.position
      display.show(.kept(activity))
      if tokens?.plan.updates ?? false, activity.isEventOngoing { tokens?.register(activity) }
    }
    if let since = plan.since, let name = names.first { positions[name] = since }
    for name in names {
      if let kept = device[name], kept.activity.isDismissedByPerson, kept.isEventOngoing {
        refuse(name, .dismissedByPerson(name: name))
      } else if let kept = device[name], !kept.isAlive {
        restarting.insert(name)
      }
    }
    subscriptions?.open(toSubscribe)
    tokens?.open()
    settle()
  }

  /// What takes messages: neither refused, nor dismissed, nor at its end.
  private var toSubscribe: [(name: String, position: StreamPosition?)] {
    names.filter { name in
      guard failures[name] == nil, !unsubscribed.contains(name), device[name]?.isOnChannel ?? true else {
        return false
      }
      return device[name].map { $0.isEventOngoing || !$0.isAlive } ?? true
    }.map { ($0, positions[$0]) }
  }

  func stop() {
    guard !isOver else { return }
    isOver = true
    subscriptions?.close()
    deadline?.cancel()
    display.close()
    let kept = tokens?.kept ?? []
    if file == nil { tokens?.end() } else { tokens?.close() }
    do throws(CommandFailure) { try file?.save(device, kept) } catch { Console.note(error.message) }
  }

  private func finishIfDone() {
    guard !isOver else { return }
    let open = names.filter { failures[$0] == nil }
    // Who waits to be started has nothing to end with before.
    if tokens?.plan.start != nil, plan.goal == nil || !wasStartedByPush { return }
    if display.outlivesActivities, plan.goal == nil, !open.isEmpty { return }
    let isDone = open.allSatisfy { name in
      switch restarting.contains(name) ? nil : device[name]?.activity.state {
      case .dismissed: true
      case .ended: plan.goal == .ended
      case .pending, .active, .stale, nil: false
      }
    }
    guard isDone, arrivals.isEmpty else { return }
    stop()
    finish()
  }

  /// Ends the command: with a failure when a channel could not be followed to its end.
  func finish() {
    let failed = names.filter { failures[$0] != nil }
    if names.count > 1, !failed.isEmpty {
      client.fail(
        "\(failed.count) of \(names.count) channels failed: \(failed.joined(separator: ", "))".printable)
    } else if let name = failed.first, let failure = failures[name] {
      client.fail("\(name): \(failure)".printable)
    } else {
      client.finish(0)
    }
  }

  // MARK: Events of the connection

  private func handle(_ event: SubscriberEvent) {
    guard !isOver else { return }
    switch event {
    case .subscribed(let frame, let missed, let isResumed):
      subscribed(frame, missed: missed, isResumed: isResumed)
    case .message(let frame, let missed): message(frame, missed)
    case .disconnected(let problem, let wait):
      if !isLost { display.show(.lost(problem, retryIn: wait)) }
      isLost = true
    case .waiting(let channel): waits(for: channel)
    case .finished(let channel, let failure): finished(channel, failure)
    case .failed(let failure):
      stop()
      client.fail(failure.description)
    }
    settle()
  }

  private func subscribed(_ frame: SubscribedFrame, missed count: Int?, isResumed: Bool) {
    guard let name = names.first(where: { $0 == frame.channel || $0 == frame.alias }) else { return }
    isLost = false
    // A channel that was made anew has another id.
    nameOfChannel = nameOfChannel.filter { $0.value != name }
    nameOfChannel[frame.channel] = name
    waitedFor.remove(name)
    if positions[name]?.epoch != frame.position.epoch || frame.storagePolicy == .none {
      positions[name] = frame.position
    }
    missed[name, default: 0] += count ?? 0
    switch count {
    case nil: display.show(.countsAnew(name))
    case let count?: display.show(isResumed ? .resumed(name, missed: count) : .subscribed(name))
    }
    // What was pressed and is not confirmed may have been lost with the connection; the same intent is passed on once.
    if let intent = device.unconfirmedIntent(of: name) { subscriptions?.send(intent) }
    guard arrivals[name] == nil, device[name].map({ !$0.isAlive }) ?? true else { return }
    arrivals[name] = []
    let startedAt = Date()
    administration.show(name) { [weak self] result in
      // A channel without a readable definition has no presentations; its values are shown with their names.
      let definition =
        (try? result.get().definition) ?? ChannelDefinition(settings: ChannelSettings(app: .scores))
      self?.fetched[name] = (definition, startedAt)
      self?.beginFetched()
    }
  }

  /// Starts the activities whose definitions are there, in the order in which the person named them: the answers to
  /// requests may overtake each other, and the order of the starts is the order of the cards.
  private func beginFetched() {
    guard !isOver else { return }
    for name in names where arrivals[name] != nil {
      guard let (definition, startedAt) = fetched.removeValue(forKey: name) else { break }
      begin(name, definition, at: startedAt)
    }
    settle()
  }

  /// Starts the activity, and gives it what has come meanwhile.
  private func begin(_ name: String, _ definition: ChannelDefinition, at startedAt: Date) {
    let arrived = arrivals.removeValue(forKey: name) ?? []
    restarting.remove(name)
    do throws(StartError) {
      try device.start(name, definition: definition, scheduled: plan.startAt, at: startedAt)
      if tokens?.plan.updates ?? false, let activity = device[name] { tokens?.register(activity) }
      for arrival in arrived { deliver(arrival, to: name) }
    } catch {
      refuse(name, error)
    }
  }

  private func refuse(_ name: String, _ error: StartError, said: String? = nil) {
    failures[name] = said ?? error.description
    subscriptions?.unsubscribe(name)
    tell(.notStarted(name, error, said: said))
  }

  /// Tells of a channel's failure; that of the only one is told by the command's end.
  private func tell(_ failure: WatchNotice) {
    if names.count > 1 || display.outlivesActivities { display.show(failure) }
  }

  private func message(_ frame: MessageFrame, _ missed: Int) {
    guard let name = nameOfChannel[frame.channel] else { return }
    positions[name] = frame.position
    let arrival = Arrival(frame, missed: missed, at: Date())
    if arrivals[name] != nil { arrivals[name]?.append(arrival) } else { deliver(arrival, to: name) }
  }

  func deliver(_ arrival: Arrival, to name: String) {
    if arrival.missed > 0 {
      missed[name, default: 0] += arrival.missed
      display.show(.missedBefore(name, count: arrival.missed))
    }
    show(device.advance(to: arrival.at))
    let changes = device.receive(
      arrival.payload, priority: arrival.priority, position: arrival.position, for: name, at: arrival.at)
    if changes.contains(where: { if case .deferred = $0.kind { true } else { false } }) {
      let isNewer = waiting[name].map { $0.payload.timestamp <= arrival.payload.timestamp } ?? true
      if isNewer { waiting[name] = arrival }
    } else {
      waiting[name] = nil
    }
    show(changes, arrival)
  }

  /// Whether an activity was kept from before and its channel was not seen in this run: its event is over then.
  private func isOrphan(_ name: String) -> Bool {
    (device[name]?.isAlive ?? false) && !nameOfChannel.values.contains(name)
  }

  private func waits(for name: String) {
    isLost = false
    if isOrphan(name) {
      show(device.endOrphan(name, at: Date()))
    } else if waitedFor.insert(name).inserted {
      display.show(.waiting(name))
    }
  }

  private func finished(_ name: String, _ failure: RequestFailure) {
    let isGone = failure.reason == RefusalReason.channelNotRegistered.rawValue
    if isGone, isOrphan(name) {
      show(device.endOrphan(name, at: Date()))
    } else if isGone, device[name]?.isAlive ?? false {
      failures[name] = "the channel is no longer on the server"
      tell(.finished(name, "the channel is no longer on the server"))
    } else if isGone {
      refuse(name, .unknownChannel(name: name), said: failure.description)
    } else {
      failures[name] = failure.description
      tell(.finished(name, failure.description))
    }
  }

  // MARK: The person

  /// Whether the network is on.
  private(set) var isNetworkOn = true

  func dismiss(_ name: String) {
    show(device.dismiss(name, at: Date()))
    settle()
  }

  /// Closes the connections, or subscribes again where each channel stood.
  func setNetwork(_ isOn: Bool) {
    guard isOn != isNetworkOn else { return }
    isNetworkOn = isOn
    isLost = false
    if isOn {
      subscriptions?.open(toSubscribe, isReturn: true)
      tokens?.open(isReturn: true)
    } else {
      subscriptions?.close()
      tokens?.close()
    }
    display.show(isOn ? .networkOn : .networkOff)
    settle()
  }

  /// Switches the frequent updates of an activity's app; returns whether they are on now.
  func toggleFrequentUpdates(_ name: String) -> Bool? {
    guard let app = device[name]?.definition.settings.app.identifier else { return nil }
    let isOn = device.settings.infrequentApps.contains(app)
    device.setFrequentUpdates(isOn, app: app, at: Date())
    settle()
    return isOn
  }

  /// Presses an action's button; returns its title, or nil when there is no such button.
  func press(_ number: Int, of name: String) -> String? {
    guard let actions = device[name]?.definition.actions, actions.indices.contains(number - 1) else {
      return nil
    }
    let action = actions[number - 1]
    let id = UUID().uuidString.lowercased()
    guard let intent = device.press(action.name, of: name, intent: id, at: Date()) else { return nil }
    subscriptions?.send(intent)
    settle()
    return action.title
  }

  // MARK: Showing

  func show(_ changes: [Device.Change], _ arrival: Arrival? = nil) {
    for change in changes {
      guard let activity = device[change.name] else { continue }
      if !activity.isAlive, unsubscribed.insert(change.name).inserted {
        subscriptions?.unsubscribe(change.name)
      }
      var cause = arrival
      if arrival == nil, case .activity(let data) = change.kind, data.cause == .update {
        cause = waiting.removeValue(forKey: change.name)
      }
      let channel = nameOfChannel.first { $0.value == change.name }?.key ?? ""
      let line = WatchLine(
        change: change, arrival: cause, channel: channel, activity: activity, missed: missed[change.name] ?? 0
      )
      switch line.isShown ? cause?.way : nil {
      case .channel(let frame, _): subscriptions?.displayed(frame.position.sequence, of: change.name)
      case .push(let frame): tokens?.displayed(frame)
      case nil: break
      }
      if case .activity(let data) = change.kind, data.cause == .staleDate {
        subscriptions?.becameStale(change.name)
      }
      // Only now: a token that is given up acknowledges nothing more.
      if !activity.isAlive || !activity.isEventOngoing { tokens?.unregister(activity) }
      display.show(line)
    }
  }

  /// What follows from whatever just happened.
  func settle() {
    guard !isOver else { return }
    schedule()
    file?.save(soon: client.loop, { [weak self] in self.map { ($0.device, $0.tokens?.kept ?? []) } }) {
      [weak self] problem in
      self?.display.show(.fileFailed(problem))
    }
    display.settle()
    finishIfDone()
  }

  private func schedule() {
    deadline?.cancel()
    guard let next = device.nextDeadline else { return }
    // Rounded up to the timer's millisecond, so that it never fires before the date.
    let seconds = max(0, (next.timeIntervalSinceNow * 1_000).rounded(.up) / 1_000)
    deadline = client.loop.schedule(after: seconds) { [weak self] in
      guard let self, !isOver else { return }
      show(device.advance(to: Date()))
      settle()
    }
  }
}
