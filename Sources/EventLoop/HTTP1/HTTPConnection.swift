// Why: one socket that speaks HTTP/1.1, until it closes or becomes a WebSocket. Requests are handled one after the
// other; bytes of a pipelined next one wait in `input`.

final class HTTPConnection: ServedConnection, WireUser, Answering {
  enum Phase {
    case head
    case body(HTTPHead, HTTPBodyReader)
    /// The service has the request; `keepAlive` is what happens after its answer.
    case answering(HTTPExchange, keepAlive: Bool)
    case streaming(Connection)
    /// The wire is somebody else's, or closed.
    case closed
  }

  let peer: HTTPPeer
  var deadline: Double
  unowned(unsafe) let server: HTTPServer
  let loop: EventLoop
  let wire: Wire
  var phase = Phase.head
  /// A slice, so that requests are cut off its front without moving the rest.
  var input: ArraySlice<UInt8> = []
  var scanned = 0
  var output: [UInt8] = []
  var written = 0
  var isProcessing = false
  var peerEnded = false
  var isResting = false
  var lingersWhenWritten = false
  var wantsWritable = false
  var closeSent: (code: UInt16, reason: String)?

  /// - Parameter input: what was read already.
  init(_ wire: Wire, peer: HTTPPeer, input: [UInt8], deadline: Double, server: HTTPServer) {
    self.wire = wire
    self.peer = peer
    self.input = input[...]
    self.deadline = deadline
    self.server = server
    loop = server.loop
    wire.user = self
  }

  /// Looks at what was read already, and waits for more.
  func start() {
    process()
    updateEvents()
  }

  // MARK: - Events

  var isClosed: Bool {
    if case .closed = phase { true } else { false }
  }

  func updateEvents() {
    guard !isClosed else { return }
    var wanted: Wire.Events = written < output.count || wantsWritable ? .writable : []
    // A peer that sends ahead is not read until its turn comes, but its leaving is noticed. A peer that
    // only ended its own sending may still read the answer.
    if !peerEnded { wanted.insert(input.count <= server.options.maxHeaderBytes ? .readable : .hungUp) }
    wire.want(wanted)
  }

  func isReady(_ wire: Wire, _ events: Wire.Events) {
    if events.contains(.failed) { return abort() }
    if events.contains(.writable) { flush() }
    if events.contains(.readable) { read() }
    if events.contains(.hungUp) { abort() }
    updateEvents()
  }

  private func read() {
    guard !isClosed else { return }
    let count: Int
    switch server.scratch.withUnsafeMutableBytes({ wire.read(into: $0) }) {
    case .blocked: return
    case .failed: return abort()
    case .ended: return ended()
    case .bytes(let some): count = some
    }
    // A reader of an event stream has nothing more to say.
    if case .streaming = phase { return }
    if isResting {
      isResting = false
      deadline = loop.now + server.options.handshakeTimeout
    }
    input.append(contentsOf: server.scratch.prefix(count))
    process()
  }

  private func ended() {
    // The end of an event stream's reader is the stream's end.
    if case .streaming = phase { return abort() }
    peerEnded = true
    if case .answering = phase { return }
    // In the middle of a request, or between two: nothing to answer.
    lingersWhenWritten = true
    lingerIfWritten()
  }

  // MARK: - Requests

  func process() {
    guard !isProcessing else { return }
    isProcessing = true
    defer { isProcessing = false }
    // A peer that asks on and on without reading the answers must not fill our memory with them.
    while !lingersWhenWritten, output.isEmpty {
      switch phase {
      case .head:
        guard readHead() else { return }
      case .body(let head, var reader):
        phase = .head
        let progress = reader.consume(&input)
        switch progress {
        case .more:
          phase = .body(head, reader)
          return
        case .malformed: return refuse(400, "BadChunk")
        case .done: begin(head, body: reader.kept, isTruncated: reader.isTruncated)
        }
      default: return
      }
    }
  }

  /// Whether a whole head was there and was dealt with.
  private func readHead() -> Bool {
    // Empty lines before a request are skipped (RFC 9112 section 2.2).
    while input.starts(with: [0x0d, 0x0a]) { input.removeFirst(2) }
    // A method is a token; a TLS hello, or any other protocol's first byte, is answered at once.
    if let first = input.first, !isTokenByte(first), first != 0x0d {
      refuse(400, "BadRequest")
      return false
    }
    guard let end = headEnd() else {
      if input.count > server.options.maxHeaderBytes { refuse(431, "HeadersTooLarge") }
      return false
    }
    guard end <= server.options.maxHeaderBytes else {
      refuse(431, "HeadersTooLarge")
      return false
    }
    let head: HTTPHead
    do {
      head = try HTTPHead(parsing: input.prefix(end), peer: peer)
    } catch {
      refuse(error.status, error.reason)
      return false
    }
    peer.httpVersion = head.isOld ? "1.0" : "1.1"
    input.removeFirst(end + 4)
    scanned = 0
    // Other upgrades, such as the h2c that Java's client and curl --http2 offer, are ignored, and the request is
    // answered as it stands (RFC 9110 section 7.8).
    if head.request.hasToken("websocket", in: "upgrade"), head.request.hasToken("upgrade", in: "connection") {
      upgrade(head)
      return false
    }
    if head.body == .none {
      begin(head, body: [], isTruncated: false)
    } else {
      if head.expectsContinue, input.isEmpty { write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
      phase = .body(head, HTTPBodyReader(head.body, limit: server.options.maxBodyBytes))
    }
    return true
  }

  /// Where the empty line begins; remembers how far it looked.
  private func headEnd() -> Int? {
    var index = input.startIndex + max(0, scanned - 3)
    while index + 3 < input.endIndex {
      if input[index] == 0x0d, input[index + 1] == 0x0a, input[index + 2] == 0x0d, input[index + 3] == 0x0a {
        return index - input.startIndex
      }
      index += 1
    }
    scanned = input.count
    return nil
  }

  private func begin(_ head: HTTPHead, body: [UInt8], isTruncated: Bool) {
    var request = head.request
    request.body = body
    request.bodyTruncated = isTruncated
    let exchange = HTTPExchange(answeredBy: self, request: request, loop: loop)
    let goesOn = head.keepAlive && !isTruncated && !server.isClosing
    phase = .answering(exchange, keepAlive: goesOn)
    deadline = .infinity
    server.service.respond(to: request, exchange)
  }

  private func upgrade(_ head: HTTPHead) {
    guard input.isEmpty else {
      // A client must wait for the handshake's answer (RFC 6455 section 4.1).
      return refuse(400, "DataBeforeHandshake")
    }
    // Who came now would be parted with before it has said anything.
    guard !server.isClosing else { return refuse(503, "Shutdown") }
    switch WebSocketHandshake.check(head, subprotocols: server.options.subprotocols) {
    case .refused(let response): end(with: response)
    case .accepted(let answer, let subprotocol):
      switch server.service.upgrade(head.request) {
      case .refuse(let response): end(with: response)
      case .accept(let handler):
        guard written >= output.count else { return abort() }
        let connection = Connection(
          kind: .webSocket, remoteAddress: peer.remoteAddress, subprotocol: subprotocol, now: loop.now,
          handler: handler)
        letGo()
        server.becomeWebSocket(wire, answer, connection, self)
      }
    }
  }

  func refuse(_ status: Int, _ reason: String) { end(with: .refusal(status, reason)) }

  /// Answers and ends the connection.
  private func end(with response: HTTPResponse) {
    write(response.head(length: response.body.count, keepAlive: false, date: server.date) + response.body)
    lingersWhenWritten = true
    lingerIfWritten()
  }
}
