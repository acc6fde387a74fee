import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// One connected client: its subscriptions, and what waits for it while its connection is full.
///
/// A one-channel stream, as WebSocket or as server-sent events, is a session that begins with a subscription; a
/// multiplexed one begins empty. Both understand the same frames.
final class Session: StreamHandler, RegisteredStream, Subscriber, IntentListener, RegisteredDevice {
  private struct Subscription {
    let room: ChannelRoom
    var receipts: Receipts
  }

  /// Bytes that wait, and the broadcast or the push they belong to.
  private struct Waiting {
    let bytes: OutgoingBytes
    let broadcast: Broadcast?
    let push: OutgoingPush?
  }

  private let hub: Hub
  private let pushes: PushRegistry
  private let registry: SessionRegistry
  private let access: AccessControl
  private let caller: Caller
  private var cancelExpiry: (() -> Void)?
  private let requests: RequestLog
  private let userAgent: String?
  private let initial: (room: ChannelRoom, since: StreamPosition?)?
  private var subscriptions: [ChannelID: Subscription] = [:]
  private var listening: [ChannelID: ChannelRoom] = [:]
  private var outbox = Outbox<Waiting>()
  /// How the connection is closed once everything that waits was sent.
  private var farewell: (code: UInt16, reason: String)?
  private(set) weak var connection: Connection?
  private(set) var stalledSince: Double?

  var lastPing: Double = 0

  /// - Parameters:
  ///   - caller: who it is for.
  ///   - userAgent: what the client calls itself, for the request log.
  ///   - initial: the subscription that it begins with.
  init(
    hub: Hub, pushes: PushRegistry, registry: SessionRegistry, access: AccessControl, caller: Caller,
    requests: RequestLog, userAgent: String?,
    initial: (room: ChannelRoom, since: StreamPosition?)? = nil
  ) {
    self.hub = hub
    self.pushes = pushes
    self.registry = registry
    self.access = access
    self.caller = caller
    self.requests = requests
    self.userAgent = userAgent
    self.initial = initial
  }

  // MARK: Connection

  func opened(_ connection: Connection) {
    self.connection = connection
    lastPing = connection.lastHeard
    registry.add(self)
    cancelExpiry = caller.closeWhenExpired(in: hub.environment) { [weak self] in
      self?.close(code: $0, reason: $1)
    }
    if connection.kind == .eventStream { enqueue(OutgoingBytes(raw: EventStreamText.retry)) }
    if let initial { subscribe(to: initial.room, since: initial.since, requestID: nil) }
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
    while let next = outbox.first, connection.send(next.bytes) {
      if let broadcast = next.broadcast { countWritten(broadcast) }
      next.push?.record?.isWritten = true
      outbox.removeFirst()
    }
    stalledSince = outbox.isEmpty ? nil : registry.now
    sayFarewell()
  }

  func closed(_ connection: Connection, code: UInt16?, reason: String) {
    for subscription in subscriptions.values { subscription.room.remove(self) }
    for room in listening.values { room.stopListening(self) }
    subscriptions = [:]
    listening = [:]
    cancelExpiry?()
    pushes.closed(self)
    registry.remove(self)
  }

  func close(code: UInt16, reason: String) { connection?.close(code: code, reason: reason) }

  // MARK: Access

