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
  /// Where connections count that they took it; nil once the message is forgotten.
  let record: MessageRecord?
  /// Where the channel's own counts are. Held, not the room: what waits in an outbox may outlive its channel, and a weak
  /// reference would cost each subscriber an atomic step.
  let counts: DeliveryCounts
  private let text: [UInt8]

  /// The WebSocket frame.
  private(set) lazy var webSocketFrame = OutgoingBytes(webSocketText: text)
  /// The same as an event of a `text/event-stream`.
  private(set) lazy var event = OutgoingBytes(
    raw: EventStreamText.event("message", id: position.description, data: text))

  init(_ delivery: Delivery, room: ChannelRoom, record: MessageRecord?) {
    self.channel = room.id
    counts = room.counts
    self.record = record
    position = delivery.position
    isIrreplaceable = delivery.message.payload.isIrreplaceable
    text = ServerFrame.message(delivery, channel: room.channel.id).text
  }

  /// Sockets took it: only now it counts as written.
  func countWritten(_ sockets: Int = 1) {
    record?.written += sockets
    counts.written += sockets
    counts.total.written += sockets
    counts.total.bytes += sockets * text.count
  }
}

/// A channel's deliveries, counted one a subscriber and message.
final class DeliveryCounts {
  /// Those of all channels.
  let total: DeliveryTotals

  init(total: DeliveryTotals) { self.total = total }

  /// Messages that sockets took.
  var written = 0
  /// Messages that a newer one replaced before a slow socket could take them.
  var conflated = 0
  /// Messages that subscribers said that they received.
  var acknowledged = 0
}

/// A channel in the hub: its rules, its subscribers, and its place in time.
final class ChannelRoom {
  let id: ChannelID
  /// The rules. Only the hub writes them.
  var channel: Channel {
    didSet { scheduleAdvance() }
  }
  private(set) var definition: ChannelDefinition

  /// What the store has of it, while messages that subscribers must not hear of yet wait for the store.
  private var kept: Channel.Checkpoint?
  private var held = 0
  /// What it was last stored with.
  var group: StoreGroup?
  /// The store is forgetting it: nothing changes any more.
  var isBeingDeleted = false {
    didSet { scheduleAdvance() }
  }

  /// What became of its deliveries.
  let counts: DeliveryCounts

  /// What its devices may have been sent already.
  private(set) var sentSoFar: SentSoFar
  /// What became of the last messages.
  private(set) var messages: MessageLog
  private var intents = IntentBoard()
  private var publishers: [ObjectIdentifier: any IntentListener] = [:]

  private unowned let hub: Hub
  /// At the same places as in `audience`.
  private var subscribers: [any Subscriber] = []
  private var audience: Audience
  /// What goes out to the subscribers, and what waits behind it. Broadcasts are numbered from 0, whatever their epoch.
  private var pass: FanOutPass?
  private var queue: [Broadcast] = []
  private var queuedBytes = 0
  private var nextNumber = 0
  /// Somebody was told of everything in front of this number, so that nothing there may be replaced.
  private var settledNumber = 0
  /// When the pass began, on the loop's clock.
  private var passBegan: Double = 0
  private var noted: Set<String> = []
  private var timer: (deadline: Double, cancel: () -> Void)?
  private var isClosed = false

  init(channel: Channel, definition: ChannelDefinition, hub: Hub) {
    id = channel.id
    audience = hub.fanOut.makeAudience()
    counts = DeliveryCounts(total: hub.metrics.deliveries)
    messages = MessageLog(counts: counts)
    self.channel = channel
    self.definition = definition
    self.hub = hub
    sentSoFar = SentSoFar(stored: channel.stored)
  }

  // MARK: What the store has

  /// The channel as subscribers may see it.
  var seen: Channel.Checkpoint { kept ?? channel.checkpoint }

  /// The channel changes, and the store doesn't have it yet.
  func hold(_ before: Channel.Checkpoint) {
    if held == 0 { kept = before }
    held += 1
  }

  /// The store has the first of what is held.
  func release(_ after: Channel.Checkpoint) {
    held -= 1
    kept = held == 0 ? nil : after
  }

  /// The last of what is held has not happened.
  func undo(to before: Channel.Checkpoint, forgetting id: RequestID?) {
    channel.restore(before, forgetting: id)
    held -= 1
    if held == 0 { kept = nil }
  }

  // MARK: Subscribers

  var subscriberCount: Int { subscribers.count }

  /// Adds a subscriber, which hears what is published from now on.
  ///
  /// - Returns: its place, which ``remove(at:)`` wants; the subscriber is told when it changes.
  func add(_ subscriber: any Subscriber) -> Int {
    subscribers.append(subscriber)
    audience.add(subscriber.connection, next: nextNumber)
    settledNumber = nextNumber
    return subscribers.count - 1
  }

  func remove(at place: Int) {
    for move in audience.remove(at: place) {
      subscribers[move.to] = subscribers[move.from]
      subscribers[move.to].moved(to: move.to, in: self)
    }
    subscribers.removeLast()
  }

  /// Gives a subscriber what was published before now and has not reached it yet.
  func catchUp(at place: Int) {
    let next = audience.catchUp(at: place, next: nextNumber)
    settledNumber = nextNumber
    for broadcast in ((pass?.broadcasts ?? []) + queue).suffix(nextNumber - next) {
      subscribers[place].deliver(broadcast)
    }
  }

