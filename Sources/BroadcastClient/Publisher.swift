import BroadcastChannels
import EventLoop
import Foundation
import SubscriberProtocol

/// A message for a ``Publisher`` to send.
public struct OutgoingMessage: Sendable {
  /// The `aps` object.
  public let aps: [UInt8]
  /// How urgently.
  public let priority: Priority
  /// `apns-expiration`: Unix seconds, or 0.
  public let expiration: Int64

  /// Makes a message.
  public init(aps: [UInt8], priority: Priority, expiration: Int64) {
    self.aps = aps
    self.priority = priority
    self.expiration = expiration
  }
}

/// Publishes messages into a channel in order, many at once, each exactly once.
///
/// Messages are pipelined over one session. Each has a request id, so that after a lost connection everything
/// unanswered is sent again and the server publishes nothing twice. The pipeline is no deeper than what the server
/// reports as left of the publish rate and the budget, so a fast feed is slowed down instead of refused; where it is
/// refused all the same, with 429 or 503, it waits as long as the server asks, or backs off, and goes on in order.
public final class Publisher: WebSocketClientHandler {
  /// What became of a message.
  public typealias Answer = Result<PublishedFrame, RequestFailure>

  private struct Item {
    let message: OutgoingMessage
    let requestID: RequestID
    let completion: (Answer) -> Void
    var answer: Answer?
    var isSent = false
  }

  private let loop: EventLoop
  private let server: ServerAccess
  private let channel: String
  private let patience: Double
  private let notice: (String) -> Void

  private var socket: WebSocketClient?
  private var items: [Item] = []
  private var places: [String: Int] = [:]
  /// How many items were completed and removed before the first of `items`.
  private var completed = 0
  private var inFlight = 0
  private var depth = 1
  private var pause: LoopTimer?
  private var backoff = Backoff()
  private var random = SystemRandomNumberGenerator()
  private var failingSince: Double?
  private var hasConnected = false
  private var isClosed = false
  private var toldAt = -Double.infinity
  /// When the server asked to be come back to, in seconds from its end.
  private var retryIn: Double?

  /// Messages in flight at most, however much the server allows. With 1 each waits for the answer of the one before.
  public var maximumDepth = 256

  /// A queue shorter than this is short.
  private static let room = 256

  /// Called when the queue has become short, so that a feed can be read on.
  public var onRoom: (() -> Void)?

  /// Makes a publisher and connects.
  ///
  /// - Parameters:
  ///   - channel: an id or an alias.
  ///   - patience: seconds for which a message is tried again before it counts as failed.
  ///   - notice: told when something is tried again.
  public init(
    loop: EventLoop, server: ServerAccess, channel: String, patience: Double = 60,
    notice: @escaping (String) -> Void = { _ in }
  ) {
    self.loop = loop
    self.server = server
    self.channel = channel
    self.patience = patience
    self.notice = notice
    connect()
  }

  /// Messages that wait or are in flight.
  public var backlog: Int { items.count }

  /// Queues a message; the completions are called in the order of the messages.
  public func publish(_ message: OutgoingMessage, _ completion: @escaping (Answer) -> Void) {
    let requestID = RequestID.random(using: &random)
    places[requestID.text] = completed + items.count
    items.append(Item(message: message, requestID: requestID, completion: completion))
    if socket == nil, pause == nil, items.count == 1 { connect() }
    pump()
  }

  /// Closes the connection.
  public func close() {
    isClosed = true
    pause?.cancel()
    socket?.close(code: 1000, reason: "done")
  }

  // MARK: Sending

  private func pump() {
    guard let socket, socket.isOpen, pause == nil else { return }
    for index in items.indices where items[index].answer == nil && !items[index].isSent {
      let item = items[index]
      if let refusal = Self.refusal(of: item.message) {
        places[item.requestID.text] = nil
        items[index].answer = .failure(refusal)
        continue
      }
      guard inFlight < depth else { break }
      items[index].isSent = true
      inFlight += 1
      socket.send(
        text: ClientFrame.publish(
          channel, aps: item.message.aps, priority: item.message.priority,
          expiration: item.message.expiration,
          requestID: item.requestID))
    }
    complete()
  }

  /// Why a message isn't even sent: a server closes a connection that brings a frame far too large, and the messages
  /// behind it would never get through.
  private static func refusal(of message: OutgoingMessage) -> RequestFailure? {
    let size = message.aps.count + #"{"aps":}"#.utf8.count
    guard size > Limits.broadcastPayloadBytes else { return nil }
    let reason = RefusalReason.payloadTooLarge.rawValue
    return RequestFailure(
      reason: reason,
      "\(reason): the payload is \(size) bytes; at most \(Limits.broadcastPayloadBytes) are allowed")
  }

