import BroadcastChannels
import Foundation
import SubscriberProtocol

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
  let ledger: RoomLedger
  /// Its subscribers on the main loop.
  let shard: ChannelShard

  /// What its devices may have been sent already.
  private(set) var sentSoFar: SentSoFar
  private var intents = IntentBoard()
  private var publishers: [ObjectIdentifier: any IntentListener] = [:]

  private unowned let hub: Hub
  /// How many subscribers each of the delivery loops has; empty as long as none has any.
  private var shares: [Int] = []
  private var noted: Set<String> = []
  private var timer: (deadline: Double, cancel: () -> Void)?
  private var isClosed = false

  init(channel: Channel, definition: ChannelDefinition, hub: Hub) {
    id = channel.id
    ledger = RoomLedger(metrics: hub.metrics)
    shard = ChannelShard(
      channel.id, alias: definition.alias?.name, ledger: ledger, fanOut: hub.fanOut)
    self.channel = channel
    self.definition = definition
    self.hub = hub
    sentSoFar = SentSoFar(stored: channel.stored)
  }

  // MARK: What the store has

  /// Whether nobody hears of a message before the store has it: policy 1.
  var isPromising: Bool { channel.settings.storagePolicy == .latest }

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

  /// On all loops.
  var subscriberCount: Int { shares.reduce(shard.count, +) }

  /// A delivery loop got a subscriber, or lost one.
  func changeShare(of loop: Int, by difference: Int) {
    if shares.count <= loop { shares += repeatElement(0, count: loop + 1 - shares.count) }
    shares[loop] += difference
  }

  var counts: DeliveryCounts { ledger.counts }

  /// What became of the last messages.
  var messages: MessageLog { ledger.messages }

  /// Sends what the rules let out to everybody who is here, see ``FanOut``.
  func carryOut(_ effects: [ChannelEffect]) {
    for effect in effects {
      switch effect {
      case .supersede(let message): ledger.messages.superseded(message.uniqueID)
      case .deliver(let delivery):
        let record = ledger.messages.delivered(delivery, subscribers: subscriberCount)
        if let waited = record.map({ delivery.sent.timeIntervalSince($0.acceptedAt) }), waited > 0 {
          hub.metrics.waited(seconds: waited)
        }
        sentSoFar.sent(delivery.message.payload)
        if subscriberCount > 0 { send(BroadcastFrame(delivery, channel: id), record) }
      }
    }
  }

  private func send(_ frame: BroadcastFrame, _ record: MessageRecord?) {
    // Other loops first: they begin while this one is still in its turn.
    for (loop, share) in shares.enumerated() where share > 0 { hub.loops?.post(.broadcast(frame), to: loop) }
    shard.send(Broadcast(frame, ledger: ledger, record: record))
  }

  /// A message was accepted, with what the rules did with it.
  func accepted(_ message: Message, _ outcome: Outcome, at now: Date) {
    ledger.messages.accepted(message.uniqueID, priority: message.priority, outcome: outcome, at: now)
  }

  /// The stored message, for one subscriber that comes or comes back.
  func broadcast(stored delivery: Delivery) -> Broadcast {
    Broadcast(
      BroadcastFrame(delivery, channel: id), ledger: ledger,
      record: messages[delivery.message.uniqueID.text])
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

  /// Ends the channel: its timer stops, and what waits goes out. Its sessions are told by the hub.
  func close() {
    isClosed = true
    timer?.cancel()
    timer = nil
    publishers = [:]
    shard.finishFanOut()
    hub.loops?.close(id, ledger)
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
      !isClosed && !isBeingDeleted && (hub.isStoreWorking || !isPromising)
    let deadline = mayAdvance ? channel.nextDeadline?.timeIntervalSinceReferenceDate : nil
    guard timer?.deadline != deadline else { return }
    timer?.cancel()
    timer = nil
    guard let deadline else { return }
    // No window is longer, but for a clock that was set back.
    let seconds = min(Limits.windowSeconds, max(0, deadline - hub.now.timeIntervalSinceReferenceDate))
    let cancel = hub.environment.schedule(seconds) { [weak self] in
      guard let self else { return }
      timer = nil
      hub.advance(self)
      scheduleAdvance()
    }
    timer = (deadline, cancel)
  }
}