  /// Sends what the rules let out to everybody who is here, see ``FanOut``.
  func carryOut(_ effects: [ChannelEffect]) {
    for effect in effects {
      switch effect {
      case .supersede(let message): messages.superseded(message.uniqueID)
      case .deliver(let delivery):
        let record = messages.delivered(delivery, subscribers: subscribers.count)
        if let waited = record.map({ delivery.sent.timeIntervalSince($0.acceptedAt) }), waited > 0 {
          hub.metrics.waited(seconds: waited)
        }
        let broadcast = Broadcast(delivery, room: self, record: record)
        sentSoFar.sent(delivery.message.payload)
        send(broadcast)
      }
    }
  }

  private func send(_ broadcast: Broadcast) {
    guard !subscribers.isEmpty else { return }
    let isWaiting = pass != nil || !queue.isEmpty
    queuedBytes += broadcast.webSocketFrame.count
    if queuedBytes > Limits.fanOutQueueBytes, conflate(with: broadcast) { return }
    queue.append(broadcast)
    nextNumber += 1
    if queuedBytes > Limits.fanOutQueueMostBytes {
      finishFanOut()
    } else if !isWaiting {
      hub.fanOut.add(self)
    }
  }

  /// The publisher outruns the fan-out: a message takes the place of the plain update that waits last, as it does in the
  /// outbox of a subscriber that is behind. Here all of them are.
  private func conflate(with broadcast: Broadcast) -> Bool {
    guard let last = queue.last, !last.isIrreplaceable, nextNumber > settledNumber else { return false }
    queue[queue.count - 1] = broadcast
    queuedBytes -= last.webSocketFrame.count
    counts.conflated += subscribers.count
    messages.conflated(last.position.sequence)
    return true
  }

  /// Sends everything that waits to everybody, at once.
  func finishFanOut() {
    guard pass != nil || !queue.isEmpty else { return }
    hub.fanOut.remove(self)
    _ = serve(until: .infinity, clock: { 0 })
  }

  /// Serves the next slice of subscribers.
  ///
  /// - Returns: whether nothing waits any more.
  func serve(until deadline: Double, clock: () -> Double) -> Bool {
    repeat {
      guard let pass = pass ?? nextPass() else { return true }
      var direct = 0
      let exceptions = audience.serve(
        pass.message, numbers: pass.numbers, until: deadline, direct: &direct)
      for broadcast in pass.broadcasts { broadcast.countWritten(direct) }
      for exception in exceptions {
        subscribers[exception.place].deliver(pass, from: exception.next, taken: exception.taken)
      }
      if audience.isServed {
        self.pass = nil
        hub.metrics.fannedOut(subscribers: subscribers.count, seconds: hub.fanOut.now - passBegan)
      }
    } while clock() < deadline
    return pass == nil && queue.isEmpty
  }

  private func nextPass() -> FanOutPass? {
    guard let first = queue.first else { return nil }
    var bytes = first.webSocketFrame.count
    let more = queue.dropFirst().prefix { broadcast in
      bytes += broadcast.webSocketFrame.count
      return bytes <= Limits.fanOutBytes
    }
    let next = FanOutPass([first] + more, from: nextNumber - queue.count)
    queue.removeFirst(next.broadcasts.count)
    queuedBytes -= next.message.count
    audience.begin()
    passBegan = hub.fanOut.now
    pass = next
    return next
  }

  /// A message was accepted, with what the rules did with it.
  func accepted(_ message: Message, _ outcome: Outcome, at now: Date) {
    messages.accepted(message.uniqueID, priority: message.priority, outcome: outcome, at: now)
  }

  /// The stored message, for one subscriber that comes or comes back.
  func broadcast(stored delivery: Delivery) -> Broadcast {
    Broadcast(delivery, room: self, record: messages[delivery.message.uniqueID.text])
  }

  // MARK: Intents

  /// A publisher listens from now on; it hears first what came while nobody did.
  func listen(_ publisher: any IntentListener, at now: Date) {
    publishers[ObjectIdentifier(publisher)] = publisher
    for frame in intents.recent(at: now) { publisher.hear(frame) }
  }

  func stopListening(_ publisher: any IntentListener) { publishers[ObjectIdentifier(publisher)] = nil }

  /// Passes a pressed button on, once.
  ///
  /// - Returns: whether it was known already.
  func pass(_ frame: IntentFrame, at now: Date) -> Bool {
    guard intents.take(frame, at: now) else { return true }
    for publisher in publishers.values { publisher.hear(frame) }
    return false
  }

  // MARK: Life

  func replaceDefinition(_ definition: ChannelDefinition, now: Date) {
    self.definition = definition
    channel.adopt(definition.settings, at: now)
  }

  /// Ends the channel: its timer stops, and its subscribers and who listens are told, each once.
  func close() {
    isClosed = true
    timer?.cancel()
    timer = nil
    finishFanOut()
    let gone = subscribers
    let here = Set(gone.map { ObjectIdentifier($0) })
    let listeners = publishers.values.filter { !here.contains(ObjectIdentifier($0)) }
    subscribers = []
    audience = hub.fanOut.makeAudience()
    publishers = [:]
    for subscriber in gone { subscriber.channelDeleted(self) }
    for publisher in listeners { publisher.channelDeleted(self) }
  }

  /// Whether a kind of note is new for this channel. The keys of a payload are the publisher's, so there is a bound.
  func isFirst(_ kind: String) -> Bool {
    noted.count < Limits.notesPerChannel && noted.insert(kind).inserted
  }

  /// Whether a finding is the first of its kind and key.
  func isFirst(_ finding: Finding) -> Bool { isFirst("\(finding.kind) \(finding.key)") }

  // MARK: Time

  func scheduleAdvance() {
    // What has to be stored first waits for a store that works.
    let mayAdvance =
      !isClosed && !isBeingDeleted && (hub.isStoreWorking || channel.settings.storagePolicy == .none)
    let deadline = mayAdvance ? channel.nextDeadline?.timeIntervalSinceReferenceDate : nil
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
