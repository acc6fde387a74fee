import BroadcastChannels
import Foundation
import LiveActivities
import Soak
import SubscriberProtocol
import SubscriberSwarm

/// What happens to the devices by plan, and their activities' own time.
extension DeviceFleet {
  private static let tolerance = Verifier.Tolerance()

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
      devices[index] = SoakDevice(index: devices[index].plan.index, settings: settings)
      devices[index].plan = plan
      devices[index].activity = LiveActivity(startedAt: Date(timeIntervalSince1970: now))
      observe(.arrived(subscriber: devices[index].plan.index), at: now)
      connect(index, at: now)
    case .leave:
      count(fault: "left, and another came")
      disconnect(index, at: now)
      devices[index].activity = nil
      observe(.away(subscriber: devices[index].plan.index), at: now)
    case .goOffline:
      count(fault: "went offline")
      disconnect(index, at: now)
      devices[index].isOffline = true
      observe(.away(subscriber: devices[index].plan.index), at: now)
    case .comeBack:
      devices[index].isOffline = false
      connect(index, at: now)
    case .stopReading:
      guard let connection = devices[index].connection, devices[index].isSubscribed else { return }
      count(fault: "stopped reading")
      devices[index].isPaused = true
      swarm.setPaused(true, connection)
      observe(.stalled(subscriber: devices[index].plan.index), at: now)
    case .readAgain:
      guard devices[index].isPaused else { return }
      devices[index].isPaused = false
      devices[index].countsFrom = now + Self.tolerance.catchingUp
      if let connection = devices[index].connection { swarm.setPaused(false, connection) }
      observe(.readAgain(subscriber: devices[index].plan.index), at: now)
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
      observe(
        .clockJumped(subscriber: devices[index].plan.index, to: now + devices[index].clockOffset), at: now)
      wake(index, at: now)
    case .dismiss:
      guard devices[index].activity != nil else { return }
      count(fault: "card dismissed")
      let clock = clock(index, now)
      let staleDate = devices[index].activity?.staleDate
      let changes = devices[index].activity?.dismiss(at: clock) ?? []
      note(changes, of: staleDate, index, at: now)
      observe(.leaving(subscriber: devices[index].plan.index), at: now)
      // The system takes its time: what arrives until then is shown to nobody.
      agenda.add(.unsubscribe(device: index), at: now + random.between(0, 1))
    }
  }

  func clock(_ index: Int, _ now: Double) -> Date {
    Date(timeIntervalSince1970: now + devices[index].clockOffset)
  }

  // MARK: Leaving

  func unsubscribe(_ index: Int) {
    observe(.leaving(subscriber: devices[index].plan.index), at: now)
    guard let connection = devices[index].connection else {
      // Without a connection there is nothing to leave: it just doesn't come back.
      devices[index].isDone = true
      return
    }
    guard devices[index].isSubscribed, !devices[index].isUnsubscribing else { return }
    devices[index].isUnsubscribing = true
    swarm.send(ClientFrame.unsubscribe(channels[devices[index].plan.channel].id), on: connection)
  }

  // MARK: The activity's own time

  func wake(_ index: Int, at now: Double) {
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
      observe(
        .wentStale(
          subscriber: devices[index].plan.index, staleDate: staleDate.timeIntervalSince1970,
          clock: clock(index, now).timeIntervalSince1970), at: now)
    }
  }

  /// Sees to it that the activity's next deadline is met. One that moved back is found when its old time comes.
  func look(_ index: Int, at now: Double) {
    guard let deadline = devices[index].activity?.nextDeadline else { return }
    let at = deadline.timeIntervalSince1970 - devices[index].clockOffset
    if let due = wakes.plan(index, for: at, at: now) { agenda.add(.wake(device: index), at: due) }
  }
}
