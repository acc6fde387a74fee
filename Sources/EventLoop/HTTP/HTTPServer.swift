// Why: the list of what a listening port has brought in. Deadlines are checked by one sweep over the
// connections that still are HTTP, not by a timer each.

import CLibuv
import Glibc

/// A listening port with its connections, on one ``EventLoop``. The loop keeps it alive.
public final class HTTPServer: LoopResource {
  /// The host it listens on, as given.
  public let host: String
  /// The port it listens on.
  public let port: UInt16
  /// Connections that are open in any form: HTTP, event streams and WebSockets.
  public var connectionCount: Int { connections.count + webSocketCount }

  let loop: EventLoop
  let options: ServerOptions
  let service: any HTTPService
  /// Where every read of this loop goes first.
  var scratch = [UInt8](repeating: 0, count: 65_536)
  private(set) var isClosing = false
  private var listener: Listener?
  private var sweep: LoopTimer?
  private var connections: [ObjectIdentifier: HTTPConnection] = [:]
  private var webSocketCount = 0
  private var dateSecond: time_t = -1
  private var dateText = ""

  /// Listens at once; connections are accepted while the loop runs.
  /// - Throws: ``EventLoopError``.
  public init(loop: EventLoop, options: ServerOptions, service: any HTTPService) throws {
    self.loop = loop
    self.options = options
    self.service = service
    host = options.host
    // Made now, so that a missing plugin is an error of the start and not of the first handshake.
    _ = try loop.websocketsContext()
    let accepted = Accepted()
    let listener = try Listener(
      loop: loop, host: options.host, port: options.port, backlog: options.backlog
    ) { descriptor, address in
      guard let server = accepted.server else { return _ = Glibc.close(descriptor) }
      server.accept(descriptor, address)
    }
    port = listener.port
    self.listener = listener
    accepted.server = self
    loop.keep(self)
    let period = max(0.02, min(0.5, min(options.handshakeTimeout, options.idleTimeout) / 4))
    sweep = loop.schedule(after: period, every: period) { [weak self] in self?.closeExpired() }
  }

  /// Closes the listening socket and the connections that rest between two requests. What is being served
  /// goes on. Idempotent.
  public func stopAccepting() {
    guard !isClosing else { return }
    isClosing = true
    listener?.stop()
    listener = nil
    for connection in connections.values { connection.closeIfResting() }
  }

  func loopEnds() {
    stopAccepting()
    sweep?.cancel()
    for connection in connections.values { connection.abort() }
    connections = [:]
  }

  private func accept(_ descriptor: Int32, _ address: String) {
    if var size = options.sendBufferBytes {
      setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    }
    guard let connection = HTTPConnection(descriptor: descriptor, remoteAddress: address, server: self) else {
      Glibc.close(descriptor)
      return
    }
    connections[ObjectIdentifier(connection)] = connection
  }

  private func closeExpired() {
    let now = loop.now
    for connection in connections.values where connection.deadline < now { connection.expire() }
  }

  // MARK: - For HTTPConnection

  func forget(_ connection: HTTPConnection) { connections[ObjectIdentifier(connection)] = nil }

  /// Hands the socket over to lws. `from` has given up its poll handle on the descriptor.
  func becomeWebSocket(
    _ descriptor: Int32, _ handshake: [UInt8], _ connection: Connection, _ from: HTTPConnection
  ) {
    forget(from)
    guard let context = try? loop.websocketsContext() else { return _ = Glibc.close(descriptor) }
    webSocketCount += 1
    let socket = ServerSocket(
      connection: connection, loop: loop, maxMessageBytes: options.maxMessageBytes
    ) { [weak self] in self?.webSocketCount -= 1 }
    connection.attach(socket)
    guard context.adopt(descriptor, handshake: handshake, endpoint: socket) else {
      // The peer left in the middle: it never was a connection, nobody has heard of it.
      webSocketCount -= 1
      return
    }
    connection.handler?.opened(connection)
  }

  /// The time in the form of RFC 9110 section 5.6.7, made once a second.
  var date: String {
    var second = time(nil)
    guard second != dateSecond else { return dateText }
    dateSecond = second
    var parts = tm()
    gmtime_r(&second, &parts)
    let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    dateText =
      "\(days[Int(parts.tm_wday)]), \(two(parts.tm_mday)) \(months[Int(parts.tm_mon)]) "
      + "\(parts.tm_year + 1900) \(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) GMT"
    return dateText
  }
}

/// The listener exists before the server is whole.
private final class Accepted {
  weak var server: HTTPServer?
}
