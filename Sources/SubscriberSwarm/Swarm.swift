// Why: ten thousand connections on one thread, at the price of a descriptor, a slot and what the kernel keeps. The swarm has
// an epoll set of its own, and that set's descriptor is readable when one of its connections is (epoll(7): "an epoll file
// descriptor is itself poll/epoll/selectable"), so that it joins any loop that can watch a descriptor.

import CEpoll
import Glibc

/// What a swarm tells of its connections. Each is known by the tag that it was given.
public protocol SwarmHandler: AnyObject {
  /// The handshake is done.
  func opened(_ connection: Swarm.ID, tag: Int)
  /// A text message came. The slice must not be kept: it is the swarm's own memory.
  func received(_ text: ArraySlice<UInt8>, _ connection: Swarm.ID, tag: Int)
  /// The connection is gone, or never came about. Not told for what was closed from this side.
  func closed(_ connection: Swarm.ID, tag: Int, code: UInt16?, problem: String?, wasOpen: Bool)
}

/// Many WebSocket connections to one server, without TLS. Confined to one thread.
public final class Swarm {
  /// A connection. An id is never used again.
  public struct ID: Hashable, Sendable {
    fileprivate let slot: Int
    fileprivate let generation: Int
  }

  /// Why a swarm can't be made or a server's name not be found.
  public struct Failure: Error, CustomStringConvertible {
    /// What was wrong.
    public let description: String
  }

  private struct Link {
    var descriptor: Int32
    var generation: Int
    var tag: Int
    var isConnected = false
    var isOpen = false
    var isPaused = false
    /// What came of a message that isn't whole.
    var partial: [UInt8] = []
    /// What the socket didn't take.
    var pending: [UInt8] = []
    var interest: UInt32
  }

  /// Readable when a connection has something to say: watch it and call ``turn()``.
  public let descriptor: Int32
  /// Told what happens.
  public weak var handler: (any SwarmHandler)?
  /// Bytes that were received.
  public private(set) var receivedBytes = 0

  private var links: [Link?] = []
  private var free: [Int] = []
  private var generation = 0
  private var room = [UInt8](repeating: 0, count: 131_072)
  private var events = [epoll_event](repeating: epoll_event(), count: 512)
  private var mask: UInt32 = 0x9E37_79B9
  private let address: sockaddr_storage
  private let addressLength: socklen_t
  private let host: String

  /// The smallest receive buffer that Linux makes is 2,304 bytes; 536 is the smallest segment that all of IPv4 takes (RFC
  /// 879).
  private static let narrow: (receiveBuffer: Int32, segment: Int32) = (2_304, 536)
  private static let readable = UInt32(EPOLLIN.rawValue)
  private static let writable = UInt32(EPOLLOUT.rawValue)
  private static let broken = UInt32(EPOLLERR.rawValue | EPOLLHUP.rawValue)

  /// Makes a swarm for one server.
  ///
  /// - Throws: when the host has no address, or the system gives no epoll descriptor.
  public init(host: String, port: UInt16) throws(Failure) {
    (address, addressLength) = try Self.resolve(host, port)
    self.host = "\(host):\(port)"
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard descriptor >= 0 else { throw Failure(description: "no epoll descriptor: \(Self.lastError)") }
  }

  deinit {
    for case .some(let link) in links { Glibc.close(link.descriptor) }
    Glibc.close(descriptor)
  }

  private static var lastError: String { String(cString: strerror(errno)) }

  private static func resolve(
    _ host: String, _ port: UInt16
  ) throws(Failure) -> (sockaddr_storage, socklen_t) {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    let name = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
    guard getaddrinfo(name, String(port), &hints, &found) == 0, let first = found,
      let address = first.pointee.ai_addr
    else { throw Failure(description: "\(host) has no address") }
    defer { freeaddrinfo(first) }
    var storage = sockaddr_storage()
    let length = first.pointee.ai_addrlen
    withUnsafeMutableBytes(of: &storage) {
      $0.copyMemory(from: UnsafeRawBufferPointer(start: address, count: Int(length)))
    }
    return (storage, length)
  }

  // MARK: Connections

