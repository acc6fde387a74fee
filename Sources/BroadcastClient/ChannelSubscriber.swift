import BroadcastChannels
import EventLoop
import Foundation
import SubscriberProtocol

/// What a subscriber is told.
public enum SubscriberEvent: Sendable {
  /// A subscription stands. `missed` is how many messages passed while away; nil when that can't be known because
  /// the channel's counting started anew.
  case subscribed(SubscribedFrame, missed: Int?, isResumed: Bool)
  /// A message came. `missed` is how many were left out right before it.
  case message(MessageFrame, missed: Int)
  /// The connection is gone and will be made again.
  case disconnected(problem: String, retryIn: Double)
  /// A channel isn't there (yet).
  case waiting(channel: String)
  /// A subscription has ended for good: refused, or the channel was deleted.
  case finished(channel: String, RequestFailure)
  /// The server can't be reached or understood at all.
  case failed(RequestFailure)
}

/// Subscribes to channels and stays subscribed.
///
/// It reconnects by itself with exponential back-off and full jitter, resumes each channel where it stood, counts what
/// it missed by epoch and sequence number, and acknowledges what it got.
public final class ChannelSubscriber: WebSocketClientHandler {
  /// One channel, by the name that the caller knows it by.
  private struct Subscription {
    let name: String
    var id: String?
    var position: StreamPosition?
    var isFinished = false
    var toAcknowledge: Int?
  }

  private let loop: EventLoop
  private let server: ServerAddress
  private let waits: Bool
  private let handler: (SubscriberEvent) -> Void
  private var subscriptions: [Subscription]
  private var socket: WebSocketClient?
  private var backoff = Backoff()
  private var random = SystemRandomNumberGenerator()
  private var hasConnected = false
  private var isClosed = false
  private var acknowledging: LoopTimer?
  private var watchdog: LoopTimer?

  /// Seconds after which messages are acknowledged together.
  private static let acknowledgeDelay = 0.1
  /// Seconds after which a channel that isn't there is asked for again.
  private static let waitInterval = 0.25

  /// Makes a subscriber and connects.
  ///
  /// - Parameters:
  ///   - channels: ids or aliases.
  ///   - since: where to resume the first time.
  ///   - waits: whether a channel, or a server, that isn't there yet is waited for.
  public init(
    loop: EventLoop, server: ServerAddress, channels: [String], since: StreamPosition? = nil,
    waits: Bool = false,
    handler: @escaping (SubscriberEvent) -> Void
  ) {
    self.loop = loop
    self.server = server
    self.waits = waits
    self.handler = handler
    subscriptions = channels.map { Subscription(name: $0, position: since) }
    connect()
    watchdog = loop.schedule(after: Limits.pingSeconds, every: Limits.pingSeconds) { [weak self] in
      self?.watch()
    }
  }

  /// Unsubscribes from everything and closes the connection.
  public func close() {
    isClosed = true
    acknowledging?.cancel()
    watchdog?.cancel()
    socket?.close(code: 1000, reason: "done")
    socket = nil
  }

  /// Ends one channel's subscription, as a dismissed activity does.
  public func unsubscribe(_ name: String) {
    guard let index = subscriptions.firstIndex(where: { $0.name == name }), !subscriptions[index].isFinished
    else {
      return
    }
    subscriptions[index].isFinished = true
    if subscriptions[index].id != nil { socket?.send(text: ClientFrame.unsubscribe(name)) }
  }

  // MARK: Connection

  private func connect() {
    guard !isClosed else { return }
    socket = WebSocketClient(
      loop: loop, url: server.webSocket("/v1/events"), subprotocols: ["touchline.v1"], handler: self)
  }

  private func reconnect(_ problem: String) {
    guard !isClosed else { return }
    socket = nil
    for index in subscriptions.indices { subscriptions[index].id = nil }
    guard hasConnected || waits else {
      handler(
        .failed(
          RequestFailure("\(problem); is a server running at \(server)? Start one with: touchline serve")))
      return
    }
    let wait = backoff.next(using: &random)
    handler(.disconnected(problem: problem, retryIn: wait))
    loop.schedule(after: wait) { [weak self] in self?.connect() }
  }

  /// Finds out that a server has gone silent, which TCP alone may not for minutes.
  private func watch() {
    guard let socket, socket.isOpen else { return }
    if loop.now - socket.lastHeard > Limits.silenceSeconds {
      socket.close(code: 1001, reason: "nothing was heard from the server")
    } else {
      socket.ping()
    }
  }

  private func subscribe(_ index: Int) {
    let subscription = subscriptions[index]
    socket?.send(text: ClientFrame.subscribe(subscription.name, since: subscription.position))
  }

  // MARK: Frames

