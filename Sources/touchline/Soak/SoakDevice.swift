import BroadcastChannels
import Foundation
import LiveActivities
import Soak
import SubscriberProtocol
import SubscriberSwarm

/// One place among the subscribers, and the device that has it at the moment.
struct SoakDevice {
  var plan: SubscriberPlan
  /// What happens to it next, by plan.
  var next: SubscriberAction?
  /// The real thing: the rules of a Live Activity. Nil while no device has the place.
  var activity: LiveActivity?
  var connection: Swarm.ID?
  var isSubscribed = false
  /// Whether its network is gone.
  var isOffline = false
  var isPaused = false
  /// Whether the card is gone, and the channel was left because of it.
  var isUnsubscribing = false
  var isDone = false
  /// The message that it received last.
  var position: StreamPosition?
  /// Seconds by which its clock is ahead.
  var clockOffset: Double = 0
  /// When its activity is looked after next.
  var wakeAt: Double = .infinity
  /// From when on its latencies count: not while it catches up.
  var countsFrom: Double = .infinity
  var received: (sequence: Int, numbers: [Int], displayed: [Int], sequences: [Int]) = (0, [], [], [])
  var unanswered: [(sequence: Int, numbers: [Int], displayed: [Int])] = []
  var isGoingToAcknowledge = false
  var attempts = 0

  init(index: Int, settings: SoakSettings) { plan = SubscriberPlan(index: index, settings: settings) }
}

/// What one delivered text says, read once for all who receive it.
struct SoakText {
  enum Content {
    case message(SoakArrival, Payload, due: Double, sentAt: Double)
    case other(ServerFrame)
    case unreadable
  }

  let content: Content
}

extension SoakRun {
  /// Seconds between two acknowledgements of a device: at most some 2,000 a second from all.
  private var acknowledgementInterval: Double { max(1, Double(settings.subscribers) / 2_000) }

  // MARK: By plan

  func planNext(_ index: Int) {
    guard let (at, action) = devices[index].plan.next() else { return }
    devices[index].next = action
    agenda.add(.act(device: index), at: start + at)
  }

  func act(_ index: Int, at now: Double) {
    defer { planNext(index) }
    guard let action = devices[index].next else { return }
    switch action {
    case .arrive:
      disconnect(index, at: now)
      let plan = devices[index].plan
      devices[index] = SoakDevice(index: index, settings: settings)
      devices[index].plan = plan
      devices[index].activity = LiveActivity(startedAt: Date(timeIntervalSince1970: now))
      verifier.observe(.arrived(subscriber: index), at: now)
      connect(index, at: now)
    case .leave:
      count(fault: "left, and another came")
      disconnect(index, at: now)
      devices[index].activity = nil
    case .goOffline:
      count(fault: "went offline")
      disconnect(index, at: now)
      devices[index].isOffline = true
    case .comeBack:
      devices[index].isOffline = false
      connect(index, at: now)
    case .stopReading:
      guard let connection = devices[index].connection, devices[index].isSubscribed else { return }
      count(fault: "stopped reading")
      devices[index].isPaused = true
      swarm?.setPaused(true, connection)
      verifier.observe(.stalled(subscriber: index), at: now)
    case .readAgain:
      guard devices[index].isPaused else { return }
      devices[index].isPaused = false
      devices[index].countsFrom = now + verifier.tolerance.catchingUp
      if let connection = devices[index].connection { swarm?.setPaused(false, connection) }
      verifier.observe(.readAgain(subscriber: index), at: now)
    case .cut:
      guard devices[index].connection != nil else { return }
      count(fault: "connection cut")
      disconnect(index, at: now, reset: true)
      connect(index, at: now)
    case .jumpClock(let seconds):
      guard devices[index].activity != nil else { return }
      count(fault: "clock jumped")
      // What was due before the jump is due before it.
      wake(index, at: now)
      devices[index].clockOffset += seconds
      verifier.observe(.clockJumped(subscriber: index, to: now + devices[index].clockOffset), at: now)
      wake(index, at: now)
    case .dismiss:
      guard devices[index].activity != nil else { return }
      count(fault: "card dismissed")
      let clock = clock(index, now)
      let changes = devices[index].activity?.dismiss(at: clock) ?? []
      note(changes, index, at: now)
      unsubscribe(index)
    }
  }

