import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// One connected client: its subscriptions, and what waits for it while its connection is full.
///
/// A one-channel stream, as WebSocket or as server-sent events, is a session that begins with a subscription; a
/// multiplexed one begins empty. Both understand the same frames.
final class Session: StreamHandler, RegisteredStream, Subscriber, IntentListener, RegisteredDevice {
  struct Subscription {
    let room: ChannelRoom
    /// Where the room has this session.
    var place: Int
    var receipts: Receipts
  }

  /// Bytes that wait, and the broadcast or the push they belong to.
  struct Waiting {
    let bytes: OutgoingBytes
    let broadcast: Broadcast?
    let push: OutgoingPush?
  }

  /// What a subscriber that keeps up with its one channel has no use for. Most are such, and thousands.
  final class More {
    var subscriptions: [ChannelID: Subscription] = [:]
    var listening: [ChannelID: ChannelRoom] = [:]
    var outbox = Outbox<Waiting>()
    var stalledSince: Double?
    /// How the connection is closed once everything that waits was sent.
    var farewell: (code: UInt16, reason: String)?
    var cancelExpiry: (() -> Void)?
    /// What is left of the pressed buttons that it may pass on.
    var intents: TokenBucket?
    /// Where the initial subscription resumes.
    var since: StreamPosition?

    var isNeeded: Bool {
      !subscriptions.isEmpty || !listening.isEmpty || !outbox.isEmpty || farewell != nil
        || cancelExpiry != nil || intents != nil
    }
  }

  let services: SessionServices
  let caller: Caller
  let userAgent: String?
  let initialRoom: ChannelRoom?
  /// The first one. Further ones are in `more`.
  var subscription: Subscription?
  var more: More?
  /// From `opened` to `closed`.
  private(set) var connection: Connection?

  var stalledSince: Double? { more?.stalledSince }
  var lastPing: Double = 0
  var registryPlace: Int32?

  var hub: Hub { services.hub }
  var pushes: PushRegistry { services.pushes }
  var registry: SessionRegistry { services.registry }
  var access: AccessControl { services.access }

  /// - Parameters:
  ///   - caller: who it is for.
  ///   - userAgent: what the client calls itself, for the request log.
  ///   - initial: the subscription that it begins with.
  init(
    _ services: SessionServices, caller: Caller, userAgent: String?,
    initial: (room: ChannelRoom, since: StreamPosition?)? = nil
  ) {
    self.services = services
    self.caller = caller
    self.userAgent = userAgent
    initialRoom = initial?.room
    if let since = initial?.since { makeMore().since = since }
  }

  func makeMore() -> More {
    if let more { return more }
    let made = More()
    more = made
    return made
  }

  // MARK: Subscriptions

  var allSubscriptions: [Subscription] {
    [subscription].compactMap(\.self) + (more.map { Array($0.subscriptions.values) } ?? [])
  }

  var subscriptionCount: Int { (subscription == nil ? 0 : 1) + (more?.subscriptions.count ?? 0) }

  func subscription(of channel: ChannelID) -> Subscription? {
    if let subscription, subscription.room.id == channel { return subscription }
    return more?.subscriptions[channel]
  }

  /// Changes a subscription, if there is one.
  func changeSubscription<Result>(
    of channel: ChannelID, _ change: (inout Subscription) -> Result
  ) -> Result? {
    guard var changed = subscription(of: channel) else { return nil }
    defer {
      if subscription?.room.id == channel {
        subscription = changed
      } else {
        more?.subscriptions[channel] = changed
      }
    }
    return change(&changed)
  }

  func dropSubscription(of channel: ChannelID) {
    if subscription?.room.id == channel { subscription = nil }
    more?.subscriptions[channel] = nil
  }

  func moved(to place: Int, in room: ChannelRoom) {
    if subscription?.room === room {
      subscription?.place = place
    } else {
      more?.subscriptions[room.id]?.place = place
    }
  }

  // MARK: Connection

  func opened(_ connection: Connection) {
    self.connection = connection
    lastPing = connection.lastHeard
    registry.add(self)
    let cancelExpiry = caller.closeWhenExpired(in: hub.environment) { [weak self] in
      self?.close(code: $0, reason: $1)
    }
    if let cancelExpiry { makeMore().cancelExpiry = cancelExpiry }
    if connection.kind == .eventStream { enqueue(OutgoingBytes(raw: EventStreamText.retry)) }
    guard let initialRoom else { return }
    subscribe(to: initialRoom, since: more?.since, requestID: nil)
    tidy()
  }

  /// Lets go of what is not needed any more.
  func tidy() {
    if let more, !more.isNeeded { self.more = nil }
  }

  func received(text: [UInt8], _ connection: Connection) {
    do throws(FrameError) {
      let frame = try ClientFrame(text)
      if case .channel(let name, .publish(let publish)) = frame.subject {
        self.publish(publish, name, requestID: frame.requestID, bytes: text.count)
      } else {
        carryOut(frame)
      }
    } catch {
      switch error {
      case .refused(let frame, let type):
        if type == "publish" { log(refused: frame, bytes: text.count) }
        send(.error(frame))
      case .broken(let problem):
        send(.error(ErrorFrame(reason: "BrokenFrame", message: problem)))
        connection.close(code: 1007, reason: problem)
      }
    }
  }

  func writable(_ connection: Connection) {
    guard let more else { return }
    while let next = more.outbox.first, connection.send(next.bytes) {
      more.stalledSince = registry.now
      next.broadcast?.countWritten()
      next.push?.record?.isWritten = true
      more.outbox.removeFirst()
    }
    if more.outbox.isEmpty { more.stalledSince = nil }
    sayFarewell()
    tidy()
  }

