import BroadcastChannels
import Foundation
import LiveActivities
import Soak
import SubscriberProtocol
import SubscriberSwarm

/// What the devices receive, what their activities make of it, and what they acknowledge.
extension DeviceFleet {
  /// Seconds between two acknowledgements of a device: at most some 2,000 a second from all.
  private var acknowledgementInterval: Double { max(1, Double(settings.subscribers) / 2_000) }

  func received(_ index: Int, _ text: ArraySlice<UInt8>, at now: Double) {
    let channel = devices[index].plan.channel
    let content = texts[channel].value(of: text) { bytes in SoakText(content: Self.read(bytes)) }.content
    switch content {
    case .message(let arrival, let payload):
      totals.bytes += text.count
      take(arrival, payload, index, at: now)
    case .other(let frame): take(frame, index, at: now)
    case .unreadable:
      observe(
        .garbled(
          subscriber: devices[index].plan.index,
          problem: "it can't be read: \(String(decoding: text.prefix(200), as: UTF8.self).printable)"),
        at: now)
    }
  }

  private static func read(_ bytes: [UInt8]) -> SoakText.Content {
    guard let frame = try? ServerFrame.read(bytes) else { return .unreadable }
    guard case .message(let message) = frame else { return .other(frame) }
    return .message(SoakArrival(message), message.payload)
  }

  private func take(_ frame: ServerFrame, _ index: Int, at now: Double) {
    switch frame {
    case .subscribed(let subscribed):
      totals.subscriptions += 1
      devices[index].isSubscribed = true
      devices[index].countsFrom = now
      observe(
        .subscribed(
          subscriber: devices[index].plan.index, position: subscribed.position,
          resumed: devices[index].position),
        at: now)
      // The card went while the connection came about.
      if devices[index].activity?.state == .dismissed { unsubscribe(index) }
    case .unsubscribed:
      devices[index].isSubscribed = false
      guard devices[index].isUnsubscribing else {
        return observe(.unsubscribed(subscriber: devices[index].plan.index), at: now)
      }
      devices[index].isDone = true
      observe(.dismissed(subscriber: devices[index].plan.index), at: now)
    case .acknowledged(_, let sequence, _):
      guard let first = devices[index].unanswered.first, first.sequence == sequence else { return }
      devices[index].unanswered.removeFirst()
      observe(
        .confirmed(subscriber: devices[index].plan.index, numbers: first.numbers, displayed: first.displayed),
        at: now)
    case .goodbye(let seconds): devices[index].wait.isAsked(seconds)
    default: break
    }
  }

  private func take(
    _ arrival: SoakArrival, _ payload: Payload, _ index: Int, at now: Double
  ) {
    totals.deliveries += 1
    let clock = clock(index, now)
    let staleDate = devices[index].activity?.staleDate
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
    note(changes, of: staleDate, index, at: now)
    listener?.delivered(
      PartDelivery(
        subscriber: devices[index].plan.index, arrival: arrival, shown: shown,
        countsLatency: arrival.sent >= devices[index].countsFrom), at: now)
    devices[index].position = arrival.position
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
    guard devices[index].unanswered.count < SoakDevice.mostUnanswered else { return }
    // More than a frame may name are acknowledged, and not said to be displayed.
    let most = Limits.displayedPerAcknowledgement
    let displayed = Array(received.displayed.prefix(most))
    totals.acknowledgements += 1
    observe(
      .acknowledged(subscriber: devices[index].plan.index, numbers: received.numbers, displayed: displayed),
      at: now)
    devices[index].unanswered.append((received.sequence, received.numbers, displayed))
    swarm.send(
      ClientFrame.acknowledge(
        channels[devices[index].plan.channel].id, sequence: received.sequence,
        displayed: Array(received.sequences.prefix(most))), on: connection)
  }
}
