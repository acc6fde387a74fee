// Why: one accepted socket, from its first byte until it closes or becomes a WebSocket of lws. Requests
// are handled one after the other; bytes of a pipelined next one wait in `input`. Every end is polite:
// the write side is shut first and the peer's rest is read for a moment, because close() with unread
// input makes the kernel send RST, which can take the last answer away from the peer (RFC 9112 section 9.6).

import CLibuv
import CLibwebsocketsShims
import Glibc

final class HTTPConnection {
  enum Phase {
    case head
    case body(HTTPHead, HTTPBodyReader)
    /// The service has the request; `keepAlive` is what happens after its answer.
    case answering(HTTPExchange, keepAlive: Bool)
    case streaming(Connection)
    /// Nothing more is said; what still comes is thrown away.
    case lingering
    case closed
  }

  let remoteAddress: String
  private(set) var deadline: Double
  private unowned(unsafe) let server: HTTPServer
  private let loop: EventLoop
  private let descriptor: Int32
  private var poll: UnsafeMutablePointer<uv_poll_t>?
  private var events: Int32 = 0
  private var phase = Phase.head
  private var input: [UInt8] = []
  private var scanned = 0
  private var output: [UInt8] = []
  private var written = 0
  private var isProcessing = false
  private var peerEnded = false
  private var isResting = false
  private var lingersWhenWritten = false
  private var wantsWritable = false
  private var closeSent: (code: UInt16, reason: String)?

  init?(descriptor: Int32, remoteAddress: String, server: HTTPServer) {
    self.descriptor = descriptor
    self.remoteAddress = remoteAddress
    self.server = server
    loop = server.loop
    deadline = server.loop.now + server.options.handshakeTimeout
    let poll = UnsafeMutablePointer<uv_poll_t>.allocate(capacity: 1)
    guard uv_poll_init(loop.uv, poll, descriptor) == 0 else {
      poll.deallocate()
      return nil
    }
    Handle.attach(poll, to: self)
    self.poll = poll
    updateEvents()
  }

  // MARK: - Events

  private var isClosed: Bool {
    if case .closed = phase { true } else { false }
  }

  private func updateEvents() {
    guard let poll else { return }
    var wanted: Int32 = written < output.count || wantsWritable ? Int32(UV_WRITABLE.rawValue) : 0
    // A peer that sends ahead is not read until its turn comes, but its leaving is noticed. A peer that
    // only ended its own sending may still read the answer.
    if !peerEnded {
      let mayRead = input.count <= server.options.maxHeaderBytes
      wanted |= Int32(mayRead ? UV_READABLE.rawValue : UV_DISCONNECT.rawValue)
    }
    guard wanted != events else { return }
    events = wanted
    guard wanted != 0 else {
      uv_poll_stop(poll)
      return
    }
    uv_poll_start(poll, wanted) { handle, status, events in
      Handle.owner(of: handle, as: HTTPConnection.self)?.ready(status, events)
    }
  }

  private func ready(_ status: Int32, _ events: Int32) {
    if status < 0 { return abort() }
    if events & Int32(UV_WRITABLE.rawValue) != 0 { flush() }
    if events & Int32(UV_READABLE.rawValue) != 0 { read() }
    if events & Int32(UV_DISCONNECT.rawValue) != 0 { abort() }
    updateEvents()
  }

  private func read() {
    guard !isClosed else { return }
    let count = server.scratch.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
    if count < 0 {
      if errno != EAGAIN, errno != EINTR { abort() }
      return
    }
    switch phase {
    case .closed: return
    case .lingering:
      if count == 0 { abort() }
    case .streaming:
      // A reader of an event stream has nothing more to say; its end is the stream's end.
      if count == 0 { abort() }
    default:
      if count == 0 {
        peerEnded = true
        if case .answering = phase { return }
        // In the middle of a request, or between two: nothing to answer.
        lingersWhenWritten = true
        lingerIfWritten()
        return
      }
      if isResting {
        isResting = false
        deadline = loop.now + server.options.handshakeTimeout
      }
      input.append(contentsOf: server.scratch.prefix(count))
      process()
    }
  }

  // MARK: - Requests