  private func clock(_ index: Int, _ now: Double) -> Date {
    Date(timeIntervalSince1970: now + devices[index].clockOffset)
  }

  // MARK: Connection

  func connect(_ index: Int, at now: Double) {
    let device = devices[index]
    guard device.connection == nil, device.activity != nil, !device.isOffline, !device.isDone, let swarm
    else {
      return
    }
    var path = "/v1/channels/\(ChannelID.pathSegment(publishers[device.plan.channel].id))/events"
    if let position = device.position { path += "?epoch=\(position.epoch)&seq=\(position.sequence)" }
    devices[index].connection = swarm.connect(
      path: path, tag: index, isNarrow: device.plan.isSlow)
    if devices[index].connection == nil { retry(index, at: now) }
  }

  private func retry(_ index: Int, at now: Double) {
    devices[index].attempts += 1
    let wait = min(2, 0.1 * Double(1 << min(5, devices[index].attempts)))
    agenda.add(.reconnect(device: index), at: now + random.between(wait / 2, wait))
  }

  /// The device's side ends the connection.
  private func disconnect(_ index: Int, at now: Double, reset: Bool = false) {
    guard let connection = devices[index].connection else { return }
    swarm?.close(connection, reset: reset)
    connectionEnded(index, at: now)
  }

  private func connectionEnded(_ index: Int, at now: Double) {
    devices[index].connection = nil
    // A card that is gone needs no connection.
    if devices[index].activity?.state == .dismissed { devices[index].isDone = true }
    devices[index].isSubscribed = false
    devices[index].isUnsubscribing = false
    devices[index].isPaused = false
    devices[index].received = (0, [], [], [])
    devices[index].unanswered = []
    verifier.observe(.disconnected(subscriber: index), at: now)
  }

  func deviceOpened(_ index: Int, _ connection: Swarm.ID) {
    totals.connections += 1
    devices[index].attempts = 0
  }

  func deviceClosed(_ index: Int, wasOpen: Bool, at now: Double) {
    if !wasOpen { totals.failedConnections += 1 }
    connectionEnded(index, at: now)
    retry(index, at: now)
  }

  private func unsubscribe(_ index: Int) {
    verifier.observe(.leaving(subscriber: index), at: now)
    guard let connection = devices[index].connection else {
      // Without a connection there is nothing to leave: it just doesn't come back.
      devices[index].isDone = true
      return
    }
    guard devices[index].isSubscribed, !devices[index].isUnsubscribing else { return }
    devices[index].isUnsubscribing = true
    swarm?.send(ClientFrame.unsubscribe(publishers[devices[index].plan.channel].id), on: connection)
  }

  // MARK: Frames

  func deviceReceived(_ index: Int, _ text: ArraySlice<UInt8>, at now: Double) {
    let channel = devices[index].plan.channel
    let content = texts[channel].value(of: text) { bytes in SoakText(content: read(bytes, channel)) }.content
    switch content {
    case .message(let arrival, let payload, let due, let sentAt):
      totals.bytes += text.count
      take(arrival, payload, index, due: due, sentAt: sentAt, at: now)
    case .other(let frame): take(frame, index, at: now)
    case .unreadable:
      fail(
        "the server sent a frame that can't be read: \(String(decoding: text.prefix(200), as: UTF8.self).printable)"
      )
    }
  }

  private func read(_ bytes: [UInt8], _ channel: Int) -> SoakText.Content {
    guard let frame = try? ServerFrame.read(bytes) else { return .unreadable }
    guard case .message(let message) = frame else { return .other(frame) }
    let arrival = SoakArrival(message)
    let published = arrival.number.flatMap { publishers[channel].recent[$0] }
    return .message(
      arrival, message.payload, due: published?.due ?? message.sent, sentAt: published?.sentAt ?? message.sent
    )
  }

  private func take(_ frame: ServerFrame, _ index: Int, at now: Double) {
    switch frame {
    case .subscribed(let subscribed):
      totals.subscriptions += 1
      devices[index].isSubscribed = true
      devices[index].countsFrom = now
      verifier.observe(
        .subscribed(subscriber: index, position: subscribed.position, resumed: devices[index].position),
        at: now)
      // The card went while the connection came about.
      if devices[index].activity?.state == .dismissed { unsubscribe(index) }
    case .unsubscribed:
      devices[index].isDone = true
      devices[index].isSubscribed = false
      verifier.observe(.dismissed(subscriber: index), at: now)
    case .acknowledged(_, let sequence, _):
      guard let first = devices[index].unanswered.first, first.sequence == sequence else { return }
      devices[index].unanswered.removeFirst()
      verifier.observe(
        .confirmed(subscriber: index, numbers: first.numbers, displayed: first.displayed), at: now)
    default: break
    }
  }

