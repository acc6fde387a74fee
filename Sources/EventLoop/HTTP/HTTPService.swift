// Why: the seam between the server and what it is for. A service decides; how bytes move is not its matter.

/// What a server asks, always on the loop's thread.
public protocol HTTPService: AnyObject {
  /// Answers a request through `exchange`, now or later, once.
  func respond(to request: HTTPRequest, _ exchange: HTTPExchange)
  /// Decides on a WebSocket handshake that is otherwise in order.
  func upgrade(_ request: HTTPRequest) -> UpgradeDecision
  /// Hears of what went wrong below the requests, for a log; as often as it happens.
  func noticed(_ trouble: ConnectionTrouble, from remoteAddress: String)
}

extension HTTPService {
  /// Nothing.
  public func noticed(_ trouble: ConnectionTrouble, from remoteAddress: String) {}
}

/// What can go wrong with connections below the requests.
public enum ConnectionTrouble: Hashable, CustomStringConvertible {
  /// There are no descriptors left: a client was turned away, or waits.
  case noDescriptors
  /// A client was turned away, because there are as many connections as there may be.
  case tooManyConnections(ConnectionGate.Refusal)
  /// A TLS handshake broke off, in OpenSSL's words.
  case handshakeFailed(String)
  /// A secure port was asked in the clear.
  case notSecure
  /// An HTTP/2 session was ended because the peer broke the protocol or flooded it.
  case sessionEnded(String)

  /// What happened, and what to do where there is something.
  public var description: String {
    switch self {
    case .noDescriptors:
      "there are no descriptors left, so that clients are turned away; raise the limit (ulimit -n), or close some"
    case .tooManyConnections(.tooMany):
      "there are as many connections as there may be, so that clients are turned away"
    case .tooManyConnections(.tooManyFromAddress):
      "there are as many connections from an address as there may be, so that further ones are turned away"
    case .handshakeFailed(let reason): "a TLS handshake failed: \(reason)"
    case .notSecure:
      "a client without TLS came to a port with TLS; its URL should begin with https:// or wss://"
    case .sessionEnded(let reason): "an HTTP/2 connection was ended: \(reason)"
    }
  }
}

/// What becomes of a WebSocket handshake.
public enum UpgradeDecision {
  /// The connection opens and reports to this handler.
  case accept(any StreamHandler)
  /// The peer gets this answer instead, and the connection ends.
  case refuse(HTTPResponse)
}

/// How a server listens and what it tolerates.
public struct ServerOptions: Sendable {
  /// A numeric IPv4 or IPv6 address of this machine, or `localhost`.
  public var host: String
  /// The port; 0 takes a free one.
  public var port: UInt16
  /// Bytes of a request's head, from the first to the empty line; more is answered with 431.
  public var maxHeaderBytes = 8_192
  /// Bytes of a request's body that a service gets to see.
  public var maxBodyBytes = 65_536
  /// Bytes of a WebSocket message from the peer; more closes with 1009.
  public var maxMessageBytes = 16_384
  /// Seconds a peer may take to send a whole request.
  public var handshakeTimeout = 10.0
  /// Seconds a HTTP/1.1 connection may rest between two requests, and a response may wait to be read.
  public var idleTimeout = 30.0
  /// Makes the port secure (`https`, `wss`); nil serves in the clear.
  public var tls: TLSIdentity?
  /// The bounds of HTTP/2.
  public var http2 = HTTP2Limits()
  /// What a WebSocket's peer may send in the long run; more closes with 1008.
  public var inbound = InboundRate()
  /// WebSocket subprotocols; the first one of these that the client offers, in the client's order, is taken.
  public var subprotocols: [String] = []
  /// Bytes the kernel may hold for a peer that reads slowly (SO_SNDBUF, which Linux doubles); nil leaves it
  /// to the kernel, which grows it to several megabytes.
  public var sendBufferBytes: Int32?
  /// Bytes that the kernel takes for a peer while as many have not been sent yet (TCP_NOTSENT_LOWAT, tcp(7)). What is on its way
  /// doesn't count, so that a fast connection over a long way isn't slowed down; but for one that can't take more, what would wait
  /// in the kernel waits here, where it can still be replaced by something newer.
  public var unsentBytes: Int32 = 65_536
  /// Connections the kernel may keep waiting for accept.
  public var backlog: Int32 = 4_096

  /// Options with the defaults stated at each property.
  public init(host: String = "127.0.0.1", port: UInt16 = 0) {
    self.host = host
    self.port = port
  }
}

/// One request that waits for its answer. Exactly one of ``answer(_:)`` and ``stream(status:headers:handler:)``
/// counts; what comes after it, or after the peer left, does nothing.
public final class HTTPExchange {
  private weak var answering: (any Answering)?
  private let isHead: Bool
  private let remoteAddress: String
  private let loop: EventLoop

  init(answeredBy answering: any Answering, request: HTTPRequest, loop: EventLoop) {
    self.answering = answering
    self.loop = loop
    isHead = request.method == "HEAD"
    remoteAddress = request.peer.remoteAddress
  }

  /// Whether an answer would reach nobody: the peer is gone, or was answered already.
  public var isClosed: Bool { answering == nil }

  /// Sends the response; the connection then goes on with the next request if the client wants that.
  public func answer(_ response: HTTPResponse) {
    guard let answering else { return }
    self.answering = nil
    answering.answer(response, isHead: isHead)
  }

  /// Begins a response whose body lasts until somebody ends it, for server-sent events. The handler's
  /// `opened` is called before this returns. When the peer is gone already, only `closed` follows.
  @discardableResult
  public func stream(
    status: Int = 200, headers: [(String, String)], handler: any StreamHandler
  ) -> Connection {
    let stream = Connection(
      kind: .eventStream, remoteAddress: remoteAddress, subprotocol: nil, now: loop.now, handler: handler)
    guard let answering else {
      loop.soon { stream.ended(code: nil, reason: "") }
      return stream
    }
    self.answering = nil
    answering.beginStream(HTTPResponse(status: status, headers: headers), stream)
    return stream
  }

  /// The connection broke before an answer was given.
  func abandon() { answering = nil }
}

/// What brings an answer to its peer: a HTTP/1.1 connection, or a stream of a HTTP/2 one.
protocol Answering: AnyObject {
  func answer(_ response: HTTPResponse, isHead: Bool)
  func beginStream(_ response: HTTPResponse, _ connection: Connection)
}