  private func answered(_ requestID: String?, _ answer: Answer) {
    guard let requestID, let place = places.removeValue(forKey: requestID) else { return }
    items[place - completed].answer = answer
    inFlight -= 1
    failingSince = nil
    complete()
    pump()
  }

  /// Hands out the answers as far as they are there without a gap.
  private func complete() {
    guard items.first?.answer != nil else { return }
    while let first = items.first, let answer = first.answer {
      items.removeFirst()
      completed += 1
      first.completion(answer)
    }
    if items.count < Self.room { onRoom?() }
  }

  /// Sends a refused message again after a while, and nothing else before it.
  private func retry(_ frame: ErrorFrame) {
    guard let requestID = frame.requestID, let place = places[requestID] else { return }
    let since = failingSince ?? loop.now
    failingSince = since
    let wait = max(frame.retryAfter ?? 0, backoff.next(using: &random))
    guard loop.now + wait - since <= patience else {
      answered(requestID, .failure(RequestFailure(reason: frame.reason, "\(frame.reason): \(frame.message)")))
      return
    }
    items[place - completed].isSent = false
    inFlight -= 1
    depth = 1
    guard pause == nil else { return }
    tell("\(frame.reason); trying again in \(JSONWriter.seconds(wait)) s")
    pause = loop.schedule(after: wait) { [weak self] in
      self?.pause = nil
      self?.pump()
    }
  }

  // MARK: Connection

  private func connect() {
    do throws(RequestFailure) {
      socket = try server.connect(loop, handler: self)
    } catch {
      loop.schedule(after: 0) { [self] in fail(error) }
    }
  }

  private func reconnect(_ problem: String) {
    guard !isClosed else { return }
    socket = nil
    inFlight = 0
    depth = 1
    for index in items.indices { items[index].isSent = false }
    guard !items.isEmpty else {
      // Nothing is under way: connect again when there is.
      return
    }
    let since = failingSince ?? loop.now
    failingSince = since
    let wait = backoff.next(asked: retryIn, using: &random)
    retryIn = nil
    guard hasConnected, loop.now + wait - since <= patience else {
      fail(RequestFailure(unreachable: problem, server))
      return
    }
    tell("\(problem); trying again in \(JSONWriter.seconds(wait)) s")
    loop.schedule(after: wait) { [weak self] in self?.connect() }
  }

  /// At most one notice a second: a fast feed is slowed down often and briefly.
  private func tell(_ text: String) {
    guard loop.now - toldAt >= 1 else { return }
    toldAt = loop.now
    notice(text)
  }

  private func fail(_ failure: RequestFailure) {
    pause?.cancel()
    pause = nil
    // What comes from now on connects anew, and is refused for itself.
    socket = nil
    inFlight = 0
    depth = 1
    failingSince = nil
    let waiting = items
    completed += items.count
    items = []
    places = [:]
    for item in waiting { item.completion(item.answer ?? .failure(failure)) }
    onRoom?()
  }

  // MARK: WebSocketClientHandler

  /// The session stands: what is unanswered goes out.
  public func opened(_ client: WebSocketClient) {
    // The back-off begins anew with an answer, not here: a server may accept and close again, over and over.
    hasConnected = true
    pump()
  }

  /// An answer came.
  public func received(text: [UInt8], _ client: WebSocketClient) {
    guard case .some(let frame) = try? ServerFrame.read(text) else { return }
    switch frame {
    case .published(let frame):
      backoff.reset()
      // Both: a budget that rejects would refuse one message and, refilled a moment later, take the next before it.
      let budget = (try? JSONDocument(frame.budget.bytes))?.root
      let left = ["publish-rate", "priority-10"].compactMap { budget?[$0]?["remaining"]?.number?.int }.min()
      depth = min(maximumDepth, max(1, left.map { Int($0) } ?? maximumDepth))
      answered(frame.requestID, .success(frame))
    case .error(let frame) where ["TooManyRequests", "ServiceUnavailable", "Shutdown"].contains(frame.reason):
      retry(frame)
    case .error(let frame):
      answered(
        frame.requestID, .failure(RequestFailure(reason: frame.reason, "\(frame.reason): \(frame.message)")))
    case .goodbye(let retryIn): self.retryIn = retryIn
    default: break
    }
  }

  /// The connection ended: what is unanswered is sent again.
  public func closed(_ client: WebSocketClient, code: UInt16?, reason: String) {
    reconnect("the connection to \(server) was lost\(reason.isEmpty ? "" : " (\(reason))")")
  }

  /// No connection came about.
  public func failed(_ client: WebSocketClient, _ error: WebSocketClientError) {
    if let refusal = RequestFailure(final: error, server) { fail(refusal) } else { reconnect("\(error)") }
  }
}
