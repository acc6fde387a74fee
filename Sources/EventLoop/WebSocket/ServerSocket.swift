// Why: the WebSocket half of a Connection, the server's side of RFC 6455 on the same Wire as HTTP. libwebsockets did this
// before; its wsi and buffers were most of what a resting connection cost, and a socket pair was needed for TLS (see
// docs/architecture.md). Whatever a resting connection doesn't need is made when it is needed and let go afterwards:
// the reader while a message is incomplete, the output while something waits, the ending once a close has begun.

final class ServerSocket: Carrier, ServedConnection, WireUser {
  /// What waits for the socket.
  final class Output {
    /// Whole frames, but for the first one's beginning, which may be out already.
    var bytes: [UInt8] = []
    var written = 0
    /// The answer to the newest ping: older ones need none (RFC 6455 section 5.5.3).
    var pong: [UInt8]?
    var hasPing = false
    /// Somebody was told to wait.
    var owesWritable = false

    var isWritten: Bool { written == bytes.count }
  }

  /// How it ends, once that has begun.
  final class Ending {
    let code: UInt16?
    let reason: String
    let deadline: Double
    /// The peer's close frame is here, or is not waited for: what is left is to write.
    var isSettled: Bool

    init(code: UInt16?, reason: String, deadline: Double, isSettled: Bool) {
      self.code = code
      self.reason = reason
      self.deadline = deadline
      self.isSettled = isSettled
    }
  }

  /// Answers that gather while one read is worked through, before who asks is told to wait.
  static let heldBytes = 65_536
  /// Seconds that a peer has for its part of the closing handshake.
  private static let closingSeconds = 5.0

  let connection: Connection
  /// Where it is among the host's WebSockets; nil once it is closing.
  var place: Int32?
  let wire: Wire
  unowned(unsafe) let host: ConnectionHost
  let path: DirectPath
  var allowance: InboundAllowance
  var reader: FrameReader?
  var output: Output?
  private(set) var ending: Ending?
  /// What is sent gathers, because more is to come in this turn.
  var isHeld = false
  /// Nothing is read, because what was read has not been dealt with yet.
  var isPaused = false
  var isOver = false

  init(_ wire: Wire, connection: Connection, host: ConnectionHost) {
    self.wire = wire
    self.connection = connection
    self.host = host
    allowance = InboundAllowance(host.options.inbound)
    let path = host.loop.directPaths.make(wire.descriptor, isSecure: wire.isSecure)
    self.path = path
    if let tls = wire.tls {
      host.loop.directPaths.connect(path, to: SecureEnd(ssl: tls.ssl, socket: self))
    }
    wire.user = self
  }

  /// Answers the handshake; what `opened` sends goes out with it.
  func open(_ answer: [UInt8]) {
    isHeld = true
    put(answer)
    connection.handler?.opened(connection)
    release()
  }

  // MARK: - Carrier

  var isOpen: Bool { ending == nil && !isOver }

  var incompleteSince: Double? { reader.flatMap { $0.isIdle || isPaused ? nil : $0.began } }

  var directPath: DirectPath? { path }

  func send(_ bytes: [UInt8]) -> Bool {
    guard isOpen else { return false }
    if let output {
      if isHeld, output.bytes.count < Self.heldBytes {
        output.bytes.append(contentsOf: bytes)
        return true
      }
      output.owesWritable = true
      return false
    }
    guard !isHeld else {
      makeOutput().bytes = bytes
      return true
    }
    let taken = write(bytes)
    guard taken < bytes.count else { return true }
    let output = makeOutput()
    if taken > 0 {
      output.bytes = Array(bytes[taken...])
    } else {
      output.owesWritable = true
    }
    updateEvents()
    return taken > 0
  }

  func finish(_ bytes: [UInt8], from taken: Int) {
    guard isOpen else { return }
    makeOutput().bytes.append(contentsOf: bytes[taken...])
    updateEvents()
  }

  /// A direct write found the connection broken.
  func writingFailed() {
    wire.tls?.fail()
    // Reading tells the rest.
    updateEvents()
  }

  func ping() {
    guard isOpen, output?.hasPing != true else { return }
    put([0x89, 0x00])
    output?.hasPing = true
  }

  func close(code: UInt16, reason: String) {
    if isOpen { end(code, reason, isSettled: false) }
  }

