import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// Hears the buttons that people press on a channel's cards, as the channel's publisher does.
///
/// It reconnects by itself; what was pressed meanwhile comes then, and each intent is reported once.
public final class IntentListener: WebSocketClientHandler {
  /// What a listener is told.
  public enum Event: Sendable {
    /// It listens now.
    case listening
    /// A button was pressed.
    case intent(IntentFrame)
    /// The connection is gone and will be made again.
    case disconnected(problem: String, retryIn: Double)
    /// It can't listen.
    case failed(RequestFailure)
  }

  private let loop: EventLoop
  private let server: ServerAddress
  private let channel: String
  private let handler: (Event) -> Void
  private var socket: WebSocketClient?
  /// The ids of the last intents, in their order: no server sends an older one again.
  private var heard: [String] = []
  private var watchdog: LoopTimer?
  private var backoff = Backoff()
  private var random = SystemRandomNumberGenerator()
  private var hasConnected = false
  private var isClosed = false

  /// Makes a listener and connects.
  public init(loop: EventLoop, server: ServerAddress, channel: String, handler: @escaping (Event) -> Void) {
    self.loop = loop
    self.server = server
    self.channel = channel
    self.handler = handler
    connect()
    watchdog = loop.schedule(after: Limits.pingSeconds, every: Limits.pingSeconds) { [weak self] in
      self?.watch()
    }
  }

  /// Closes the connection.
  public func close() {
    isClosed = true
    watchdog?.cancel()
    socket?.close(code: 1000, reason: "done")
  }

  private func connect() {
    guard !isClosed else { return }
    socket = WebSocketClient(
      loop: loop, url: server.webSocket("/v1/events"), subprotocols: ["touchline.v1"], handler: self)
  }

  private func reconnect(_ problem: String) {
    guard !isClosed else { return }
    guard hasConnected else {
      handler(.failed(RequestFailure(unreachable: problem, server)))
      return
    }
    let wait = backoff.next(using: &random)
    handler(.disconnected(problem: problem, retryIn: wait))
    loop.schedule(after: wait) { [weak self] in self?.connect() }
  }

  /// Finds out that a server has gone silent: who only listens would wait for it forever.
  private func watch() {
    guard let socket, socket.isOpen else { return }
    if loop.now - socket.lastHeard > Limits.silenceSeconds {
      socket.close(code: 1001, reason: "nothing was heard from the server")
    } else {
      socket.ping()
    }
  }

  private func finish(_ failure: RequestFailure) {
    close()
    handler(.failed(failure))
  }

  /// Whether an intent is new. It is one that a server keeps, or it is forgotten.
  private func isFirst(_ id: String) -> Bool {
    guard !heard.contains(id) else { return false }
    heard.append(id)
    if heard.count > Limits.intentsPerChannel { heard.removeFirst() }
    return true
  }

  /// The session stands.
  public func opened(_ client: WebSocketClient) {
    hasConnected = true
    backoff.reset()
    client.send(text: ClientFrame.listen(channel))
  }

  /// A frame came.
  public func received(text: [UInt8], _ client: WebSocketClient) {
    guard case .some(let frame) = try? ServerFrame.read(text) else { return }
    switch frame {
    case .listening: handler(.listening)
    case .intent(let intent): if isFirst(intent.intentID) { handler(.intent(intent)) }
    case .error(let error): finish(RequestFailure(reason: error.reason, "\(error.reason): \(error.message)"))
    case .unsubscribed(_, "deleted", _): finish(RequestFailure(reason: "deleted", "the channel was deleted"))
    default: break
    }
  }

  /// The connection ended.
  public func closed(_ client: WebSocketClient, code: UInt16?, reason: String) {
    reconnect("the connection to \(server) was lost\(reason.isEmpty ? "" : " (\(reason))")")
  }

  /// No connection came about.
  public func failed(_ client: WebSocketClient, _ error: WebSocketClientError) { reconnect("\(error)") }
}