  func closed(_ connection: Connection, code: UInt16?, reason: String) {
    for subscription in allSubscriptions { subscription.room.remove(at: subscription.place) }
    for room in more?.listening.values ?? [:].values { room.stopListening(self) }
    more?.cancelExpiry?()
    subscription = nil
    more = nil
    self.connection = nil
    hub.metrics.sessionClosed(code: code)
    pushes.closed(self)
    registry.remove(self)
  }

  func close(code: UInt16, reason: String) { connection?.close(code: code, reason: reason) }

  // MARK: Access

  /// The keys changed: whoever lost what the session lives on is closed.
  func recheckAccess() {
    do throws(AnswerError) {
      try access.recheck(caller)
      for subscription in allSubscriptions {
        try access.checkSubscribing(to: subscription.room, by: caller)
      }
      for room in more?.listening.values ?? [:].values {
        try access.checkPublishing(for: room.channel.settings.app, by: caller)
      }
    } catch {
      close(code: 4003, reason: error.message)
    }
  }

  // MARK: Sending

  func deliver(_ broadcast: Broadcast) {
    guard let connection else { return }
    let bytes = connection.kind == .webSocket ? broadcast.webSocketFrame : broadcast.event
    enqueue(bytes, broadcast)
  }

  func deliver(_ pass: FanOutPass, from next: Int, taken: Int) {
    guard let connection else { return }
    var broadcasts = pass.broadcasts.dropFirst(next - pass.numbers.lowerBound)
    if taken == 0, broadcasts.count == pass.broadcasts.count, broadcasts.count > 1,
      connection.kind == .webSocket, more?.outbox.isEmpty != false, connection.send(pass.message)
    {
      for broadcast in broadcasts { broadcast.countWritten() }
      return
    }
    // Of what the socket began to take, whole frames are done; the one that was cut is the connection's from now on.
    var taken = taken
    while taken > 0, let broadcast = broadcasts.popFirst() {
      let frame = broadcast.webSocketFrame
      if taken < frame.count { connection.finish(frame, from: taken) }
      broadcast.countWritten()
      taken = max(0, taken - frame.count)
    }
    for broadcast in broadcasts { deliver(broadcast) }
  }

  func push(_ push: OutgoingPush) { enqueue(push.frame, push: push) }

  func tokenMoved(_ token: PushToken) {
    send(.unregistered(token: token, reason: .elsewhere, requestID: nil))
  }

  func channelDeleted(_ room: ChannelRoom) {
    // What waits still goes out: deleting recalls no message, and the last one may be the end.
    dropSubscription(of: room.id)
    more?.listening[room.id] = nil
    send(.unsubscribed(channel: room.channel.id.base64, reason: "deleted", requestID: nil))
    if initialRoom === room {
      makeMore().farewell = (4004, "the channel was deleted")
      sayFarewell()
    }
  }

  func sayGoodbye(retryIn: Double) {
    guard let connection, connection.isOpen else { return }
    switch connection.kind {
    case .webSocket: send(.goodbye(retryIn: retryIn))
    case .eventStream: enqueue(OutgoingBytes(raw: EventStreamText.retry(after: retryIn)))
    }
    makeMore().farewell = (1012, ServerFrame.goodbyeReason(retryIn: retryIn))
    sayFarewell()
  }

  private func sayFarewell() {
    guard let more, let farewell = more.farewell, more.outbox.isEmpty else { return }
    close(code: farewell.code, reason: farewell.reason)
  }

  func send(_ frame: ServerFrame) {
    guard let connection else { return }
    switch connection.kind {
    case .webSocket: enqueue(OutgoingBytes(webSocketText: frame.text))
    case .eventStream:
      let name = if case .subscribed = frame { "subscribed" } else { "unsubscribed" }
      enqueue(OutgoingBytes(raw: EventStreamText.event(name, id: nil, data: frame.text)))
    }
  }

  private func enqueue(_ bytes: OutgoingBytes, _ broadcast: Broadcast? = nil, push: OutgoingPush? = nil) {
    guard let connection, connection.isOpen else { return }
    if more?.outbox.isEmpty != false, connection.send(bytes) {
      broadcast?.countWritten()
      push?.record?.isWritten = true
      return
    }
    let more = makeMore()
    more.stalledSince = more.stalledSince ?? registry.now
    let waiting = Waiting(bytes: bytes, broadcast: broadcast, push: push)
    let added = more.outbox.append(
      waiting, size: bytes.count, channel: broadcast?.channel ?? push?.inbox,
      isIrreplaceable: broadcast?.isIrreplaceable ?? push?.isIrreplaceable ?? true)
    added.replaced?.push?.record?.outcome = .superseded
    if let replaced = added.replaced?.broadcast {
      _ = changeSubscription(of: replaced.channel) { $0.receipts.conflated(replaced.position.sequence) }
      replaced.counts.conflated += 1
      replaced.counts.total.conflated += 1
    }
    guard added.fits else {
      connection.close(code: 1013, reason: "this connection is too slow for its channels; come back later")
      return
    }
  }

  func keepAlive() {
    guard let connection, connection.isOpen else { return }
    switch connection.kind {
    case .webSocket: connection.ping()
    case .eventStream:
      if more?.outbox.isEmpty != false { enqueue(OutgoingBytes(raw: EventStreamText.keepAlive)) }
    }
  }
}