  private func process() {
    guard !isProcessing else { return }
    isProcessing = true
    defer { isProcessing = false }
    while !lingersWhenWritten {
      switch phase {
      case .head:
        guard readHead() else { return }
      case .body(let head, var reader):
        phase = .head
        var rest = input[...]
        let progress = reader.consume(&rest)
        input = Array(rest)
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
      head = try HTTPHead(parsing: input[..<end], remoteAddress: remoteAddress)
    } catch {
      refuse(error.status, error.reason)
      return false
    }
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
    var index = max(0, scanned - 3)
    while index + 3 < input.count {
      if input[index] == 0x0d, input[index + 1] == 0x0a, input[index + 2] == 0x0d, input[index + 3] == 0x0a {
        return index
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
    let exchange = HTTPExchange(connection: self, request: request, loop: loop)
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
    switch WebSocketHandshake.check(head, subprotocols: server.options.subprotocols) {
    case .refused(let response): end(with: response)
    case .accepted(let bytes, let subprotocol):
      switch server.service.upgrade(head.request) {
      case .refuse(let response): end(with: response)
      case .accept(let handler):
        guard written >= output.count else { return abort() }
        let connection = Connection(
          kind: .webSocket, remoteAddress: remoteAddress, subprotocol: subprotocol, now: loop.now,
          handler: handler)
        letGo()
        server.becomeWebSocket(descriptor, bytes, connection, self)
      }
    }
  }

  private func refuse(_ status: Int, _ reason: String) { end(with: .refusal(status, reason)) }

  /// Answers and ends the connection.
  private func end(with response: HTTPResponse) {
    write(response.head(length: response.body.count, keepAlive: false, date: server.date) + response.body)
    lingersWhenWritten = true
    lingerIfWritten()
  }

  // MARK: - Answers (called by HTTPExchange)

  func answer(_ response: HTTPResponse, isHead: Bool) {
    guard case .answering(_, let keepAlive) = phase else { return }
    let goesOn = keepAlive && !peerEnded && !server.isClosing
    let hasBody = !isHead && response.status != 204 && response.status != 304
    let head = response.head(length: response.body.count, keepAlive: goesOn, date: server.date)
    phase = .head
    isResting = input.isEmpty
    deadline = loop.now + (isResting ? server.options.idleTimeout : server.options.handshakeTimeout)
    write(hasBody ? head + response.body : head)
    if goesOn {
      process()
    } else {
      lingersWhenWritten = true
      lingerIfWritten()
    }
    updateEvents()
  }

  func beginStream(_ response: HTTPResponse, _ connection: Connection) {
    guard case .answering = phase else {
      loop.soon { connection.ended(code: nil, reason: "") }
      return
    }
    phase = .streaming(connection)
    deadline = .infinity
    connection.attach(self)
    write(response.head(length: nil, keepAlive: false, date: server.date))
    input = []
    if peerEnded {
      abort()
    } else {
      connection.handler?.opened(connection)
    }
    updateEvents()
  }

  // MARK: - Writing

  /// For answers: queues what the socket does not take at once.
  private func write(_ bytes: [UInt8]) {
    guard !isClosed else { return }
    output.append(contentsOf: bytes)
    flush()
    updateEvents()
  }

  private func flush() {
    while written < output.count {
      let sent = output.withUnsafeBytes { buffer in
        buffer.baseAddress.map { shim_send_now(descriptor, $0 + written, buffer.count - written) } ?? 0
      }
      if sent < 0 {
        if errno == EAGAIN { return }
        return abort()
      }
      written += sent
    }
    if !output.isEmpty {
      output = []
      written = 0
      lingerIfWritten()
    }
    if wantsWritable, case .streaming(let connection) = phase, closeSent == nil {
      wantsWritable = false
      connection.handler?.writable(connection)
    }
  }

  // MARK: - The end

  private func lingerIfWritten() {
    guard lingersWhenWritten, !isClosed else { return }
    guard written >= output.count else {
      deadline = min(deadline, loop.now + server.options.idleTimeout)
      return
    }
    if case .lingering = phase { return }
    finishStream()
    phase = .lingering
    input = []
    if peerEnded { return abort() }
    shutdown(descriptor, Int32(SHUT_WR))
    deadline = loop.now + 2
    updateEvents()
  }

  /// The sweep found the deadline passed.
  func expire() {
    switch phase {
    case .head where !input.isEmpty && output.isEmpty, .body where output.isEmpty:
      refuse(408, "RequestTimeout")
    default: abort()
    }
  }

  /// A server that stops accepting lets resting connections go.
  func closeIfResting() {
    guard case .head = phase, input.isEmpty, !lingersWhenWritten else { return }
    lingersWhenWritten = true
    lingerIfWritten()
  }

  /// Closes now, whatever is pending.
  func abort() {
    guard !isClosed else { return }
    finishStream()
    if case .answering(let exchange, _) = phase { exchange.abandon() }
    letGo()
    Glibc.close(descriptor)
    server.forget(self)
  }

  private func finishStream() {
    guard case .streaming(let connection) = phase else { return }
    phase = .lingering
    loop.soon { connection.ended(code: nil, reason: "") }
  }

  /// Gives up the poll handle, so that the descriptor can be closed or handed on: libuv forgets it inside
  /// uv_close(), not later (uv__poll_stop in src/unix/poll.c).
  private func letGo() {
    phase = .closed
    input = []
    output = []
    written = 0
    guard let poll else { return }
    self.poll = nil
    Handle.close(poll)
  }
}

extension HTTPConnection: Carrier {
  var isOpen: Bool {
    if case .streaming = phase { closeSent == nil } else { false }
  }

  func send(_ bytes: [UInt8]) -> Bool {
    guard isOpen else { return false }
    guard output.isEmpty else {
      wantsWritable = true
      return false
    }
    let sent = bytes.withUnsafeBytes { buffer in
      buffer.baseAddress.map { shim_send_now(descriptor, $0, buffer.count) } ?? 0
    }
    if sent == bytes.count { return true }
    guard sent > 0 else {
      // EAGAIN, or an error that the next poll shows.
      wantsWritable = true
      updateEvents()
      return false
    }
    output = Array(bytes[sent...])
    updateEvents()
    return true
  }

  func ping() {}

  func close(code: UInt16, reason: String) {
    guard isOpen else { return }
    closeSent = (code, reason)
    deadline = loop.now + 5
    lingersWhenWritten = true
    // Never tells the handler inside this call: finishStream() only queues that.
    lingerIfWritten()
    deadline = min(deadline, loop.now + 5)
  }
}
