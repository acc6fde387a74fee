import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// What all sessions of a server share.
final class SessionServices {
  let hub: Hub
  let pushes: PushRegistry
  let registry: SessionRegistry
  let access: AccessControl
  let requests: RequestLog

  init(
    hub: Hub, pushes: PushRegistry, registry: SessionRegistry, access: AccessControl, requests: RequestLog
  ) {
    self.hub = hub
    self.pushes = pushes
    self.registry = registry
    self.access = access
    self.requests = requests
  }
}

/// One connected client: its subscriptions, and what waits for it while its connection is full.
///
/// A one-channel stream, as WebSocket or as server-sent events, is a session that begins with a subscription; a
/// multiplexed one begins empty. Both understand the same frames.
final class Session: StreamHandler, RegisteredStream, Subscriber, IntentListener, RegisteredDevice {
  private struct Subscription {
    let room: ChannelRoom
    /// Where the room has this session.
    var place: Int
    var receipts: Receipts
  }

  /// Bytes that wait, and the broadcast or the push they belong to.
  private struct Waiting {
    let bytes: OutgoingBytes
    let broadcast: Broadcast?
    let push: OutgoingPush?
  }

  /// What a subscriber that keeps up with its one channel has no use for. Most are such, and thousands.
  private final class More {
    var subscriptions: [ChannelID: Subscription] = [:]
    var listening: [ChannelID: ChannelRoom] = [:]
    var outbox = Outbox<Waiting>()
    var stalledSince: Double?
    /// How the connection is closed once everything that waits was sent.
    var farewell: (code: UInt16, reason: String)?
    var cancelExpiry: (() -> Void)?
    /// Where the initial subscription resumes.
    var since: StreamPosition?

    var isNeeded: Bool {
      !subscriptions.isEmpty || !listening.isEmpty || !outbox.isEmpty || farewell != nil
        || cancelExpiry != nil
    }
  }

  private let services: SessionServices
  private let caller: Caller
  private let userAgent: String?
  private let initialRoom: ChannelRoom?
  /// The first one. Further ones are in `more`.
  private var subscription: Subscription?
  private var more: More?
  /// From `opened` to `closed`.
  private(set) var connection: Connection?

  var stalledSince: Double? { more?.stalledSince }
  var lastPing: Double = 0
  var registryPlace: Int32?

  private var hub: Hub { services.hub }
  private var pushes: PushRegistry { services.pushes }
  private var registry: SessionRegistry { services.registry }
  private var access: AccessControl { services.access }

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

  private func makeMore() -> More {
    if let more { return more }
    let made = More()
    more = made
    return made
  }

  // MARK: Subscriptions

  private var allSubscriptions: [Subscription] {
    [subscription].compactMap(\.self) + (more.map { Array($0.subscriptions.values) } ?? [])
  }

  private var subscriptionCount: Int { (subscription == nil ? 0 : 1) + (more?.subscriptions.count ?? 0) }

  private func subscription(of channel: ChannelID) -> Subscription? {
    if let subscription, subscription.room.id == channel { return subscription }
    return more?.subscriptions[channel]
  }

