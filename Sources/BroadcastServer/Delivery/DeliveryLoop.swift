import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// One of the threads that carry messages to subscribers: a loop with connections, and nothing of the rules.
///
/// It does what the main loop orders, in that order, and tells it what clients say and what was counted, once a turn. It never
/// waits for the main loop, so that the main loop may wait for it. Everything here belongs to its thread.
final class DeliveryLoop {
  private let loop: EventLoop
  private let events: Mailbox<DeliveryEvent>
  private let host: ConnectionHost
  private let fanOut: FanOut
  private let sweep: KeepAliveSweep
  private var envoys: [Int: SessionEnvoy] = [:]
  private var shards: [ChannelID: ChannelShard] = [:]
  private var pending: [DeliveryEvent] = []
  /// Ledgers with something to tell.
  private var ledgers: [SumsLedger] = []
  private var isScheduled = false

  /// - Parameters:
  ///   - orders: what the main loop orders.
  ///   - events: what it is told.
  init(
    _ loop: EventLoop, options: ServerOptions, keepAlive: KeepAlive, orders: Mailbox<DeliveryOrder>,
    events: Mailbox<DeliveryEvent>
  ) {
    self.loop = loop
    self.events = events
    host = ConnectionHost(loop: loop, options: options)
    fanOut = FanOut(loop: loop)
    sweep = KeepAliveSweep(
      loop: loop, keepAlive: keepAlive, messageSeconds: options.handshakeTimeout)
    // The loop's end closes the mailbox, and lets go of this.
    loop.open(orders) { [self] orders in
      for order in orders { carryOut(order) }
    }
  }

  // MARK: Orders

  private func carryOut(_ order: DeliveryOrder) {
    switch order {
    case .session(let number, let order): if let envoy = envoys[number] { carryOut(order, envoy) }
    case .broadcast(let frame):
      if let shard = shards[frame.channel] { shard.send(Broadcast(frame, ledger: shard.ledger)) }
    case .adopt(let number, let socket): adopt(number, socket)
    case .closeChannel(let channel): shards.removeValue(forKey: channel)?.finishFanOut()
    case .finishFanOut: for shard in shards.values { shard.finishFanOut() }
    case .report(let number):
      tellSums()
      tell(.reported(number))
    case .keepAlive(let keepAlive): sweep.use(keepAlive)
    case .stop:
      flush()
      loop.stop()
    }
  }

  private func carryOut(_ order: SessionOrder, _ envoy: SessionEnvoy) {
    guard let receiver = envoy.receiver else { return }
    switch order {
    case .join(let channel, let alias, let sequence):
      receiver.join(shard(channel, alias: alias), at: sequence)
    case .leave(let channel, let isForgotten): receiver.leave(channel, isForgotten: isForgotten)
    case .catchUp(let channel): receiver.catchUp(channel)
    case .catchUpPublisher(let channel): receiver.catchUpPublisher(channel)
    case .stored(let frame):
      guard let shard = shards[frame.channel] else { return }
      receiver.deliver(stored: Broadcast(frame, ledger: shard.ledger))
    case .acknowledge(let acknowledgement, let channel): receiver.acknowledge(acknowledgement, of: channel)
    case .push(let push): receiver.push(push)
    case .send(let bytes): receiver.send(bytes)
    case .close(let code, let reason): receiver.close(code: code, reason: reason)
    case .closeWhenSent(let code, let reason): receiver.closeWhenSent(code: code, reason: reason)
    case .handled: envoy.handled()
    }
  }

  private func adopt(_ number: Int, _ socket: DetachedSocket) {
    let envoy = SessionEnvoy(number, loop: self)
    envoys[number] = envoy
    if host.adopt(socket, handler: Receiver(sweep: sweep, owner: envoy)) == nil { closed(number, code: nil) }
  }

  private func shard(_ channel: ChannelID, alias: String?) -> ChannelShard {
    if let shard = shards[channel] { return shard }
    let ledger = SumsLedger(channel) { [unowned self] ledger in
      ledgers.append(ledger)
      schedule()
    }
    let shard = ChannelShard(channel, alias: alias, ledger: ledger, fanOut: fanOut)
    shards[channel] = shard
    return shard
  }

  // MARK: Events

  /// Tells the main loop something, at the end of the turn.
  func tell(_ event: DeliveryEvent) {
    pending.append(event)
    schedule()
  }

  /// A connection is gone.
  func closed(_ number: Int, code: UInt16?) {
    envoys[number] = nil
    tell(.closed(number, code: code))
  }

  private func schedule() {
    guard !isScheduled else { return }
    isScheduled = true
    loop.atEndOfTurn { [weak self] in self?.flush() }
  }

  private func flush() {
    isScheduled = false
    tellSums()
    let events = pending
    pending = []
    self.events.post(events)
  }

  private func tellSums() {
    let ledgers = ledgers
    self.ledgers = []
    for ledger in ledgers { pending.append(.counted(ledger.channel, ledger.take())) }
  }
}

/// A session's end on a delivery loop: passes on what its client says.
final class SessionEnvoy: ReceiverOwner {
  private let number: Int
  private unowned let loop: DeliveryLoop
  private(set) var receiver: Receiver?
  /// Frames that the session has not dealt with yet.
  private var forwarded = 0

  init(_ number: Int, loop: DeliveryLoop) {
    self.number = number
    self.loop = loop
  }

  var isBusy: Bool { forwarded > 0 }

  func opened(_ receiver: Receiver) { self.receiver = receiver }

  func received(_ frame: Result<ClientFrame, FrameError>, bytes: Int) {
    forwarded += 1
    if forwarded == Limits.forwardedFrames { receiver?.pause(true) }
    loop.tell(.received(number, frame, bytes: bytes))
  }

  /// The session has dealt with a frame.
  func handled() {
    forwarded -= 1
    if forwarded == Limits.forwardedFrames / 2 { receiver?.pause(false) }
  }

  func pushed(_ push: UniqueID, _ fate: PushFate) { loop.tell(.pushed(number, push, fate)) }

  func closed(code: UInt16?) {
    receiver = nil
    loop.closed(number, code: code)
  }
}
