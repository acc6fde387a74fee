import BroadcastChannels
import Foundation
import LiveActivities
import Soak
import SubscriberProtocol
import SubscriberSwarm

/// What happens to the devices by plan, their connections, and their activities' own time.
extension SoakRun {

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
      let staleDate = devices[index].activity?.staleDate
      let changes = devices[index].activity?.dismiss(at: clock) ?? []
      note(changes, of: staleDate, index, at: now)
      unsubscribe(index)
    }
  }

  func clock(_ index: Int, _ now: Double) -> Date {
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

  func unsubscribe(_ index: Int) {
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

  // MARK: The activity's own time

  func wake(_ index: Int, at now: Double) {
    devices[index].wakeAt = .infinity
    let clock = clock(index, now)
    let staleDate = devices[index].activity?.staleDate
    let changes = devices[index].activity?.advance(to: clock) ?? []
    note(changes, of: staleDate, index, at: now)
    if devices[index].activity?.state == .dismissed { unsubscribe(index) }
    look(index, at: now)
  }

  /// Tells of a flip to stale, with the stale date that the message had: the change's own time is what is to be verified.
  func note(_ changes: [LiveActivity.Change], of staleDate: Date?, _ index: Int, at now: Double) {
    guard let staleDate else { return }
    for change in changes where change.cause == .staleDate {
      totals.staleFlips += 1
      verifier.observe(
        .wentStale(
          subscriber: index, staleDate: staleDate.timeIntervalSince1970,
          clock: clock(index, now).timeIntervalSince1970), at: now)
    }
  }

  /// Sees to it that the activity's next deadline is met. One that moved back is found when its old time comes.
  func look(_ index: Int, at now: Double) {
    guard let deadline = devices[index].activity?.nextDeadline else { return }
    let at = deadline.timeIntervalSince1970 - devices[index].clockOffset
    guard at < devices[index].wakeAt, at < now + 86_400 else { return }
    devices[index].wakeAt = at
    agenda.add(.wake(device: index), at: max(at, now))
  }
}