  private func subscribed(_ frame: SubscribedFrame) {
    guard
      let index = subscriptions.firstIndex(where: {
        !$0.isFinished && $0.id == nil && ($0.name == frame.channel || $0.name == frame.alias)
      })
    else { return }
    if let twin = subscriptions.first(where: { $0.id == frame.channel && !$0.isFinished }) {
      // An id and an alias: the server has one subscription for both and sends every message once.
      finish(index, RequestFailure("is the same channel as \"\(twin.name)\"; name it once"))
      return
    }
    subscriptions[index].id = frame.channel
    let old = subscriptions[index].position
    guard let old else {
      subscriptions[index].position = frame.position
      handler(.subscribed(frame, missed: 0, isResumed: false))
      return
    }
    guard old.epoch == frame.position.epoch, old.sequence <= frame.position.sequence else {
      subscriptions[index].position = frame.position
      handler(.subscribed(frame, missed: nil, isResumed: true))
      return
    }
    // A storing channel sends its newest message right after this: what is missing shows with that one.
    let missed = frame.storagePolicy == .none ? frame.position.sequence - old.sequence : 0
    if frame.storagePolicy == .none { subscriptions[index].position = frame.position }
    handler(.subscribed(frame, missed: missed, isResumed: true))
  }

  private func message(_ frame: MessageFrame) {
    guard let index = subscriptions.firstIndex(where: { $0.id == frame.channel && !$0.isFinished }) else {
      return
    }
    var missed = 0
    if let position = subscriptions[index].position, position.epoch == frame.position.epoch {
      missed = max(0, frame.position.sequence - position.sequence - 1)
      if frame.position.sequence > position.sequence { subscriptions[index].position = frame.position }
    } else {
      subscriptions[index].position = frame.position
    }
    subscriptions[index].toAcknowledge = max(frame.position.sequence, subscriptions[index].toAcknowledge ?? 0)
    if acknowledging == nil {
      acknowledging = loop.schedule(after: Self.acknowledgeDelay) { [weak self] in self?.acknowledge() }
    }
    handler(.message(frame, missed: missed))
  }

  private func acknowledge() {
    acknowledging = nil
    for index in subscriptions.indices {
      guard let sequence = subscriptions[index].toAcknowledge, subscriptions[index].id != nil else {
        continue
      }
      subscriptions[index].toAcknowledge = nil
      socket?.send(text: ClientFrame.acknowledge(subscriptions[index].name, sequence: sequence))
    }
  }

  private func refused(_ frame: ErrorFrame) {
    guard
      let index = subscriptions.firstIndex(where: {
        $0.name == frame.channel && $0.id == nil && !$0.isFinished
      })
    else { return }
    if waits, frame.reason == RefusalReason.channelNotRegistered.rawValue {
      handler(.waiting(channel: subscriptions[index].name))
      loop.schedule(after: Self.waitInterval) { [weak self] in
        guard let self, subscriptions[index].id == nil else { return }
        subscribe(index)
      }
      return
    }
    finish(index, RequestFailure(reason: frame.reason, "\(frame.reason): \(frame.message)"))
  }

  private func finish(_ index: Int, _ failure: RequestFailure) {
    subscriptions[index].isFinished = true
    handler(.finished(channel: subscriptions[index].name, failure))
  }

  // MARK: WebSocketClientHandler

  /// The session stands: every channel is subscribed to.
  public func opened(_ client: WebSocketClient) {
    hasConnected = true
    backoff.reset()
    for index in subscriptions.indices where !subscriptions[index].isFinished { subscribe(index) }
  }

  /// A frame came.
  public func received(text: [UInt8], _ client: WebSocketClient) {
    let frame: ServerFrame?
    do throws(FrameError) {
      frame = try ServerFrame.read(text)
    } catch {
      if case .broken(let problem) = error { handler(.failed(RequestFailure(problem))) }
      return
    }
    switch frame {
    case .subscribed(let frame): subscribed(frame)
    case .message(let frame): message(frame)
    case .error(let frame): refused(frame)
    case .unsubscribed(let channel, let reason, _) where reason == "deleted":
      if let index = subscriptions.firstIndex(where: { $0.id == channel && !$0.isFinished }) {
        finish(index, RequestFailure(reason: "deleted", "the channel was deleted"))
      }
    default: break
    }
  }

  /// The connection ended.
  public func closed(_ client: WebSocketClient, code: UInt16?, reason: String) {
    let detail = [code.map(String.init), reason.isEmpty ? nil : reason].compactMap { $0 }.joined(
      separator: " ")
    reconnect("the connection to \(server) was lost\(detail.isEmpty ? "" : " (\(detail))")")
  }

  /// No connection came about.
  public func failed(_ client: WebSocketClient, _ error: WebSocketClientError) { reconnect("\(error)") }
}