  /// Changes a subscription, if there is one.
  private func changeSubscription<Result>(
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

  private func dropSubscription(of channel: ChannelID) {
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
  private func tidy() {
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

  // MARK: Requests

  private func carryOut(_ frame: ClientFrame) {
    switch frame.subject {
    case .channel(let name, let request): carryOut(request, name, frame)
    case .device(let request): carryOut(request, requestID: frame.requestID?.text)
    }
  }

  private func carryOut(_ request: ClientFrame.Request, _ name: String, _ frame: ClientFrame) {
    do throws(AnswerError) {
      let room = try room(name)
      switch request {
      case .subscribe(let since):
        guard subscription(of: room.id) != nil || subscriptionCount < Limits.subscriptionsPerSession
        else {
          throw AnswerError(
            status: 400, reason: "TooManySubscriptions",
            message:
              "a session subscribes to at most \(Limits.subscriptionsPerSession) channels; open another one")
        }
        try access.checkSubscribing(to: room, by: caller)
        subscribe(to: room, since: since, requestID: frame.requestID)
      case .unsubscribe: try unsubscribe(from: room, requestID: frame.requestID)
      case .acknowledge(let sequence, let displayed):
        try acknowledge(sequence, displayed: displayed, of: room, requestID: frame.requestID)
      case .intent(let action):
        try access.checkSubscribing(to: room, by: caller)
        try pass(action, intentID: frame.requestID?.text ?? "", to: room)
      case .listen:
        let more = makeMore()
        guard more.listening[room.id] != nil || more.listening.count < Limits.subscriptionsPerSession else {
          throw AnswerError(
            status: 400, reason: "TooManySubscriptions",
            message:
              "a session listens to at most \(Limits.subscriptionsPerSession) channels; open another one")
        }
        try access.checkPublishing(for: room.channel.settings.app, by: caller)
        send(.listening(channel: room.channel.id.base64, requestID: frame.requestID?.text))
        more.listening[room.id] = room
        room.listen(self, at: hub.now)
      // Carried out apart: it goes into the request log.
      case .publish: break
      }
    } catch {
      send(.error(error.frame(channel: name, requestID: frame.requestID?.text)))
    }
  }

  private func carryOut(_ request: DeviceRequest, requestID: String?) {
    do throws(AnswerError) {
      switch request {
      case .register(let registration):
        try pushes.register(registration, for: self, requestID: requestID) { send(.registered($0)) }
      case .rotate(let token):
        send(.registered(try pushes.rotate(token, of: self, requestID: requestID)))
      case .unregister(let token, let reason):
        try pushes.unregister(token, of: self, reason: reason)
        send(.unregistered(token: token, reason: .requested, requestID: requestID))
      case .acknowledge(let token, let uniqueID, let isDisplayed):
        try pushes.acknowledge(token, uniqueID: uniqueID, isDisplayed: isDisplayed, of: self)
        send(.pushAcknowledged(token: token, uniqueID: uniqueID, requestID: requestID))
      }
    } catch {
      send(.error(error.frame(channel: nil, requestID: requestID)))
    }
  }

  private func room(_ name: String) throws(AnswerError) -> ChannelRoom {
    do throws(Refusal) { return try hub.room(named: name) } catch { throw AnswerError(error) }
  }

  /// Subscribes, or resumes: the newest stored message comes right after the answer, if it is newer.
  private func subscribe(to room: ChannelRoom, since: StreamPosition?, requestID: RequestID?) {
    let channel = room.channel
    // Subscribing anew goes on: what was counted for this session isn't counted again.
    if subscription(of: room.id) == nil {
      let receipts = Receipts(at: channel.position.sequence)
      let new = Subscription(room: room, place: room.add(self), receipts: receipts)
      if subscription == nil { subscription = new } else { makeMore().subscriptions[room.id] = new }
    }
    send(
      .subscribed(
        SubscribedFrame(
          channel: channel.id.base64, alias: channel.alias?.name, position: channel.position,
          storagePolicy: channel.settings.storagePolicy, requestID: requestID?.text)))
    if let newest = channel.newest(after: since, at: hub.now) {
      _ = changeSubscription(of: room.id) { $0.receipts.sent(stored: newest.position.sequence) }
      deliver(room.broadcast(stored: newest))
    }
  }

  private func subscription(_ room: ChannelRoom) throws(AnswerError) -> Subscription {
    guard let subscription = subscription(of: room.id) else {
      throw AnswerError(
        status: 400, reason: "NotSubscribed",
        message: "this session is not subscribed to the channel; subscribe first")
    }
    return subscription
  }

  private func unsubscribe(from room: ChannelRoom, requestID: RequestID?) throws(AnswerError) {
    let subscription = try subscription(room)
    room.catchUp(at: subscription.place)
    dropSubscription(of: room.id)
    room.remove(at: subscription.place)
    more?.outbox.forget(room.id)
    send(.unsubscribed(channel: room.channel.id.base64, reason: "requested", requestID: requestID?.text))
  }

  private func acknowledge(
    _ sequence: Int, displayed: [Int], of room: ChannelRoom, requestID: RequestID?
  ) throws(AnswerError) {
    _ = try subscription(room)
    let newest = room.channel.position.sequence
    guard sequence <= newest else {
      throw AnswerError(
        status: 400, reason: "BadRequestParams",
        message: "seq \(sequence) was not delivered yet; the channel's newest is \(newest)")
    }
    let news = changeSubscription(of: room.id) { $0.receipts.acknowledge(sequence, displayed: displayed) }
    guard let news else { return }
    room.counts.acknowledged += news.count
    for span in news.received { room.messages.acknowledge(span, but: news.skipped) }
    for number in news.displayed { room.messages.display(number) }
    send(
      .acknowledged(channel: room.channel.id.base64, sequence: sequence, requestID: requestID?.text))
  }

  private func pass(_ name: String, intentID: String, to room: ChannelRoom) throws(AnswerError) {
    let actions = room.definition.actions
    guard let action = actions.first(where: { $0.name == name }) else {
      let hint =
        actions.isEmpty ? "; it declares none" : Suggestion.phrase(for: name, among: actions.map(\.name))
      throw AnswerError(
        status: 400, reason: "UnknownAction",
        message: "\"\(name)\" is no action of the channel's definition\(hint)")
    }
    let channel = room.channel.id.base64
    let frame = IntentFrame(
      channel: channel, action: name, property: action.property, value: action.value, intentID: intentID)
    let isRepetition = room.pass(frame, at: hub.now)
    send(.intentAccepted(channel: channel, intentID: intentID, isRepetition: isRepetition))
  }

  func hear(_ intent: IntentFrame) { send(.intent(intent)) }

  private func publish(_ publish: ClientFrame.Publish, _ name: String, requestID: RequestID?, bytes: Int) {
    let logged = logged(bytes)
    var facts = RequestFacts()
    facts.channel = name
    facts.requestID = requestID?.text
    var status = 200
    do throws(AnswerError) {
      let room = try room(name)
      facts.found(room)
      try access.checkPublishing(for: room.channel.settings.app, by: caller)
      let publication = try hub.publish(
        publish.payload, requestID: requestID, priority: publish.priority,
        expiration: publish.expiration, into: room)
      facts.publication = publication
      // Who hears its own channel has the message before the answer, and not at the end of the turn.
      if let own = subscription(of: room.id) { room.catchUp(at: own.place) }
      let result = publication.result
      send(
        .published(
          PublishedFrame(
            channel: room.channel.id.base64, requestID: requestID?.text,
            uniqueID: result.uniqueID.text, outcome: result.outcome,
            budget: JSONText(compacting: room.channel.budgetReport(at: hub.now).json.utf8),
            isRepetition: result.isRepetition)))
    } catch {
      facts.refused(error)
      status = error.status
      send(.error(error.frame(channel: name, requestID: requestID?.text)))
    }
    services.requests.add(logged, status: status, facts, clock: registry.now)
  }

  /// A `publish` frame was refused before its channel was looked for. A frame has no status: the log tells the one that
  /// the provider API would have answered.
  private func log(refused frame: ErrorFrame, bytes: Int) {
    var facts = RequestFacts()
    facts.channel = frame.channel
    facts.requestID = frame.requestID
    facts.refused(frame.reason, frame.message)
    let status = RefusalReason(rawValue: frame.reason)?.status ?? 400
    services.requests.add(logged(bytes), status: status, facts, clock: registry.now)
  }

  private func logged(_ bytes: Int) -> LoggedRequest {
    let name = initialRoom.map { $0.channel.alias?.name ?? $0.id.pathSegment }
    return LoggedRequest(
      frame: bytes, path: name.map { "/v1/channels/\($0)/events" } ?? "/v1/events",
      remoteAddress: connection?.remoteAddress ?? "", userAgent: userAgent, at: hub.now, clock: registry.now)
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

  private func sayFarewell() {
    guard let more, let farewell = more.farewell, more.outbox.isEmpty else { return }
    close(code: farewell.code, reason: farewell.reason)
  }

  private func send(_ frame: ServerFrame) {
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
