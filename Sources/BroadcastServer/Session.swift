import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// One connected client: its subscriptions, and what waits for it while its connection is full.
///
/// A one-channel stream, as WebSocket or as server-sent events, is a session that begins with a subscription; a
/// multiplexed one begins empty. Both understand the same frames.
final class Session: StreamHandler, Subscriber {
  private struct Subscription {
    let room: ChannelRoom
    var acknowledged: Int
  }

  private let hub: Hub
  private let registry: SessionRegistry
  private let initial: (room: ChannelRoom, since: StreamPosition?)?
  private var subscriptions: [ChannelID: Subscription] = [:]
  private var outbox = Outbox<OutgoingBytes>()
  /// How the connection is closed once everything that waits was sent.
  private var farewell: (code: UInt16, reason: String)?
  private(set) weak var connection: Connection?

  /// When the last ping went out, in the loop's seconds.
  var lastPing: Double = 0

  init(hub: Hub, registry: SessionRegistry, initial: (room: ChannelRoom, since: StreamPosition?)? = nil) {
    self.hub = hub
    self.registry = registry
    self.initial = initial
  }

  // MARK: Connection

  func opened(_ connection: Connection) {
    self.connection = connection
    lastPing = connection.lastHeard
    registry.add(self)
    if connection.kind == .eventStream { enqueue(OutgoingBytes(raw: EventStreamText.retry)) }
    if let initial { subscribe(to: initial.room, since: initial.since, requestID: nil) }
  }

  func received(text: [UInt8], _ connection: Connection) {
    do throws(FrameError) {
      carryOut(try ClientFrame(text))
    } catch {
      switch error {
      case .refused(let frame): send(.error(frame))
      case .broken(let problem):
        send(.error(ErrorFrame(reason: "BrokenFrame", message: problem)))
        connection.close(code: 1007, reason: problem)
      }
    }
  }

  func writable(_ connection: Connection) {
    while let next = outbox.first, connection.send(next) { outbox.removeFirst() }
    sayFarewell()
  }

  func closed(_ connection: Connection, code: UInt16?, reason: String) {
    for subscription in subscriptions.values { subscription.room.remove(self) }
    subscriptions = [:]
    registry.remove(self)
  }

  func close(code: UInt16, reason: String) { connection?.close(code: code, reason: reason) }

  // MARK: Requests

  private func carryOut(_ frame: ClientFrame) {
    do throws(AnswerError) {
      let room = try room(frame.channel)
      switch frame.request {
      case .subscribe(let since):
        guard subscriptions[room.channel.id] != nil || subscriptions.count < Limits.subscriptionsPerSession
        else {
          throw AnswerError(
            status: 400, reason: "TooManySubscriptions",
            message:
              "a session subscribes to at most \(Limits.subscriptionsPerSession) channels; open another one")
        }
        subscribe(to: room, since: since, requestID: frame.requestID)
      case .unsubscribe: try unsubscribe(from: room, requestID: frame.requestID)
      case .acknowledge(let sequence):
        try acknowledge(sequence, of: room, requestID: frame.requestID)
      case .publish(let publish): try self.publish(publish, requestID: frame.requestID, into: room)
      }
    } catch {
      send(.error(error.frame(channel: frame.channel, requestID: frame.requestID?.text)))
    }
  }

  private func room(_ name: String) throws(AnswerError) -> ChannelRoom {
    do throws(Refusal) { return try hub.room(named: name) } catch { throw AnswerError(error) }
  }

  /// Subscribes, or resumes: the newest stored message comes right after the answer, if it is newer.
  private func subscribe(to room: ChannelRoom, since: StreamPosition?, requestID: RequestID?) {
    let channel = room.channel
    subscriptions[channel.id] = Subscription(room: room, acknowledged: channel.position.sequence)
    room.add(self)
    send(
      .subscribed(
        SubscribedFrame(
          channel: channel.id.base64, alias: channel.alias?.name, position: channel.position,
          storagePolicy: channel.settings.storagePolicy, requestID: requestID?.text)))
    if let newest = channel.newest(after: since, at: hub.now) {
      deliver(Broadcast(newest, channel: channel.id))
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
    _ sequence: Int, of room: ChannelRoom, requestID: RequestID?
  ) throws(AnswerError) {
    var subscription = try subscription(room)
    let newest = room.channel.position.sequence
    guard sequence <= newest else {
      throw AnswerError(
        status: 400, reason: "BadRequestParams",
        message: "seq \(sequence) was not delivered yet; the channel's newest is \(newest)")
    }
    room.acknowledged += max(0, sequence - subscription.acknowledged)
    subscription.acknowledged = max(sequence, subscription.acknowledged)
    subscriptions[room.channel.id] = subscription
    send(
      .acknowledged(channel: room.channel.id.base64, sequence: sequence, requestID: requestID?.text))
  }

  private func publish(
    _ publish: ClientFrame.Publish, requestID: RequestID?, into room: ChannelRoom
  ) throws(AnswerError) {
    let result = try hub.publish(
      publish.payload, requestID: requestID, priority: publish.priority, expiration: publish.expiration,
      into: room)
    send(
      .published(
        PublishedFrame(
          channel: room.channel.id.base64, requestID: requestID?.text, uniqueID: result.uniqueID.text,
          outcome: result.outcome,
          budget: JSONText(compacting: room.channel.budgetReport(at: hub.now).json.utf8),
          isRepetition: result.isRepetition)))
  }

  // MARK: Sending

  func deliver(_ broadcast: Broadcast) {
    guard let connection else { return }
    let bytes = connection.kind == .webSocket ? broadcast.webSocketFrame : broadcast.event
    subscriptions[broadcast.channel]?.room.written += 1
    enqueue(bytes, channel: broadcast.channel, isIrreplaceable: broadcast.isIrreplaceable)
  }

  func channelDeleted(_ room: ChannelRoom) {
    // What waits still goes out: deleting recalls no message, and the last one may be the end.
    subscriptions[room.channel.id] = nil
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

  private func enqueue(_ bytes: OutgoingBytes, channel: ChannelID? = nil, isIrreplaceable: Bool = true) {
    guard let connection, connection.isOpen else { return }
    if outbox.isEmpty, connection.send(bytes) { return }
    guard outbox.append(bytes, size: bytes.count, channel: channel, isIrreplaceable: isIrreplaceable) else {
      connection.close(code: 1013, reason: "this connection is too slow for its channels; come back later")
      return
    }
  }

  /// Sends something to a silent peer, so that it answers or is found gone.
  func keepAlive() {
    guard let connection, connection.isOpen else { return }
    switch connection.kind {
    case .webSocket: connection.ping()
    case .eventStream: if outbox.isEmpty { enqueue(OutgoingBytes(raw: EventStreamText.keepAlive)) }
    }
  }
}