  private func take(
    _ arrival: SoakArrival, _ payload: Payload, _ index: Int, due: Double, sentAt: Double, at now: Double
  ) {
    totals.deliveries += 1
    let clock = clock(index, now)
    let changes = devices[index].activity?.receive(payload, at: clock) ?? []
    var shown = Shown.nothing
    for change in changes {
      switch change.cause {
      case .update, .end: shown = .displayed
      case .ignoredOlder: shown = .ignoredOlder
      case .ignoredAfterEnd: shown = .ignoredAfterEnd
      default: break
      }
    }
    note(changes.filter { $0.cause == .staleDate }, index, at: now)
    verifier.observe(.received(subscriber: index, arrival, shown), at: now)
    devices[index].position = arrival.position
    if arrival.sent >= devices[index].countsFrom {
      // A window lasts longer than this: what took less came without one.
      let isImmediate = arrival.priority == .immediate && arrival.sent - sentAt < 0.5
      meter.arrived(due: isImmediate ? due : nil, sentAt: sentAt, letOut: arrival.sent, at: now)
    }
    meter.delivered += 1
    if let number = arrival.number {
      devices[index].received.sequence = max(devices[index].received.sequence, arrival.position.sequence)
      devices[index].received.numbers.append(number)
      if shown == .displayed {
        devices[index].received.displayed.append(number)
        devices[index].received.sequences.append(arrival.position.sequence)
      }
      if !devices[index].isGoingToAcknowledge {
        devices[index].isGoingToAcknowledge = true
        agenda.add(.acknowledge(device: index), at: now + acknowledgementInterval * random.between(0.5, 1.5))
      }
    }
    if devices[index].activity?.state == .dismissed { unsubscribe(index) }
    look(index, at: now)
  }

  func acknowledge(_ index: Int, at now: Double) {
    let received = devices[index].received
    guard !received.numbers.isEmpty, let connection = devices[index].connection, devices[index].isSubscribed,
      !devices[index].isUnsubscribing, !devices[index].isPaused
    else { return }
    devices[index].received = (received.sequence, [], [], [])
    // More than a frame may name are acknowledged, and not said to be displayed.
    let most = Limits.displayedPerAcknowledgement
    let displayed = Array(received.displayed.prefix(most))
    totals.acknowledgements += 1
    verifier.observe(
      .acknowledged(subscriber: index, numbers: received.numbers, displayed: displayed), at: now)
    devices[index].unanswered.append((received.sequence, received.numbers, displayed))
    swarm?.send(
      ClientFrame.acknowledge(
        publishers[devices[index].plan.channel].id, sequence: received.sequence,
        displayed: Array(received.sequences.prefix(most))), on: connection)
  }

  // MARK: The activity's own time

  func wake(_ index: Int, at now: Double) {
    devices[index].wakeAt = .infinity
    let clock = clock(index, now)
    let changes = devices[index].activity?.advance(to: clock) ?? []
    note(changes, index, at: now)
    if devices[index].activity?.state == .dismissed { unsubscribe(index) }
    look(index, at: now)
  }

  private func note(_ changes: [LiveActivity.Change], _ index: Int, at now: Double) {
    for change in changes where change.cause == .staleDate {
      totals.staleFlips += 1
      verifier.observe(
        .wentStale(
          subscriber: index, staleDate: change.at.timeIntervalSince1970,
          clock: clock(index, now).timeIntervalSince1970), at: now)
    }
  }

  /// Sees to it that the activity's next deadline is met. One that moved back is found when its old time comes.
  private func look(_ index: Int, at now: Double) {
    guard let deadline = devices[index].activity?.nextDeadline else { return }
    let at = deadline.timeIntervalSince1970 - devices[index].clockOffset
    guard at < devices[index].wakeAt, at < now + 86_400 else { return }
    devices[index].wakeAt = at
    agenda.add(.wake(device: index), at: max(at, now))
  }
}
