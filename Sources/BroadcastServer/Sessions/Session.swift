import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// One connected client: what it subscribed to, what it may, and what it asks for. The rules' half; its ``Receiver`` has the
/// connection, on this loop or on another one.
///
/// A one-channel stream, as WebSocket or as server-sent events, is a session that begins with a subscription; a
/// multiplexed one begins empty. Both understand the same frames.
final class Session: ReceiverOwner, RegisteredStream, IntentListener, RegisteredDevice {
  /// What a subscriber of one channel has no use for. Most are such, and thousands.
  final class More {
    var rooms: [ChannelID: ChannelRoom] = [:]
    var listening: [ChannelID: ChannelRoom] = [:]
    var cancelExpiry: (() -> Void)?
    /// What is left of the pressed buttons that it may pass on.
    var intents: TokenBucket?
    /// Where the initial subscription resumes.
    var since: StreamPosition?

    var isNeeded: Bool {
      !rooms.isEmpty || !listening.isEmpty || cancelExpiry != nil || intents != nil
    }
  }

  let services: SessionServices
  let caller: Caller
  let userAgent: String?
  let initialRoom: ChannelRoom?
  /// What it subscribed to first. Further ones are in `more`.
  private var room: ChannelRoom?
  var more: More?
  /// To its receiver, from `opened` to `closed`.
  private(set) var line: (any DeliveryLine)?
  var registryPlace: Int32?
  /// What its client said after that is not listened to.
  private var isClosing = false

  var hub: Hub { services.hub }
  var pushes: PushRegistry { services.pushes }
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

  /// What its connection, which is one of the main loop, reports to.
  func makeReceiver() -> Receiver { Receiver(sweep: services.sweep, owner: self) }

  func makeMore() -> More {
    if let more { return more }
    let made = More()
    more = made
    return made
  }

  // MARK: Subscriptions

  private var rooms: [ChannelRoom] {
    [room].compactMap(\.self) + (more.map { Array($0.rooms.values) } ?? [])
  }

  var subscriptionCount: Int { (room == nil ? 0 : 1) + (more?.rooms.count ?? 0) }

  func isSubscribed(to channel: ChannelID) -> Bool {
    room?.id == channel || more?.rooms[channel] != nil
  }

  func add(_ room: ChannelRoom) {
    if subscriptionCount == 0 { findLoop() }
    line?.join(room)
    if self.room == nil { self.room = room } else { makeMore().rooms[room.id] = room }
  }

  /// - Parameter isForgotten: what waits of the channel's messages is taken back.
  func drop(_ room: ChannelRoom, isForgotten: Bool) {
    if self.room === room { self.room = nil } else { more?.rooms[room.id] = nil }
    line?.leave(room, isForgotten: isForgotten)
  }

  /// Who subscribes goes to the loop with the fewest subscribers, once.
  private func findLoop() {
    guard let loops = services.loops, let receiver = line as? Receiver,
      let line = loops.move(receiver, of: self)
    else { return }
    self.line = line
  }

  // MARK: Connection

  func opened(_ receiver: Receiver) {
    line = receiver
    services.registry.add(self)
    let cancelExpiry = caller.closeWhenExpired(in: hub.environment) { [weak self] in
      self?.close(code: $0, reason: $1)
    }
    if let cancelExpiry { makeMore().cancelExpiry = cancelExpiry }
    guard let initialRoom else { return }
    subscribe(to: initialRoom, since: more?.since, requestID: nil)
    if let more, !more.isNeeded { self.more = nil }
  }

  /// Frames are dealt with at once.
  var isBusy: Bool { false }

  func received(_ frame: Result<ClientFrame, FrameError>, bytes: Int) {
    // Subscribing may change the line; the frame came over this one.
    let line = line
    defer { line?.handled() }
    guard !isClosing else { return }
    switch frame {
    case .success(let frame):
      if case .channel(let name, .publish(let publish)) = frame.subject {
        self.publish(publish, name, requestID: frame.requestID, bytes: bytes)
      } else {
        carryOut(frame)
      }
    case .failure(.refused(let error, let type)):
      if type == "publish" { log(refused: error, bytes: bytes) }
      send(.error(error))
    case .failure(.broken(let problem)):
      send(.error(ErrorFrame(reason: "BrokenFrame", message: problem)))
      close(code: 1007, reason: problem)
    }
  }

  func closed(code: UInt16?) {
    line?.ended(rooms)
    for room in more?.listening.values ?? [:].values { room.stopListening(self) }
    more?.cancelExpiry?()
    room = nil
    more = nil
    line = nil
    hub.metrics.sessionClosed(code: code)
    pushes.closed(self)
    services.registry.remove(self)
  }

  func close(code: UInt16, reason: String) {
    isClosing = true
    line?.close(code: code, reason: reason)
  }

  func sayGoodbye(retryIn: Double) {
    isClosing = true
    line?.send(.goodbye(retryIn: retryIn))
    line?.closeWhenSent(code: 1012, reason: ServerFrame.goodbyeReason(retryIn: retryIn))
  }

  // MARK: Access

  /// The keys changed: whoever lost what the session lives on is closed.
  func recheckAccess() {
    do throws(AnswerError) {
      try access.recheck(caller)
      for room in rooms { try access.checkSubscribing(to: room, by: caller) }
      for room in more?.listening.values ?? [:].values {
        try access.checkPublishing(for: room.channel.settings.app, by: caller)
      }
    } catch {
      close(code: 4003, reason: error.message)
    }
  }

  // MARK: Sending

  func send(_ frame: ServerFrame) { line?.send(frame) }

  func push(_ push: OutgoingPush) { line?.push(push) }

  func pushed(_ push: UniqueID, _ fate: PushFate) { pushes.pushed(push, fate) }

  func tokenMoved(_ token: PushToken) {
    send(.unregistered(token: token, reason: .elsewhere, requestID: nil))
  }

  func hear(_ intent: IntentFrame) { send(.intent(intent)) }

  func deleted(_ room: ChannelRoom) {
    let wasSubscribed = isSubscribed(to: room.id)
    let wasListening = more?.listening.removeValue(forKey: room.id) != nil
    guard wasSubscribed || wasListening else { return }
    // What waits still goes out: deleting recalls no message, and the last one may be the end.
    if wasSubscribed { drop(room, isForgotten: false) }
    send(.unsubscribed(channel: room.id.base64, reason: "deleted", requestID: nil))
    if initialRoom === room { line?.closeWhenSent(code: 4004, reason: "the channel was deleted") }
  }
}
