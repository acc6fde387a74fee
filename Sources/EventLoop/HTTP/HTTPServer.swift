// Why: what is particular to a port: the listener, its certificates, the service that answers. What it has brought in is the
// ConnectionHost's.

import CLibuv
import Glibc

/// A listening port with its connections, on one ``EventLoop``. The loop keeps it alive.
public final class HTTPServer: ConnectionHost {
  /// The host it listens on, as given.
  public let host: String
  /// The port it listens on.
  public let port: UInt16

  /// Connections that were accepted since it listens.
  public private(set) var acceptedCount = 0

  let service: any HTTPService
  private(set) var tls: TLSContext?
  private(set) var isClosing = false
  private let gate: ConnectionGate
  private var turnedAway = TurnedAway()
  private var listener: Listener?
  private var dateSecond: time_t = -1
  private var dateText = ""

  /// Listens at once; connections are accepted while the loop runs.
  /// - Parameter gate: counts the connections; several ports may share one.
  /// - Throws: ``EventLoopError``.
  public init(
    loop: EventLoop, options: ServerOptions, gate: ConnectionGate = ConnectionGate(), service: any HTTPService
  ) throws {
    self.gate = gate
    self.service = service
    host = options.host
    tls = try options.tls.map { identity throws(EventLoopError) in try TLSContext(identity) }
    let accepted = Accepted()
    let listener = try Listener(
      loop: loop, host: options.host, port: options.port, backlog: options.backlog,
      unsentBytes: options.unsentBytes,
      starved: { descriptor in
        accepted.server?.service.noticed(.noDescriptors, from: "")
        guard let descriptor else { return }
        guard let server = accepted.server else { return _ = Glibc.close(descriptor) }
        server.turnAway(descriptor, lingers: false)
      }
    ) { descriptor, address in
      guard let server = accepted.server else { return _ = Glibc.close(descriptor) }
      server.accept(descriptor, address)
    }
    port = listener.port
    self.listener = listener
    super.init(on: loop, options)
    accepted.server = self
    begin()
  }

  /// Closes the listening socket and the connections that rest between two requests. What is being served
  /// goes on. Idempotent.
  public func stopAccepting() {
    guard !isClosing else { return }
    isClosing = true
    listener?.stop()
    listener = nil
    for connection in connections.values { connection.drain() }
  }

  /// Reads certificates and keys anew, for the connections that come from now on; older ones keep theirs. A port that was made
  /// without TLS stays in the clear.
  /// - Throws: ``EventLoopError/badTLSFile(path:reason:)``; everything is as before then.
  public func reload(tls identity: TLSIdentity) throws {
    let fresh = try TLSContext(identity)
    // A port is secure or not from its beginning: clients that are connecting must not see it change.
    if tls != nil { tls = fresh }
  }

  /// When the server's certificate expires, in seconds since 1970; nil in the clear. An expired certificate is served like any
  /// other, and clients refuse it.
  public var certificateExpiry: Int? { tls?.notAfter }

  override func loopEnds() {
    stopAccepting()
    super.loopEnds()
    turnedAway.closeThose(before: .infinity)
  }

  private func accept(_ descriptor: Int32, _ remoteAddress: String) {
    acceptedCount += 1
    let address = NetworkAddress(remoteAddress)
    if let refusal = gate.enter(descriptor, from: address) {
      service.noticed(.tooManyConnections(refusal), from: refusal == .tooMany ? "" : remoteAddress)
      return turnAway(descriptor, lingers: true)
    }
    if var size = options.sendBufferBytes {
      setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    }
    guard let wire = Wire(loop: loop, descriptor: descriptor, gate: gate) else {
      gate.leave(descriptor)
      Glibc.close(descriptor)
      return
    }
    add(Arrival(wire, remoteAddress: remoteAddress, address: address, server: self))
  }

  override func checkAll() {
    super.checkAll()
    turnedAway.closeThose(before: loop.now)
  }

  private func turnAway(_ descriptor: Int32, lingers: Bool) {
    let answer = tls == nil ? Self.full.head(length: Self.full.body.count, keepAlive: false, date: date) : []
    turnedAway.add(
      descriptor, answer.isEmpty ? [] : answer + Self.full.body, lingers: lingers, now: loop.now)
  }

  /// What a client in the clear is told that is one too many, whatever it was about to ask.
  private static let full = HTTPResponse(
    status: 503,
    headers: [("content-type", "application/json"), ("retry-after", "5")],
    body: Array(
      "{\"reason\":\"ServiceUnavailable\",\"message\":\"there are too many connections; come back later\"}\n"
        .utf8))

  // MARK: - For connections

  /// The wire goes on as a WebSocket, which begins with `answer`.
  func becomeWebSocket(_ wire: Wire, _ answer: [UInt8], _ connection: Connection, _ from: HTTPConnection) {
    forget(from)
    let socket = ServerSocket(wire, connection: connection, host: self)
    add(socket)
    connection.attach(socket)
    socket.open(answer)
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
