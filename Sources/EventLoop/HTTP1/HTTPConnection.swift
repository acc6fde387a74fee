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

  let peer: HTTPPeer
  var deadline: Double
  unowned(unsafe) let server: HTTPServer
  let loop: EventLoop
  let descriptor: Int32
  var poll: UnsafeMutablePointer<uv_poll_t>?
  var events: Int32 = 0
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

  init?(descriptor: Int32, remoteAddress: String, server: HTTPServer) {
    self.descriptor = descriptor
    peer = HTTPPeer(remoteAddress: remoteAddress)
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

  var isClosed: Bool {
    if case .closed = phase { true } else { false }
  }

  func updateEvents() {
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
          kind: .webSocket, remoteAddress: peer.remoteAddress, subprotocol: subprotocol, now: loop.now,
          handler: handler)
        letGo()
        server.becomeWebSocket(descriptor, bytes, connection, self)
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
