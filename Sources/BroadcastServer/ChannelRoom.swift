import BroadcastChannels
import EventLoop
import Foundation
import SubscriberProtocol

/// One delivery on its way to everybody: encoded once, whatever the number of subscribers.
final class Broadcast {
  let channel: ChannelID
  let position: StreamPosition
  /// Alerts and ends are never conflated away.
  let isIrreplaceable: Bool
  private let text: [UInt8]

  /// The WebSocket frame.
  private(set) lazy var webSocketFrame = OutgoingBytes(webSocketText: text)
  /// The same as an event of a `text/event-stream`.
  private(set) lazy var event = OutgoingBytes(
    raw: EventStreamText.event("message", id: position.description, data: text))

  init(_ delivery: Delivery, channel: ChannelID) {
    self.channel = channel
    position = delivery.position
    isIrreplaceable = delivery.message.payload.isIrreplaceable
    text = ServerFrame.message(delivery, channel: channel).text
  }
}

/// A channel in the hub: its rules, its subscribers, and its place in time.
final class ChannelRoom {
  /// The rules. Only the hub writes them.
  var channel: Channel {
    didSet { scheduleAdvance() }
  }
  private(set) var definition: ChannelDefinition

  /// Frames handed to connections, one a subscriber and delivery.
  var written = 0
  /// The highest sequence numbers that subscribers acknowledged, added up.
  var acknowledged = 0

  private unowned let hub: Hub
  private var subscribers: [any Subscriber] = []
  private var places: [ObjectIdentifier: Int] = [:]
  private var noted: Set<String> = []
  private var timer: (deadline: Double, cancel: () -> Void)?
  private var isClosed = false

  init(channel: Channel, definition: ChannelDefinition, hub: Hub) {
    self.channel = channel
    self.definition = definition
    self.hub = hub
  }

  // MARK: Subscribers

  var subscriberCount: Int { subscribers.count }

  func add(_ subscriber: any Subscriber) {
    guard places[ObjectIdentifier(subscriber)] == nil else { return }
    places[ObjectIdentifier(subscriber)] = subscribers.count
    subscribers.append(subscriber)
  }

  func remove(_ subscriber: any Subscriber) {
    guard let place = places.removeValue(forKey: ObjectIdentifier(subscriber)) else { return }
    let last = subscribers.removeLast()
    if place < subscribers.count {
      subscribers[place] = last
      places[ObjectIdentifier(last)] = place
    }
  }

  /// Sends what the rules let out to everybody who is here.
  func carryOut(_ effects: [ChannelEffect]) {
    for case .deliver(let delivery) in effects {
      let broadcast = Broadcast(delivery, channel: channel.id)
      for subscriber in subscribers { subscriber.deliver(broadcast) }
    }
  }

  // MARK: Life

  func replaceDefinition(_ definition: ChannelDefinition, now: Date) {
    self.definition = definition
    channel = Channel(
      id: channel.id, alias: definition.alias, settings: definition.settings, position: channel.position,
      stored: channel.stored, now: now)
  }

  /// Ends the channel: its timer stops and its subscribers are told.
  func close() {
    isClosed = true
    timer?.cancel()
    timer = nil
    for subscriber in subscribers { subscriber.channelDeleted(self) }
    subscribers = []
    places = [:]
  }

  /// Whether a kind of note is new for this channel. The keys of a payload are the publisher's, so there is a bound.
  func isFirst(_ kind: String) -> Bool {
    noted.count < Limits.notesPerChannel && noted.insert(kind).inserted
  }

  /// Whether a finding is the first of its kind and key.
  func isFirst(_ finding: Finding) -> Bool { isFirst("\(finding.kind) \(finding.key)") }

  // MARK: Time

  private func scheduleAdvance() {
    let deadline = isClosed ? nil : channel.nextDeadline?.timeIntervalSinceReferenceDate
    guard timer?.deadline != deadline else { return }
    timer?.cancel()
    timer = nil
    guard let deadline else { return }
    let seconds = max(0, deadline - hub.now.timeIntervalSinceReferenceDate)
    let cancel = hub.environment.schedule(seconds) { [weak self] in
      guard let self else { return }
      timer = nil
      hub.advance(self)
      scheduleAdvance()
    }
    timer = (deadline, cancel)
  }
}