  // MARK: - Writing

  /// How many bytes went; with TLS what is begun is taken whole, see ``Wire/write(_:_:)``.
  private func write(_ bytes: [UInt8]) -> Int {
    let moved = bytes.withUnsafeBytes { buffer in
      buffer.baseAddress.map { wire.write($0, buffer.count) } ?? .bytes(0)
    }
    switch moved {
    case .bytes(let count): return count
    case .blocked where wire.isSecure:
      makeOutput().bytes = bytes
      updateEvents()
      return bytes.count
    // Full, or broken: that the next event shows.
    case .blocked, .ended, .failed: return 0
    }
  }

  /// A frame of the protocol itself, behind what waits.
  func put(_ frame: [UInt8]) {
    if let output {
      output.bytes.append(contentsOf: frame)
    } else if isHeld {
      makeOutput().bytes = frame
    } else {
      let taken = write(frame)
      guard taken < frame.count else { return }
      makeOutput().bytes = Array(frame[taken...])
    }
    updateEvents()
  }

  func makeOutput() -> Output {
    if let output { return output }
    let made = Output()
    output = made
    host.loop.directPaths.block(path)
    return made
  }

  /// Writes what gathered.
  /// - Parameter wasFull: something waited before; the socket will say when it has room. Trying each time that the peer says
  ///   something would put a byte into each gap, and somebody who reads nothing would look like a slow reader.
  func release(wasFull: Bool = false) {
    isHeld = false
    if output != nil, !wasFull { flush() }
    settle()
    updateEvents()
  }

  func flush() {
    guard !isHeld, !isOver, let output else { return settle() }
    while true {
      if output.isWritten, let pong = output.pong, ending == nil {
        output.bytes = pong
        output.written = 0
        output.pong = nil
      }
      guard !output.isWritten else { break }
      let written = output.written
      let moved = output.bytes.withUnsafeBytes { buffer in
        buffer.baseAddress.map { wire.write($0 + written, buffer.count - written) } ?? .blocked
      }
      switch moved {
      case .bytes(let count): output.written += count
      case .blocked: return
      case .ended, .failed: return abort()
      }
    }
    self.output = nil
    if output.owesWritable, isOpen { connection.handler?.writable(connection) }
    settle()
  }

  /// After each change: whoever has nothing pending may be written to directly, and whoever has ended and said so leaves.
  private func settle() {
    guard output == nil, !isOver else { return }
    if ending?.isSettled == true { return leave() }
    if ending == nil { host.loop.directPaths.open(path) }
  }

  func updateEvents() {
    guard !isOver else { return }
    var wanted: Wire.Events = ending?.isSettled == true || isPaused ? [] : .readable
    if let output, !isHeld, !output.isWritten || output.owesWritable { wanted.insert(.writable) }
    wire.want(wanted)
  }

  // MARK: - The end

  /// Ends it with a code of ours.
  func end(_ code: UInt16, _ reason: String, isSettled: Bool) {
    let body = [UInt8(code >> 8), UInt8(code & 0xff)] + closeReasonBytes(reason)
    begin(code, reason, isSettled: isSettled, body)
  }

  /// - Parameter body: the close frame's.
  func begin(_ code: UInt16?, _ reason: String, isSettled: Bool, _ body: [UInt8]) {
    let deadline = host.loop.now + Self.closingSeconds
    ending = Ending(code: code, reason: reason, deadline: deadline, isSettled: isSettled)
    host.loop.directPaths.block(path)
    host.closeBegan(self)
    put([0x88, UInt8(body.count)] + body)
  }

  /// Everything is said: the peer's rest is read for a moment, see ``Farewell``.
  private func leave() {
    gone()
    host.replace(self, with: Farewell(wire, host: host))
  }

  func check(_ now: Double) {
    if let ending, ending.deadline < now { abort() }
  }

  func drain() {}

  func abort() {
    guard !isOver else { return }
    gone()
    wire.close()
    host.forget(self)
  }

  private func gone() {
    isOver = true
    host.loop.directPaths.forget(path)
    host.closeBegan(self)
    output = nil
    reader = nil
    let connection = self.connection
    let (code, reason) = (ending?.code, ending?.reason ?? "")
    host.loop.soon { connection.ended(code: code, reason: reason) }
  }
}
