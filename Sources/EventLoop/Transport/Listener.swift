// Why: uv_listen() would make each accepted socket a uv_tcp_t with libuv's own reading and writing; ours are plain
// descriptors under a poll handle, see Wire.
//
// Without descriptors accept(2) fails and the listener stays readable, so a loop would spin, and clients would hang until they
// gave up. A spare descriptor gets each of them an answer instead.

import CLibuv
import CLinux
import Glibc

final class Listener: LoopResource {
  let port: UInt16
  private unowned(unsafe) let loop: EventLoop
  private let descriptor: Int32
  private var poll: UnsafeMutablePointer<uv_poll_t>?
  private var pause: LoopTimer?
  private let accepted: (Int32, String) -> Void
  private let starved: (Int32?) -> Void
  private var spare = SpareDescriptor()

  /// - Parameters:
  ///   - unsentBytes: see ``ServerOptions/unsentBytes``.
  ///   - starved: told when there are no descriptors left. It owns the one it gets, if any, and must close it at once.
  ///   - accepted: owns the descriptor it gets; the second argument is the peer's address.
  init(
    loop: EventLoop, host: String, port: UInt16, backlog: Int32, unsentBytes: Int32,
    starved: @escaping (Int32?) -> Void, accepted: @escaping (Int32, String) -> Void
  ) throws {
    self.loop = loop
    self.accepted = accepted
    self.starved = starved
    (descriptor, self.port) = try Self.listen(
      host: host, port: port, backlog: backlog, unsentBytes: unsentBytes)
    let poll = UnsafeMutablePointer<uv_poll_t>.allocate(capacity: 1)
    let made = uv_poll_init(loop.uv, poll, descriptor)
    guard loop.acceptsResources, made == 0 else {
      poll.deallocate()
      Glibc.close(descriptor)
      throw EventLoopError.cannotListen(address: joinAddress(host, port), reason: describe(uvError: made))
    }
    Handle.attach(poll, to: self)
    self.poll = poll
    loop.keep(self)
    resume()
  }

  /// Closes the socket; the kernel refuses new connections from now on. Idempotent.
  func stop() {
    guard let poll else { return }
    self.poll = nil
    pause?.cancel()
    pause = nil
    loop.release(self)
    Handle.close(poll)
    Glibc.close(descriptor)
    _ = spare.giveUp()
  }

  func loopEnds() { stop() }

  private func resume() {
    guard let poll else { return }
    uv_poll_start(poll, Int32(UV_READABLE.rawValue)) { handle, _, _ in
      Handle.owner(of: handle, as: Listener.self)?.acceptSome()
    }
  }

  /// Bounded, so that a flood of connections does not starve the ones that exist.
  private func acceptSome() {
    for _ in 0..<64 {
      guard poll != nil else { return }
      var address = sockaddr_storage()
      var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
      let peer = accept(&address, &size)
      guard peer >= 0 else {
        switch errno {
        case EINTR, ECONNABORTED: continue
        case EMFILE, ENFILE:
          guard turnAwayOne() else { return rest() }
          continue
        case ENOBUFS, ENOMEM: return rest()
        default: return
        }
      }
      accepted(peer, numericHost(&address, size))
    }
  }

  private func accept(_ address: inout sockaddr_storage, _ size: inout socklen_t) -> Int32 {
    withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        Statics.withProcessLock { shim_accept(descriptor, address, &size) }
      }
    }
  }

  /// Accepts with the spare descriptor. `false` when that fails, too: another thread, or process, has taken it.
  private func turnAwayOne() -> Bool {
    guard spare.giveUp() else { return false }
    defer { spare.refill() }
    var address = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let peer = accept(&address, &size)
    guard peer >= 0 else { return errno == EAGAIN }
    starved(peer)
    return true
  }

  /// The listener stays readable: polling on would only burn the processor.
  private func rest() {
    guard let poll else { return }
    uv_poll_stop(poll)
    starved(nil)
    pause = loop.schedule(after: 0.1) { [weak self] in
      self?.spare.refill()
      self?.resume()
    }
  }

  private static func listen(
    host: String, port: UInt16, backlog: Int32, unsentBytes: Int32
  ) throws -> (descriptor: Int32, port: UInt16) {
    let name = joinAddress(host, port)
    var hints = addrinfo()
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    let numeric = host == "localhost" ? "127.0.0.1" : host
    let looked = getaddrinfo(numeric, String(port), &hints, &found)
    defer { if let found { freeaddrinfo(found) } }
    guard looked == 0, let info = found?.pointee else {
      throw EventLoopError.badAddress(address: name, reason: String(cString: gai_strerror(looked)))
    }
    let flags = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = Statics.withProcessLock { socket(info.ai_family, flags, 0) }
    guard descriptor >= 0 else {
      throw EventLoopError.cannotListen(address: name, reason: describe(errno: errno))
    }
    var on: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
    // Whoever is accepted has these from here, without a call for each (sk_clone_lock in Linux' net/core/sock.c).
    setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    var unsent = unsentBytes
    setsockopt(
      descriptor, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, &unsent, socklen_t(MemoryLayout<Int32>.size))
    guard bind(descriptor, info.ai_addr, info.ai_addrlen) == 0, Glibc.listen(descriptor, backlog) == 0 else {
      let code = errno
      Glibc.close(descriptor)
      switch code {
      case EADDRINUSE: throw EventLoopError.portInUse(address: name)
      case EACCES, EPERM: throw EventLoopError.notPermitted(address: name)
      case EADDRNOTAVAIL: throw EventLoopError.badAddress(address: name, reason: describe(errno: code))
      default: throw EventLoopError.cannotListen(address: name, reason: describe(errno: code))
      }
    }
    return (descriptor, boundPort(descriptor))
  }
}

private func boundPort(_ descriptor: Int32) -> UInt16 {
  var address = sockaddr_storage()
  var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
  return withUnsafeMutablePointer(to: &address) { pointer in
    _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
    // The port lies at the same place in sockaddr_in and sockaddr_in6.
    return pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
      UInt16(bigEndian: $0.pointee.sin_port)
    }
  }
}

private func numericHost(_ address: inout sockaddr_storage, _ size: socklen_t) -> String {
  var name = [CChar](repeating: 0, count: Int(NI_MAXHOST))
  let failed = withUnsafePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      getnameinfo($0, size, &name, socklen_t(name.count), nil, 0, NI_NUMERICHOST)
    }
  }
  guard failed == 0 else { return "" }
  let text = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  return text.hasPrefix("::ffff:") ? String(text.dropFirst(7)) : text
}
