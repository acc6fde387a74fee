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
public final class ChannelSubscriber {
  /// One channel, by the name that the caller knows it by.
  private struct Subscription {
    let name: String
    var id: String?
    var position: StreamPosition?
    var isFinished = false
    var toAcknowledge: Int?
    var displayed: [Int] = []
    /// The newest that was displayed, and one of them that has become stale.
    var newestDisplayed: Int?
    var stale: Int?
  }

  private let loop: EventLoop
  private let waits: Bool
  private let handler: (SubscriberEvent) -> Void
  private var subscriptions: [Subscription]
  private var session: KeptSession?
  private var acknowledging: LoopTimer?

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
    loop: EventLoop, server: ServerAccess, channels: [String], since: StreamPosition? = nil,
    waits: Bool = false,
    handler: @escaping (SubscriberEvent) -> Void
  ) {
    self.loop = loop
    self.waits = waits
    self.handler = handler
    subscriptions = channels.map { Subscription(name: $0, position: since) }
    session = KeptSession(loop: loop, server: server, waits: waits) { [weak self] in self?.take($0) }
  }

  /// Unsubscribes from everything and closes the connection.
  public func close() {
    acknowledging?.cancel()
    session?.close()
    session = nil
  }

  /// Ends one channel's subscription, as a dismissed activity does.
  public func unsubscribe(_ name: String) {
    guard let index = subscriptions.firstIndex(where: { $0.name == name }), !subscriptions[index].isFinished
    else {
      return
    }
    subscriptions[index].isFinished = true
    if subscriptions[index].id != nil { session?.send(ClientFrame.unsubscribe(name)) }
  }

  /// Says that a message was displayed; it is told to the server with the next acknowledgement.
  public func displayed(_ sequence: Int, of name: String) {
    guard let index = subscriptions.firstIndex(where: { $0.name == name }) else { return }
    subscriptions[index].displayed.append(sequence)
    subscriptions[index].newestDisplayed = sequence
    acknowledge(through: sequence, index)
  }

  /// Says that what was displayed last has become stale; it is told to the server with the next acknowledgement.
  public func becameStale(_ name: String) {
    guard let index = subscriptions.firstIndex(where: { $0.name == name }),
      let sequence = subscriptions[index].newestDisplayed
    else { return }
    subscriptions[index].stale = sequence
    acknowledge(through: sequence, index)
  }

  /// Passes a pressed button on to the channel's publisher.
  ///
  /// - Returns: false while there is no connection: press again later.
  @discardableResult
  public func send(intent id: String, action: String, of name: String) -> Bool {
    session?.send(ClientFrame.intent(name, action: action, intentID: id)) ?? false
  }

  // MARK: Connection

  private func take(_ event: KeptSession.Event) {
    switch event {
    case .opened:
      for index in subscriptions.indices where !subscriptions[index].isFinished { subscribe(index) }
    case .frame(let frame): take(frame)
    case .lost(let problem, let wait):
      for index in subscriptions.indices { subscriptions[index].id = nil }
      handler(.disconnected(problem: problem, retryIn: wait))
    case .failed(let failure): handler(.failed(failure))
    }
  }

  private func subscribe(_ index: Int) {
    let subscription = subscriptions[index]
    session?.send(ClientFrame.subscribe(subscription.name, since: subscription.position))
  }

  // MARK: Frames

  private func take(_ frame: ServerFrame) {
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
    acknowledge(through: frame.position.sequence, index)
    handler(.message(frame, missed: missed))
  }

  private func acknowledge(through sequence: Int, _ index: Int) {
    subscriptions[index].toAcknowledge = max(sequence, subscriptions[index].toAcknowledge ?? 0)
    if acknowledging == nil {
      acknowledging = loop.schedule(after: Self.acknowledgeDelay) { [weak self] in self?.acknowledge() }
    }
  }

  private func acknowledge() {
    acknowledging = nil
    for index in subscriptions.indices {
      guard let sequence = subscriptions[index].toAcknowledge, subscriptions[index].id != nil else {
        continue
      }
      let displayed = subscriptions[index].displayed.suffix(Limits.displayedPerAcknowledgement)
      subscriptions[index].toAcknowledge = nil
      subscriptions[index].displayed = []
      let stale = subscriptions[index].stale
      subscriptions[index].stale = nil
      session?.send(
        ClientFrame.acknowledge(
          subscriptions[index].name, sequence: sequence, displayed: Array(displayed), stale: stale))
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
}
