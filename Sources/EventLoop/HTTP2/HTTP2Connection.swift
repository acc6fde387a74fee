// Why: one socket that speaks HTTP/2, from the preface until it closes. What nghttp2 has to say is gathered and written once for
// each turn of the loop, through a buffer that all connections of a server share; only what a slow peer does not take is kept.
// While something is kept nothing more is asked of nghttp2 and nothing more is read, so that a peer which sends without reading
// fills its own socket and not our memory.

final class HTTP2Connection: ServedConnection, WireUser {
  /// The first bytes of a client (RFC 9113 section 3.4).
  static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
  /// Bytes written together; four TLS records.
  private static let batchBytes = 65_536
  /// Batches in a turn of the loop: a fast reader of a long answer must not keep the others waiting.
  private static let batchesATurn = 8

  let loop: EventLoop
  let options: ServerOptions
  private let wire: Wire
  let peer: HTTPPeer
  private unowned(unsafe) let server: HTTPServer
  private(set) var session: HTTP2Session?
  var streams: [Int32: HTTP2Stream] = [:]
  var ready: [HTTP2Stream] = []
  /// Bytes of answers that nghttp2 has not taken yet.
  var waitingAnswerBytes = 0
  private var output: [UInt8] = []
  private var written = 0
  private var blockedSince: Double?
  var guardian: FloodGuard
  private var lastHeard: Double
  private let began: Double
  var sawSettings = false
  private var isInside = false
  private var isFlushDue = false
  private var isDraining = false
  private var peerEnded = false

  init?(_ wire: Wire, peer: HTTPPeer, server: HTTPServer) {
    self.wire = wire
    self.peer = peer
    self.server = server
    loop = server.loop
    options = server.options
    began = server.loop.now
    lastHeard = began
    guardian = FloodGuard(server.options.http2, now: lastHeard)
    session = HTTP2Session(owner: self, options: server.options)
    guard session != nil else { return nil }
    wire.user = self
  }

  /// Begins with what was read already.
  func start(_ input: [UInt8]) {
    input.withUnsafeBytes { receive($0) }
    flush()
  }

  var now: Double { loop.now }
  var date: String { server.date }
  var isOpen: Bool { session != nil }
  /// Whether the socket is full.
  var isBlocked: Bool { written < output.count }

  // MARK: - In

  func isReady(_ wire: Wire, _ events: Wire.Events) {
    if events.contains(.failed) { return abort() }
    if events.contains(.readable), !isBlocked { read() }
    flush()
  }

  private func read() {
    switch server.scratch.withUnsafeMutableBytes({ wire.read(into: $0) }) {
    case .blocked: return
    case .failed: abort()
    case .ended: ended()
    case .bytes(let count):
      // Taken out, because answers are written while it is looked at.
      let scratch = server.scratch
      scratch.withUnsafeBytes { receive(UnsafeRawBufferPointer(rebasing: $0.prefix(count))) }
    }
  }

  private func receive(_ bytes: UnsafeRawBufferPointer) {
    guard let session, !bytes.isEmpty else { return }
    lastHeard = now
    // What is answered meanwhile goes out together, when all of it was looked at.
    isInside = true
    defer { isInside = false }
    let fault = session.receive(bytes)
    if let fault { return end(with: fault) }
    askThoseReady()
  }

  /// Who opens streams and reads no answer must not fill our memory with them: the rest waits, each until its own deadline.
  private func askThoseReady() {
    while !ready.isEmpty, waitingAnswerBytes < options.http2.maxWaitingAnswerBytes {
      ask(ready.removeFirst())
    }
  }

  /// The peer says no more, but may read the answers it waits for.
  private func ended() {
    peerEnded = true
    let isWaitedFor = streams.values.contains { stream in
      switch stream.phase {
      case .ready, .asked, .answered: true
      default: false
      }
    }
    guard isWaitedFor else { return abort() }
    drain()
  }

  private func ask(_ stream: HTTP2Stream) {
    guard case .ready(var request) = stream.phase else { return }
    request.body = stream.body
    request.bodyTruncated = stream.surplus > 0
    stream.body = []
    session?.creditConnection(stream.owed)
    stream.owed = 0
    let exchange = HTTPExchange(answeredBy: stream, request: request, loop: loop)
    stream.phase = .asked(exchange)
    // A request that is whole may take its time; what still comes of a longer one may not.
    stream.deadline = stream.requestEnded ? .infinity : now + options.handshakeTimeout
    server.service.respond(to: request, exchange)
  }

  // MARK: - Out

  func respond(_ stream: HTTP2Stream, _ fields: HTTP2Fields, hasBody: Bool) {
    guard let session else { return }
    if !session.respond(stream.id, fields, hasBody: hasBody) { session.cancel(stream.id) }
    flushSoon()
  }

