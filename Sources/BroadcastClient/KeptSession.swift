import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// A session of `touchline.v1` that is kept: when the connection is lost it is made again, with exponential back-off and
/// full jitter, and a server that has gone silent, which TCP alone may not notice for minutes, is found out.
final class KeptSession: WebSocketClientHandler {
  enum Event {
    /// The session stands, for the first time or again.
    case opened
    case frame(ServerFrame)
    /// The connection is gone and will be made again.
    case lost(problem: String, retryIn: Double)
    /// There was never a connection, or what came can't be understood: nothing more will happen.
    case failed(RequestFailure)
  }

  private let loop: EventLoop
  private let server: ServerAccess
  private let waits: Bool
  private let handler: (Event) -> Void
  private var socket: WebSocketClient?
  private var watchdog: LoopTimer?
  private var backoff = Backoff()
  private var random = SystemRandomNumberGenerator()
  /// When the server asked to be come back to, in seconds from its end.
  private var retryIn: Double?
  private var hasConnected = false
  private var isClosed = false

  /// - Parameter waits: whether a server that isn't there yet is waited for.
  init(loop: EventLoop, server: ServerAccess, waits: Bool, handler: @escaping (Event) -> Void) {
    self.loop = loop
    self.server = server
    self.waits = waits
    self.handler = handler
    connect()
    watchdog = loop.schedule(after: Limits.pingSeconds, every: Limits.pingSeconds) { [weak self] in
      self?.watch()
    }
  }

  /// Sends a frame.
  ///
  /// - Returns: false while there is no connection.
  @discardableResult
  func send(_ text: [UInt8]) -> Bool {
    guard let socket, socket.isOpen else { return false }
    socket.send(text: text)
    return true
  }

  func close() {
    isClosed = true
    watchdog?.cancel()
    socket?.close(code: 1000, reason: "done")
    socket = nil
  }

  private func connect() {
    guard !isClosed else { return }
    do throws(RequestFailure) {
      socket = try server.connect(loop, handler: self)
    } catch {
      fail(error)
    }
  }

  /// - Parameter failure: what is told when nothing is tried again.
  private func reconnect(_ problem: String, _ failure: RequestFailure? = nil) {
    guard !isClosed else { return }
    socket = nil
    guard hasConnected || waits else {
      handler(.failed(failure ?? RequestFailure(unreachable: problem, server)))
      return
    }
    let wait = backoff.next(asked: retryIn, using: &random)
    retryIn = nil
    handler(.lost(problem: problem, retryIn: wait))
    loop.schedule(after: wait) { [weak self] in self?.connect() }
  }

  /// What can't get better by trying again.
  private func fail(_ failure: RequestFailure) {
    close()
    loop.schedule(after: 0) { [handler] in handler(.failed(failure)) }
  }

  private func watch() {
    guard let socket, socket.isOpen else { return }
    if loop.now - socket.lastHeard > Limits.silenceSeconds {
      socket.close(code: 1001, reason: "nothing was heard from the server")
    } else {
      socket.ping()
    }
  }

  // MARK: WebSocketClientHandler

  func opened(_ client: WebSocketClient) {
    hasConnected = true
    backoff.reset()
    handler(.opened)
  }

  func received(text: [UInt8], _ client: WebSocketClient) {
    guard !isClosed else { return }
    do throws(FrameError) {
      switch try ServerFrame.read(text) {
      case .goodbye(let retryIn): self.retryIn = retryIn
      case .some(let frame): handler(.frame(frame))
      case nil: break
      }
    } catch {
      if case .broken(let problem) = error { handler(.failed(RequestFailure(problem))) }
    }
  }

  func closed(_ client: WebSocketClient, code: UInt16?, reason: String) {
    let code = CloseCode.sent(code, reason: reason)
    let detail = [code.map(String.init), reason.isEmpty ? nil : reason].compactMap { $0 }.joined(
      separator: " ")
    reconnect("the connection to \(server) was lost\(detail.isEmpty ? "" : " (\(detail))")")
  }

  func failed(_ client: WebSocketClient, _ error: WebSocketClientError) {
    if let refusal = RequestFailure(final: error, server) {
      fail(refusal)
    } else if case .refused(_, let status, let body) = error {
      reconnect("\(error)", RequestFailure(refused: status, body, server))
    } else {
      reconnect("\(error)")
    }
  }
}