  /// Starts to connect.
  ///
  /// - Parameters:
  ///   - path: encoded, with its query.
  ///   - isNarrow: whether the kernel is to keep little for a reader that doesn't read, so that the server notices soon.
  /// - Returns: nil when the system gives no descriptor, or the connection is refused at once.
  public func connect(path: String, tag: Int, isNarrow: Bool = false) -> ID? {
    let socket = Glibc.socket(
      Int32(address.ss_family), Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue),
      0)
    guard socket >= 0 else { return nil }
    var on: Int32 = 1
    setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    if isNarrow {
      // Before connect(): the window and the segment size that are offered depend on them (tcp(7)). The far end's send buffer
      // grows with its segments, and those of loopback have 64 KB: it would hold a megabyte.
      var bytes = Self.narrow.receiveBuffer
      setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
      var segment = Self.narrow.segment
      setsockopt(socket, Int32(IPPROTO_TCP), TCP_MAXSEG, &segment, socklen_t(MemoryLayout<Int32>.size))
    }
    var address = address
    let connected = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(socket, $0, addressLength) }
    }
    guard connected == 0 || errno == EINPROGRESS else {
      Glibc.close(socket)
      return nil
    }
    generation += 1
    let slot = free.popLast() ?? links.count
    if slot == links.count { links.append(nil) }
    let id = ID(slot: slot, generation: generation)
    var link = Link(descriptor: socket, generation: generation, tag: tag, interest: Self.writable)
    link.pending = Handshake.request(path: path, host: host)
    links[slot] = link
    control(EPOLL_CTL_ADD, id)
    return id
  }

  /// How many connections there are, open or not.
  public var count: Int { links.count - free.count }

  /// Sends a text message; what the socket doesn't take waits.
  public func send(_ text: [UInt8], on id: ID) {
    guard self[id]?.isOpen == true else { return }
    write(FrameReader.frame(opcode: 1, text, mask: nextMask()), on: id)
  }

  /// Stops reading, or reads again.
  public func setPaused(_ isPaused: Bool, _ id: ID) {
    guard self[id] != nil else { return }
    links[id.slot]?.isPaused = isPaused
    updateInterest(id)
  }

  /// Closes a connection, politely or by a reset. The handler isn't told.
  public func close(_ id: ID, reset: Bool = false) {
    guard let link = self[id] else { return }
    if reset {
      // close() with a linger time of 0 sends RST (socket(7)).
      var linger = linger(l_onoff: 1, l_linger: 0)
      setsockopt(link.descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
    } else if link.isOpen, link.pending.isEmpty {
      write(FrameReader.frame(opcode: 8, [0x03, 0xE8], mask: nextMask()), on: id)
    }
    remove(id)
  }

  private subscript(_ id: ID) -> Link? {
    guard id.slot < links.count, let link = links[id.slot], link.generation == id.generation else {
      return nil
    }
    return link
  }

  private func remove(_ id: ID) {
    guard let link = self[id] else { return }
    Glibc.close(link.descriptor)
    links[id.slot] = nil
    free.append(id.slot)
  }

  private func fail(_ id: ID, code: UInt16? = nil, _ problem: String? = nil) {
    guard let link = self[id] else { return }
    remove(id)
    handler?.closed(id, tag: link.tag, code: code, problem: problem, wasOpen: link.isOpen)
  }

  private func nextMask() -> UInt32 {
    mask = mask &* 1_664_525 &+ 1_013_904_223
    return mask
  }

  // MARK: The kernel

  private func control(_ operation: Int32, _ id: ID) {
    guard let link = self[id] else { return }
    var event = epoll_event()
    event.events = link.interest
    event.data.u64 = UInt64(UInt32(id.slot)) | UInt64(UInt32(truncatingIfNeeded: id.generation)) << 32
    epoll_ctl(descriptor, operation, link.descriptor, &event)
  }

  private func updateInterest(_ id: ID) {
    guard let link = self[id] else { return }
    let interest =
      (link.isPaused || !link.isConnected ? 0 : Self.readable)
      | (link.pending.isEmpty ? 0 : Self.writable)
    guard interest != link.interest else { return }
    links[id.slot]?.interest = interest
    control(EPOLL_CTL_MOD, id)
  }

  /// Takes what the kernel has. Bounded, so that timers of the loop get their turn.
  public func turn() {
    let most = Int32(events.count)
    let count = Int(epoll_wait(descriptor, &events, most, 0))
    guard count > 0 else { return }
    for index in 0..<count {
      let event = events[index]
      let slot = Int(event.data.u64 & 0xFFFF_FFFF)
      guard slot < links.count, let link = links[slot],
        UInt32(truncatingIfNeeded: link.generation) == UInt32(event.data.u64 >> 32)
      else { continue }
      let id = ID(slot: slot, generation: link.generation)
      if event.events & Self.writable != 0 || !link.isConnected { flush(id) }
      if event.events & Self.readable != 0 {
        read(id)
      } else if event.events & Self.broken != 0 {
        fail(id, link.isConnected ? "connection reset" : "connection refused")
      }
    }
  }

  private func write(_ bytes: [UInt8], on id: ID) {
    guard let link = self[id] else { return }
    guard link.pending.isEmpty else {
      links[id.slot]?.pending += bytes
      return
    }
    let sent = bytes.withUnsafeBytes {
      Glibc.send(link.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
    }
    // An error shows up on reading, too.
    guard sent < bytes.count, sent >= 0 || errno == EAGAIN else { return }
    links[id.slot]?.pending = Array(bytes[max(0, sent)...])
    updateInterest(id)
  }

  private func flush(_ id: ID) {
    guard let link = self[id] else { return }
    if !link.isConnected {
      var problem: Int32 = 0
      var size = socklen_t(MemoryLayout<Int32>.size)
      getsockopt(link.descriptor, SOL_SOCKET, SO_ERROR, &problem, &size)
      guard problem == 0 else { return fail(id, String(cString: strerror(problem))) }
      links[id.slot]?.isConnected = true
    }
    let bytes = link.pending
    links[id.slot]?.pending = []
    if !bytes.isEmpty { write(bytes, on: id) }
    updateInterest(id)
  }

  private func read(_ id: ID) {
    guard let link = self[id], !link.isPaused else { return }
    let kept = link.partial.count
    guard kept < room.count / 2 else { return fail(id, "an answer that never ends") }
    if kept > 0 {
      room.replaceSubrange(0..<kept, with: link.partial)
      links[id.slot]?.partial = []
    }
    let count = room.withUnsafeMutableBytes { buffer in
      recv(link.descriptor, buffer.baseAddress.map { $0 + kept }, buffer.count - kept, 0)
    }
    guard count > 0 else {
      if count < 0, errno == EAGAIN || errno == EINTR {
        links[id.slot]?.partial = Array(room[..<kept])
        return
      }
      return fail(id, count == 0 ? "connection closed" : Self.lastError)
    }
    receivedBytes += count
    take(kept + count, id)
  }

  /// Takes apart what stands at the beginning of the room.
  private func take(_ end: Int, _ id: ID) {
    var start = 0
    if self[id]?.isOpen == false {
      guard let answer = Handshake.read(room[..<end]) else {
        guard end <= Handshake.largest else { return fail(id, "no WebSocket handshake was answered") }
        links[id.slot]?.partial = Array(room[..<end])
        return
      }
      guard answer.isOpen, let tag = self[id]?.tag else { return fail(id, "answered \(answer.status)") }
      links[id.slot]?.isOpen = true
      start = answer.end
      handler?.opened(id, tag: tag)
    }
    do throws(BrokenFrame) {
      while let link = self[id], let frame = try FrameReader.read(room, from: start, to: end) {
        start = frame.end
        switch frame.message {
        case .text(let data): handler?.received(room[data], id, tag: link.tag)
        case .ping(let data): write(FrameReader.frame(opcode: 10, room[data], mask: nextMask()), on: id)
        case .pong: break
        case .close(let code):
          write(FrameReader.frame(opcode: 8, [], mask: nextMask()), on: id)
          return fail(id, code: code)
        }
      }
    } catch {
      return fail(id, error.problem)
    }
    if start < end, self[id] != nil { links[id.slot]?.partial = Array(room[start..<end]) }
  }
}