  func resume(_ stream: HTTP2Stream) {
    session?.resume(stream.id)
    flushSoon()
  }

  /// Once a turn, whatever the number of answers.
  func flushSoon() {
    guard !isInside, !isFlushDue, !isBlocked else { return }
    isFlushDue = true
    loop.soon { [weak self] in
      guard let self else { return }
      isFlushDue = false
      flush()
    }
  }

  private func flush() {
    guard session != nil, !isInside else { return }
    var batches = 0
    while writeRest(), batches < Self.batchesATurn, fill() { batches += 1 }
    if !isBlocked { askThoseReady() }
    guard let session else { return }
    if batches == Self.batchesATurn { flushSoon() }
    if !isBlocked {
      for stream in streams.values where stream.wantsWritable { stream.tellIfWritable() }
      if session.isDone { return leave() }
    }
    updateEvents()
  }

  /// Gathers frames and writes them. `false` when there are none, or the socket is full.
  private func fill() -> Bool {
    guard let session else { return false }
    var batch = server.takeBatch()
    isInside = true
    while batch.count < Self.batchBytes {
      guard let frames = session.take() else {
        isInside = false
        server.giveBack(batch)
        end(with: .enhanceYourCalm)
        return false
      }
      if frames.isEmpty { break }
      batch.append(contentsOf: frames)
    }
    isInside = false
    defer { server.giveBack(batch) }
    guard !batch.isEmpty else { return false }
    let moved = batch.withUnsafeBytes { buffer in
      buffer.baseAddress.map { wire.write($0, buffer.count) } ?? .blocked
    }
    var sent = 0
    switch moved {
    case .bytes(let count): sent = count
    case .blocked: break
    case .ended, .failed:
      abort()
      return false
    }
    guard sent < batch.count else { return true }
    output = Array(batch[sent...])
    blockedSince = now
    return false
  }

  /// Writes what the socket did not take before. `true` when nothing is left.
  private func writeRest() -> Bool {
    while written < output.count {
      let moved = output.withUnsafeBytes { buffer in
        buffer.baseAddress.map { wire.write($0 + written, buffer.count - written) } ?? .blocked
      }
      switch moved {
      case .bytes(let count):
        written += count
        blockedSince = now
      case .blocked: return false
      case .ended, .failed:
        abort()
        return false
      }
    }
    output = []
    written = 0
    blockedSince = nil
    return true
  }

  private func updateEvents() {
    guard session != nil else { return }
    var wanted: Wire.Events = isBlocked ? .writable : []
    if !peerEnded, !isBlocked { wanted.insert(.readable) }
    wire.want(wanted)
  }

  // MARK: - Deadlines and ends

  func check(_ now: Double) {
    if let blockedSince, now > blockedSince + options.idleTimeout { return abort() }
    if !sawSettings, now > began + options.handshakeTimeout { return end(with: .settingsTimeout) }
    if streams.isEmpty {
      if now > lastHeard + options.http2.idleTimeout { drain() }
      return
    }
    for stream in streams.values where stream.deadline < now { expire(stream) }
    flush()
  }

  private func expire(_ stream: HTTP2Stream) {
    switch stream.phase {
    // In the middle of a header block nothing else can be said on the connection.
    case .head: end(with: .enhanceYourCalm)
    case .body:
      stream.isLate = true
      stream.answer(.refusal(408, "RequestTimeout"), isHead: false)
    case .answered where stream.isSent: session?.stop(stream.id)
    // A long body that does not end, or an answer that is not read.
    case .ready, .asked, .answered, .streaming: session?.cancel(stream.id)
    case .closed: break
    }
  }

  func drain() {
    guard !isDraining, let session else { return }
    isDraining = true
    session.goAway()
    flushSoon()
  }

  /// A last word, and no more of this session.
  private func end(with fault: HTTP2Session.Fault) {
    guard let session else { return }
    if fault != .noError {
      server.service.noticed(.sessionEnded(fault.words), from: peer.remoteAddress)
    }
    output.removeFirst(written)
    written = 0
    output += session.lastWord(fault)
    _ = writeRest()
    leave()
  }

  private func leave() {
    guard session != nil else { return }
    forgetStreams()
    if peerEnded { wire.close() } else { server.replace(self, with: Farewell(wire, host: server)) }
    server.forget(self)
  }

  func abort() {
    guard session != nil else { return }
    forgetStreams()
    wire.close()
    server.forget(self)
  }

  private func forgetStreams() {
    session = nil
    for stream in streams.values { stream.close() }
    streams = [:]
    ready = []
    output = []
    written = 0
  }
}
