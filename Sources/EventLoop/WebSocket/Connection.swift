// Why: to whoever publishes, a WebSocket and an event stream are the same thing: bytes go out, each either
// taken whole or not at all, and the end comes exactly once. What differs below (frames, or the body of a
// response) stays below.

/// A long-lived connection of a server: a WebSocket, or the endless body of an event stream.
public final class Connection {
  /// What carries the connection.
  public enum Kind: Sendable {
    /// A WebSocket (RFC 6455).
    case webSocket
    /// The body of an HTTP response that ends with the connection.
    case eventStream
  }

  /// What carries the connection.
  public let kind: Kind
  /// The peer's numeric address, without its port.
  public let remoteAddress: String
  /// The WebSocket subprotocol that was agreed on.
  public let subprotocol: String?
  /// ``EventLoop/now`` when the peer was last heard: a message, a part of one, or a pong. An event
  /// stream's peer is heard only once.
  public internal(set) var lastHeard: Double
  /// Who is told of this connection; let go after `closed`.
  public var handler: (any StreamHandler)?
  /// Whether the connection is open and no close has begun.
  public var isOpen: Bool { carrier?.isOpen ?? false }

  private var carrier: (any Carrier)?

  init(
    kind: Kind, remoteAddress: String, subprotocol: String?, now: Double, handler: any StreamHandler
  ) {
    self.kind = kind
    self.remoteAddress = remoteAddress
    self.subprotocol = subprotocol
    self.lastHeard = now
    self.handler = handler
  }

  /// Sends `message` at once, or not at all. Costs one `send(2)` and no allocation when the peer keeps up.
  /// - Returns: `true` when the message was taken whole. `false` when something is pending on this
  ///   connection or it is closing: nothing was taken, and ``StreamHandler/writable(_:)`` says when to go
  ///   on (it does not come any more when the connection is closing).
  @discardableResult
  public func send(_ message: OutgoingBytes) -> Bool {
    carrier?.send(message.bytes) ?? false
  }

  /// Sends a WebSocket ping between two messages. Nothing on an event stream.
  public func ping() { carrier?.ping() }

  /// Since when, in ``EventLoop/now``, a message of the peer is not whole; nil when none is incomplete.
  public var incompleteSince: Double? { carrier?.incompleteSince }

  /// Closes with a WebSocket close frame, after what is pending, within a few seconds even if the peer
  /// reads nothing. An event stream's body just ends. Idempotent.
  /// - Parameters:
  ///   - code: a close code of RFC 6455 section 7.4; not sent on an event stream.
  ///   - reason: at most 123 bytes of UTF-8; more is cut off.
  public func close(code: UInt16, reason: String) { carrier?.close(code: code, reason: reason) }

  /// Where its bytes may be written without asking it, see ``Audience``.
  var directPath: DirectPath? { carrier?.directPath }

  /// Sends the rest of `message`, of which the socket took the first `taken` bytes already; see ``Audience``.
  public func finish(_ message: OutgoingBytes, from taken: Int) {
    carrier?.finish(message.bytes, from: taken)
  }

  /// Gives the connection up, so that another loop can take it with ``ConnectionHost/adopt(_:handler:)``. The handler hears
  /// nothing any more, no end either, and this object is of no use any more.
  /// - Returns: nil when it is closing, or is no WebSocket; then it stays as it was.
  public func detach() -> DetachedSocket? {
    guard let socket = carrier?.detach() else { return nil }
    socket.remoteAddress = remoteAddress
    socket.subprotocol = subprotocol
    carrier = nil
    handler = nil
    return socket
  }

  /// Reads nothing more from the peer, or goes on with it. Frames that came before are kept. WebSockets only.
  public func pause(_ isPaused: Bool) { carrier?.pause(isPaused) }

  func attach(_ carrier: any Carrier) { self.carrier = carrier }

  /// Called once by the carrier, from the loop, when it is gone.
  func ended(code: UInt16?, reason: String) {
    carrier = nil
    let handler = self.handler
    self.handler = nil
    handler?.closed(self, code: code, reason: reason)
  }
}

/// What a ``Connection`` rides on.
protocol Carrier: AnyObject {
  var isOpen: Bool { get }
  func send(_ bytes: [UInt8]) -> Bool
  func ping()
  func close(code: UInt16, reason: String)
  /// Where its bytes may be written without asking it; nil when that is never so.
  var directPath: DirectPath? { get }
  /// Takes over what a direct write began: `bytes` from `taken` on.
  func finish(_ bytes: [UInt8], from taken: Int)
  /// Since when a message of the peer is not whole.
  var incompleteSince: Double? { get }
  /// Lets go of the socket for another loop, with what was not written or understood yet.
  func detach() -> DetachedSocket?
  func pause(_ isPaused: Bool)
}

extension Carrier {
  var directPath: DirectPath? { nil }
  func finish(_ bytes: [UInt8], from taken: Int) {}
  var incompleteSince: Double? { nil }
  func detach() -> DetachedSocket? { nil }
  func pause(_ isPaused: Bool) {}
}

/// Who is told what happens on a ``Connection``; always on the loop's thread.
public protocol StreamHandler: AnyObject {
  /// The connection is open and can be sent to.
  func opened(_ connection: Connection)
  /// One whole text message, valid UTF-8, at most `maxMessageBytes` long.
  func received(text: [UInt8], _ connection: Connection)
  /// ``Connection/send(_:)`` returned `false` before and can be tried again.
  func writable(_ connection: Connection)
  /// The peer answered a ping.
  func ponged(_ connection: Connection)
  /// The end, exactly once: `code` and `reason` are those of the side that began to close, and `nil`
  /// when the connection broke off without a close frame, or is an event stream.
  func closed(_ connection: Connection, code: UInt16?, reason: String)
}

extension StreamHandler {
  /// Nothing; most handlers look at ``Connection/lastHeard`` instead.
  public func ponged(_ connection: Connection) {}
}

/// `reason` cut to what fits a close frame, at a character boundary (RFC 6455 section 5.5: 125 bytes in all).
func closeReasonBytes(_ reason: String) -> [UInt8] {
  var bytes = Array(reason.utf8.prefix(124))
  guard bytes.count > 123 else { return bytes }
  bytes.removeLast()
  while let last = bytes.last, last & 0xc0 == 0x80 { bytes.removeLast() }
  if let last = bytes.last, last >= 0x80 { bytes.removeLast() }
  return bytes
}

/// Code and reason of a peer's close frame, whose body may be empty (RFC 6455 section 5.5.1).
func closeFrame(_ body: UnsafeRawBufferPointer) -> (code: UInt16?, reason: String) {
  guard body.count >= 2 else { return (nil, "") }
  return (UInt16(body[0]) << 8 | UInt16(body[1]), String(decoding: body.dropFirst(2), as: UTF8.self))
}
