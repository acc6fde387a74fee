// Why: HTTP/1.1, HTTP/2 and a WebSocket want the same of an accepted socket: bytes in, bytes out,
// and a word when more is possible. Whether TLS lies between is decided once, here. In the clear a read is one recv(2) and a
// write one send(2), with nothing allocated. With TLS, what OpenSSL waits for is not always what the user waits for (a read
// can wait for room to write), and decrypted bytes can be left when the socket is silent: epoll says nothing about them.

import CLibuv
import CLinux
import Glibc

/// Who a ``Wire`` tells that something is possible.
protocol WireUser: AnyObject {
  func isReady(_ wire: Wire, _ events: Wire.Events)
}

/// One connected, non-blocking socket under a poll handle, in the clear or with TLS.
final class Wire {
  /// What is waited for, or happened; the values are libuv's.
  struct Events: OptionSet {
    let rawValue: Int32
    static let readable = Events(rawValue: Int32(UV_READABLE.rawValue))
    static let writable = Events(rawValue: Int32(UV_WRITABLE.rawValue))
    /// The peer ended its sending; for those who do not read.
    static let hungUp = Events(rawValue: Int32(UV_DISCONNECT.rawValue))
    /// The socket is broken; told without being asked for.
    static let failed = Events(rawValue: 1 << 16)
  }

  /// What became of a read or a write.
  enum Moved: Equatable {
    /// So many bytes, at least one.
    case bytes(Int)
    /// Nothing now; the next event says when to try again.
    case blocked
    /// The peer has ended its sending. Reads only.
    case ended
    /// The connection is broken.
    case failed
  }

  let descriptor: Int32
  /// Told of events until the wire is closed.
  var user: (any WireUser)?
  private let loop: EventLoop
  /// Where it is counted.
  let gate: ConnectionGate?
  private var poll: UnsafeMutablePointer<uv_poll_t>?
  private(set) var tls: TLSSession?
  private var wanted: Events = []
  private var polled: Events = []
  private var isReminded = false

  init?(loop: EventLoop, descriptor: Int32, gate: ConnectionGate? = nil) {
    self.loop = loop
    self.gate = gate
    self.descriptor = descriptor
    let poll = UnsafeMutablePointer<uv_poll_t>.allocate(capacity: 1)
    guard uv_poll_init(loop.uv, poll, descriptor) == 0 else {
      poll.deallocate()
      return nil
    }
    Handle.attach(poll, to: self)
    self.poll = poll
  }

  var isSecure: Bool { tls != nil }

  /// From now on bytes go through `session`, which begins with its handshake.
  func secure(with session: TLSSession) { tls = session }

  func handshake() -> TLSSession.Handshake { tls?.handshake() ?? .done }

  // MARK: - Events

  /// Sets what is waited for, until the next call.
  func want(_ events: Events) {
    wanted = events
    updatePoll()
  }

  private func updatePoll() {
    guard let poll else { return }
    var needed = wanted
    if let tls {
      if wanted.contains(.readable), tls.readWaitsForRoom {
        needed.remove(.readable)
        needed.insert(.writable)
      }
      if wanted.contains(.writable), tls.writeWaitsForPeer {
        if !(wanted.contains(.readable) && tls.readWaitsForRoom) { needed.remove(.writable) }
        needed.insert(.readable)
      }
      if wanted.contains(.readable), tls.hasMore { remind() }
    }
    guard needed != polled else { return }
    polled = needed
    guard !needed.isEmpty else {
      uv_poll_stop(poll)
      return
    }
    uv_poll_start(poll, needed.rawValue) { handle, status, events in
      Handle.owner(of: handle, as: Wire.self)?.happened(status, Events(rawValue: events))
    }
  }

  private func happened(_ status: Int32, _ events: Events) {
    var told = events
    if status < 0 { told = .failed }
    if let tls {
      if tls.readWaitsForRoom, events.contains(.writable) { told.insert(.readable) }
      if tls.writeWaitsForPeer, events.contains(.readable) { told.insert(.writable) }
    }
    told.formIntersection(wanted.union(.failed))
    if !told.isEmpty { user?.isReady(self, told) }
    updatePoll()
  }

  /// Decrypted bytes wait, and no event will come for them.
  private func remind() {
    guard !isReminded else { return }
    isReminded = true
    loop.soon { [weak self] in
      guard let self else { return }
      isReminded = false
      if wanted.contains(.readable) { happened(0, .readable) }
    }
  }

  // MARK: - Bytes

  func read(into buffer: UnsafeMutableRawBufferPointer) -> Moved {
    if let tls { return tls.read(into: buffer) }
    let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
    if count > 0 { return .bytes(count) }
    if count == 0 { return .ended }
    return errno == EAGAIN || errno == EINTR ? .blocked : .failed
  }

  /// With TLS, bytes that were `blocked` must come again first: they are half on their way.
  func write(_ start: UnsafeRawPointer, _ count: Int) -> Moved {
    if let tls { return tls.write(start, count) }
    let sent = shim_send_now(descriptor, start, count)
    if sent >= 0 { return .bytes(sent) }
    return errno == EAGAIN || errno == EINTR ? .blocked : .failed
  }

  /// The first byte that waits, left where it is: nil when none is there, or the peer is gone. Before TLS only.
  func peekByte() -> UInt8? {
    var byte: UInt8 = 0
    return recv(descriptor, &byte, 1, Int32(MSG_PEEK)) == 1 ? byte : nil
  }

  // MARK: - The end

  /// Tells the peer that nothing more comes. What it still says can be read by ``discard(into:)``.
  func shutWriting() {
    // The session is over: of what it still holds the loop would be reminded again and again, and nobody wants it.
    surrenderSession()?.sayGoodbye()
    shutdown(descriptor, Int32(SHUT_WR))
  }

  /// Reads what nobody wants any more, undeciphered. `false` at its end.
  func discard(into buffer: UnsafeMutableRawBufferPointer) -> Bool {
    let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))
  }

  /// Closes now, whatever is pending. Idempotent.
  func close() {
    guard poll != nil else { return }
    gate?.leave(descriptor)
    Glibc.close(surrender())
    tls = nil
  }

  /// Gives up the TLS session, for whoever gets the descriptor.
  func surrenderSession() -> TLSSession? {
    defer { tls = nil }
    return tls
  }

  /// Gives up the poll handle, so that the descriptor can be closed or handed on: libuv forgets it inside
  /// uv_close(), not later (uv__poll_stop in src/unix/poll.c).
  func surrender() -> Int32 {
    user = nil
    wanted = []
    if let poll {
      self.poll = nil
      Handle.close(poll)
    }
    return descriptor
  }
}
