import BroadcastChannels
import BroadcastClient
import EventLoop
import LiveActivities

/// A device's subscriptions, which end and begin again with its network.
///
/// A `ChannelSubscriber` resumes all its channels at one position, so channels that stand at different ones get
/// connections of their own; new ones share one.
final class Subscriptions {
  private let loop: EventLoop
  private let server: ServerAccess
  private let waits: Bool
  private let handler: (SubscriberEvent) -> Void
  private var subscribers: [(names: Set<String>, subscriber: ChannelSubscriber)] = []

  init(
    loop: EventLoop, server: ServerAccess, waits: Bool, handler: @escaping (SubscriberEvent) -> Void
  ) {
    self.loop = loop
    self.server = server
    self.waits = waits
    self.handler = handler
  }

  /// Subscribes.
  ///
  /// - Parameters:
  ///   - positions: where each channel is resumed; nil for a new subscription.
  ///   - isReturn: whether they stood before: then a server that isn't there now is waited for.
  func open(_ positions: [(name: String, position: StreamPosition?)], isReturn: Bool = false) {
    close()
    for (position, group) in Dictionary(grouping: positions, by: \.position) {
      let names = group.map(\.name)
      let subscriber = ChannelSubscriber(
        loop: loop, server: server, channels: names, since: position, waits: waits || isReturn,
        handler: handler)
      subscribers.append((Set(names), subscriber))
    }
  }

  /// Subscribes to one more channel, from now on.
  func add(_ name: String) {
    let subscriber = ChannelSubscriber(
      loop: loop, server: server, channels: [name], waits: waits, handler: handler)
    subscribers.append(([name], subscriber))
  }

  /// Says that a message was displayed.
  func displayed(_ sequence: Int, of name: String) {
    for (names, subscriber) in subscribers where names.contains(name) {
      subscriber.displayed(sequence, of: name)
    }
  }

  /// Says that what was displayed last has become stale.
  func becameStale(_ name: String) {
    for (names, subscriber) in subscribers where names.contains(name) { subscriber.becameStale(name) }
  }

  /// Passes a pressed button on; while there is no connection it is lost, and sent again with the next one.
  func send(_ intent: Device.Intent) {
    for (names, subscriber) in subscribers where names.contains(intent.name) {
      subscriber.send(intent: intent.id, action: intent.action, of: intent.name)
    }
  }

  /// Ends one subscription for good.
  func unsubscribe(_ name: String) {
    for (names, subscriber) in subscribers where names.contains(name) { subscriber.unsubscribe(name) }
  }

  /// Closes every connection.
  func close() {
    for (_, subscriber) in subscribers { subscriber.close() }
    subscribers = []
  }
}
