// Why: a loop and what is on it belong to one thread, so a WebSocket goes from loop to loop in a form in which it belongs to none:
// no poll handle, no timer, no table knows it. What is left is the descriptor, its TLS session, and the bytes on their way.

import Glibc

/// An open WebSocket that one loop gave up and another one has not taken yet, by ``ConnectionHost/adopt(_:handler:)``. If nobody
/// does, it is closed, without a word.
///
/// `@unchecked` is safe: only the thread that made it, and after it the one that it was handed to, reads and takes it; `TLSSession`
/// and `FrameReader` are reachable through it alone.
public final class DetachedSocket: @unchecked Sendable {
  let descriptor: Int32
  let tls: TLSSession?
  /// Where it is counted.
  let gate: ConnectionGate?
  /// What was to be written, from its first unwritten byte on.
  let output: [UInt8]
  /// What was read and not understood yet.
  let reader: FrameReader?
  var remoteAddress = ""
  var subprotocol: String?
  private var isTaken = false

  init(descriptor: Int32, tls: TLSSession?, gate: ConnectionGate?, output: [UInt8], reader: FrameReader?) {
    self.descriptor = descriptor
    self.tls = tls
    self.gate = gate
    self.output = output
    self.reader = reader
  }

  deinit {
    guard !isTaken else { return }
    gate?.leave(descriptor)
    Glibc.close(descriptor)
  }

  /// The descriptor is a wire's from now on.
  func taken() { isTaken = true }
}

extension ServerSocket {
  func detach() -> DetachedSocket? {
    guard isOpen else { return nil }
    isOver = true
    host.loop.directPaths.forget(path)
    host.remove(self)
    let output = output.map { Array($0.bytes[$0.written...]) + ($0.pong ?? []) } ?? []
    let reader = reader.flatMap { $0.isIdle ? nil : $0 }
    self.output = nil
    self.reader = nil
    let tls = wire.surrenderSession()
    return DetachedSocket(
      descriptor: wire.surrender(), tls: tls, gate: wire.gate, output: output, reader: reader)
  }

  func pause(_ isPaused: Bool) {
    guard self.isPaused != isPaused else { return }
    self.isPaused = isPaused
    guard !isOver else { return }
    if !isPaused, let reader { understand(reader) }
    updateEvents()
  }

  /// Begins on its new loop. What is sent until the end of the turn goes out in one write; what the peer said already is
  /// understood then.
  func goOn(_ output: [UInt8], _ reader: FrameReader?) {
    isHeld = true
    makeOutput().bytes = output
    self.reader = reader
    host.loop.atEndOfTurn { [self] in
      guard !isOver else { return }
      if let reader = self.reader { understand(reader) } else { release() }
    }
  }
}

extension ConnectionHost {
  /// Takes over a WebSocket that another loop gave up. The handler's `opened` has been called when this returns; what is sent
  /// until the end of the turn goes out together.
  /// - Returns: nil when the system refuses; the socket is closed then.
  @discardableResult
  public final func adopt(_ socket: DetachedSocket, handler: any StreamHandler) -> Connection? {
    guard let wire = Wire(loop: loop, descriptor: socket.descriptor, gate: socket.gate) else { return nil }
    socket.taken()
    if let tls = socket.tls { wire.secure(with: tls) }
    let connection = Connection(
      kind: .webSocket, remoteAddress: socket.remoteAddress, subprotocol: socket.subprotocol, now: loop.now,
      handler: handler)
    let adopted = ServerSocket(wire, connection: connection, host: self)
    add(adopted)
    connection.attach(adopted)
    adopted.goOn(socket.output, socket.reader)
    handler.opened(connection)
    return connection
  }
}