  /// The keys changed: whoever lost what the session lives on is closed.
  func recheckAccess() {
    do throws(AnswerError) {
      try access.recheck(caller)
      for subscription in subscriptions.values {
        try access.checkSubscribing(to: subscription.room, by: caller)
      }
      for room in listening.values {
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
        guard subscriptions[room.channel.id] != nil || subscriptions.count < Limits.subscriptionsPerSession
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
        guard listening[room.channel.id] != nil || listening.count < Limits.subscriptionsPerSession else {
          throw AnswerError(
            status: 400, reason: "TooManySubscriptions",
            message:
              "a session listens to at most \(Limits.subscriptionsPerSession) channels; open another one")
        }
        try access.checkPublishing(for: room.channel.settings.app, by: caller)
        send(.listening(channel: room.channel.id.base64, requestID: frame.requestID?.text))
        listening[room.channel.id] = room
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
    if subscriptions[channel.id] == nil {
      let receipts = Receipts(at: channel.position.sequence)
      subscriptions[channel.id] = Subscription(room: room, receipts: receipts)
    }
    room.add(self)
    send(
      .subscribed(
        SubscribedFrame(
          channel: channel.id.base64, alias: channel.alias?.name, position: channel.position,
          storagePolicy: channel.settings.storagePolicy, requestID: requestID?.text)))
    if let newest = channel.newest(after: since, at: hub.now) {
      subscriptions[channel.id]?.receipts.sent(stored: newest.position.sequence)
      deliver(room.broadcast(stored: newest))
    }
  }

  private func subscription(_ room: ChannelRoom) throws(AnswerError) -> Subscription {
    guard let subscription = subscriptions[room.channel.id] else {
      throw AnswerError(
        status: 400, reason: "NotSubscribed",
        message: "this session is not subscribed to the channel; subscribe first")
    }
    return subscription
  }

  private func unsubscribe(from room: ChannelRoom, requestID: RequestID?) throws(AnswerError) {
    _ = try subscription(room)
    subscriptions[room.channel.id] = nil
    room.remove(self)
    outbox.forget(room.channel.id)
    send(.unsubscribed(channel: room.channel.id.base64, reason: "requested", requestID: requestID?.text))
  }

  private func acknowledge(
    _ sequence: Int, displayed: [Int], of room: ChannelRoom, requestID: RequestID?
  ) throws(AnswerError) {
    var subscription = try subscription(room)
    let newest = room.channel.position.sequence
    guard sequence <= newest else {
      throw AnswerError(
        status: 400, reason: "BadRequestParams",
        message: "seq \(sequence) was not delivered yet; the channel's newest is \(newest)")
    }
    let news = subscription.receipts.acknowledge(sequence, displayed: displayed)
    subscriptions[room.channel.id] = subscription
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
    requests.add(logged, status: status, facts, clock: registry.now)
  }

  /// A `publish` frame was refused before its channel was looked for. A frame has no status: the log tells the one that
  /// the provider API would have answered.
  private func log(refused frame: ErrorFrame, bytes: Int) {
    var facts = RequestFacts()
    facts.channel = frame.channel
    facts.requestID = frame.requestID
    facts.refused(frame.reason, frame.message)
    let status = RefusalReason(rawValue: frame.reason)?.status ?? 400
    requests.add(logged(bytes), status: status, facts, clock: registry.now)
  }

  private func logged(_ bytes: Int) -> LoggedRequest {
    let name = initial.map { $0.room.channel.alias?.name ?? $0.room.channel.id.pathSegment }
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

  func push(_ push: OutgoingPush) { enqueue(push.frame, push: push) }

  func tokenMoved(_ token: PushToken) {
    send(.unregistered(token: token, reason: .elsewhere, requestID: nil))
  }

  func channelDeleted(_ room: ChannelRoom) {
    // What waits still goes out: deleting recalls no message, and the last one may be the end.
    subscriptions[room.channel.id] = nil
    listening[room.channel.id] = nil
    room.remove(self)
    send(.unsubscribed(channel: room.channel.id.base64, reason: "deleted", requestID: nil))
    if initial?.room === room {
      farewell = (4004, "the channel was deleted")
      sayFarewell()
    }
  }

  private func sayFarewell() {
    guard let farewell, outbox.isEmpty else { return }
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

  /// The socket took it: only now it counts as written.
  private func countWritten(_ broadcast: Broadcast) {
    broadcast.record?.written += 1
    broadcast.counts.written += 1
  }

  private func enqueue(_ bytes: OutgoingBytes, _ broadcast: Broadcast? = nil, push: OutgoingPush? = nil) {
    guard let connection, connection.isOpen else { return }
    if outbox.isEmpty, connection.send(bytes) {
      if let broadcast { countWritten(broadcast) }
      push?.record?.isWritten = true
      return
    }
    stalledSince = stalledSince ?? registry.now
    let waiting = Waiting(bytes: bytes, broadcast: broadcast, push: push)
    let added = outbox.append(
      waiting, size: bytes.count, channel: broadcast?.channel ?? push?.inbox,
      isIrreplaceable: broadcast?.isIrreplaceable ?? push?.isIrreplaceable ?? true)
    added.replaced?.push?.record?.outcome = .superseded
    if let replaced = added.replaced?.broadcast {
      subscriptions[replaced.channel]?.receipts.conflated(replaced.position.sequence)
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
    case .eventStream: if outbox.isEmpty { enqueue(OutgoingBytes(raw: EventStreamText.keepAlive)) }
    }
  }
}
