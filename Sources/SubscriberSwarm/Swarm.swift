// Why: ten thousand connections on one thread, at the price of a descriptor, a slot and what the kernel keeps. The swarm has
// an epoll set of its own, and that set's descriptor is readable when one of its connections is (epoll(7): "an epoll file
// descriptor is itself poll/epoll/selectable"), so that it joins any loop that can watch a descriptor.

import CLinux
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

/// Many WebSocket connections to one server. Confined to one thread.
public final class Swarm {
  /// A connection. An id is never used again.
  public struct ID: Hashable, Sendable {
    let slot: Int
    let generation: Int
  }

  /// Why a swarm can't be made or a server's name not be found.
  public struct Failure: Error, CustomStringConvertible {
    /// What was wrong.
    public let description: String
  }

  /// How a swarm speaks TLS.
  public struct Security: Sendable {
    /// A PEM file of the authorities that are trusted; nil for the system's.
    public var authority: String?

    /// Trusts the authorities of a file, or the system's.
    public init(authority: String? = nil) { self.authority = authority }
  }

  struct Link {
    var descriptor: Int32
    var generation: Int
    var tag: Int
    /// TLS, on a secure connection.
    var secure: SwarmTLSSession?
    var isConnected = false
    /// Whether bytes of ours may be written: after TLS' handshake, where there is one.
    var isReady = false
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

  var links: [Link?] = []
  var room = [UInt8](repeating: 0, count: 131_072)
  var events = [epoll_event](repeating: epoll_event(), count: 512)
  private var free: [Int] = []
  private var generation = 0
  private var mask: UInt32 = 0x9E37_79B9
  private let address: sockaddr_storage
  private let addressLength: socklen_t
  private let host: String
  private let tls: SwarmTLS?

  /// The smallest receive buffer that Linux makes is 2,304 bytes; 536 is the smallest segment that all of IPv4 takes (RFC
  /// 879).
  private static let narrow: (receiveBuffer: Int32, segment: Int32) = (2_304, 536)

  /// Makes a swarm for one server.
  ///
  /// - Parameter security: how it speaks TLS; nil for not at all.
  /// - Throws: when the host has no address, the authority's file can't be used, or the system gives no epoll descriptor.
  public init(host: String, port: UInt16, security: Security? = nil) throws(Failure) {
    let name = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
    (address, addressLength) = try Self.resolve(name, port)
    self.host = "\(host):\(port)"
    tls =
      if let security { try SwarmTLS(host: name, authority: security.authority) } else { nil }
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard descriptor >= 0 else { throw Failure(description: "no epoll descriptor: \(Self.lastError)") }
  }

  deinit {
    for case .some(let link) in links { Glibc.close(link.descriptor) }
    Glibc.close(descriptor)
  }

  static var lastError: String { String(cString: strerror(errno)) }

  private static func resolve(
    _ host: String, _ port: UInt16
  ) throws(Failure) -> (sockaddr_storage, socklen_t) {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, String(port), &hints, &found) == 0, let first = found,
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
  ///   - headers: further ones of the handshake, such as a token; no line breaks in them.
  ///   - isNarrow: whether the kernel is to keep little for a reader that doesn't read, so that the server notices soon.
  /// - Returns: nil when the system gives no descriptor, or the connection is refused at once.
  public func connect(
    path: String, tag: Int, headers: [(String, String)] = [], isNarrow: Bool = false
  ) -> ID? {
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
    let isUnderWay = connected == 0 || errno == EINPROGRESS
    let secure = tls?.session(on: socket)
    guard isUnderWay, tls == nil || secure != nil else {
      Glibc.close(socket)
      return nil
    }
    generation += 1
    let slot = free.popLast() ?? links.count
    if slot == links.count { links.append(nil) }
    let id = ID(slot: slot, generation: generation)
    var link = Link(
      descriptor: socket, generation: generation, tag: tag, secure: secure, interest: Self.writable)
    link.pending = Handshake.request(path: path, host: host, headers: headers)
    links[slot] = link
    guard control(EPOLL_CTL_ADD, id) else {
      links[slot] = nil
      free.append(slot)
      Glibc.close(socket)
      return nil
    }
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

  subscript(_ id: ID) -> Link? {
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

  func fail(_ id: ID, code: UInt16? = nil, _ problem: String? = nil) {
    guard let link = self[id] else { return }
    remove(id)
    handler?.closed(id, tag: link.tag, code: code, problem: problem, wasOpen: link.isOpen)
  }

  func nextMask() -> UInt32 {
    mask = mask &* 1_664_525 &+ 1_013_904_223
    return mask
  }
}
