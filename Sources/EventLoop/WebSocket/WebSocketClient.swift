// Why: the same loop can also be the far end: for the commands, the client library and tests.

/// Why a WebSocket client did not get to `opened`.
public enum WebSocketClientError: Error, Equatable, CustomStringConvertible {
  /// Not a `ws://` or `wss://` URL.
  case badURL(String)
  /// Nobody listens there, the way there is closed, or the server is not trusted.
  case unreachable(address: String, reason: String)
  /// The server's certificate doesn't do.
  case untrusted(address: String, reason: String)
  /// No connection, or no answer to the handshake, in time.
  case timedOut(address: String)
  /// The server answered the handshake with another status than 101. `body` is what of the answer's body
  /// came together with its head, at most 4,096 bytes.
  case refused(address: String, status: Int, body: [UInt8])
  /// The answer was no valid handshake.
  case badHandshake(address: String, reason: String)

  /// One line for a log.
  public var description: String {
    switch self {
    case .badURL(let url): "\(url) is no ws:// or wss:// URL"
    case .unreachable(let address, let reason): "cannot connect to \(address): \(reason)"
    case .untrusted(let address, let reason): "no connection to \(address): \(reason)"
    case .timedOut(let address): "\(address) did not answer in time"
    case .refused(let address, let status, _): "\(address) refused the WebSocket with status \(status)"
    case .badHandshake(let address, let reason): "\(address) answered with a broken handshake: \(reason)"
    }
  }
}

/// Who is told what happens on a ``WebSocketClient``; always on the loop's thread, never inside a call of
/// the client. Either `failed` comes once and nothing else, or `opened` and, at the end, `closed` once.
public protocol WebSocketClientHandler: AnyObject {
  /// The handshake succeeded.
  func opened(_ client: WebSocketClient)
  /// One whole text message.
  func received(text: [UInt8], _ client: WebSocketClient)
  /// The end: `code` and `reason` of the side that began to close, nil when the connection broke off.
  func closed(_ client: WebSocketClient, code: UInt16?, reason: String)
  /// The connection was not made.
  func failed(_ client: WebSocketClient, _ error: WebSocketClientError)
}

/// One outgoing WebSocket connection. It connects when made and lives until it closed or failed.
public final class WebSocketClient {
  /// Bytes of a message from the server; more closes with 1009.
  public static let maxMessageBytes = 1_048_576

  /// The subprotocol the server chose.
  public internal(set) var subprotocol: String?
  /// ``EventLoop/now`` when the server was last heard: a message, a part of one, or a pong.
  public internal(set) var lastHeard: Double

  private let loop: EventLoop
  private let socket: ClientSocket?

  /// Starts to connect. A host name is looked up with a blocking call; a numeric address is not.
  /// - Parameters:
  ///   - url: `ws://host:port/path?query`, or `wss://`, path and query already encoded.
  ///   - headers: sent as they are with the handshake; values must not have line breaks.
  ///   - tls: for `wss://` URLs.
  ///   - connectTimeout: seconds until the handshake must be done.
  public init(
    loop: EventLoop, url: String, subprotocols: [String] = [], headers: [(String, String)] = [],
    tls: ClientTLS = ClientTLS(), connectTimeout: Double = 10, handler: any WebSocketClientHandler
  ) {
    self.loop = loop
    lastHeard = loop.now
    guard let target = ClientURL(url, scheme: "ws") else {
      socket = nil
      loop.soon { handler.failed(self, .badURL(url)) }
      return
    }
    let socket = ClientSocket(loop: loop, target: target, tls: tls, headers: headers, handler: handler)
    self.socket = socket
    socket.connect(self, subprotocols: subprotocols, timeout: connectTimeout)
  }

  /// Bytes of the messages that wait to be sent. The caller keeps it bounded.
  public var pendingBytes: Int { socket?.pendingBytes ?? 0 }

  /// Whether messages can be sent.
  public var isOpen: Bool { socket?.isOpen ?? false }

  /// Queues a text message, which must be UTF-8. Ignored when the connection is not open.
  public func send(text: [UInt8]) { socket?.send(text) }

  /// Sends a ping.
  public func ping() { socket?.ping() }

  /// Closes after the queued messages, within five seconds. Idempotent.
  public func close(code: UInt16, reason: String) { socket?.close(code: code, reason: reason) }
}
