// Why: one request and its answer. A stream never holds more than `maxBodyBytes` of a request, one answer, or one message of an
// event stream: what a peer gives no credit for stays here and stalls nobody else.

final class HTTP2Stream: Answering, Carrier {
  enum Phase {
    case head
    case body(HTTPRequest)
    /// The request is whole and waits for the end of the read that brought it.
    case ready(HTTPRequest)
    /// The service has it.
    case asked(HTTPExchange)
    case answered
    case streaming(Connection)
    case closed
  }

  let id: Int32
  var phase = Phase.head
  var head = HTTP2RequestHead()
  var body: [UInt8] = []
  /// Received bytes that the connection's window has not got back yet.
  var owed = 0
  /// Bytes beyond `maxBodyBytes`.
  var surplus = 0
  /// Whether the peer has ended its side.
  var requestEnded = false
  /// Whether the rest of the request is not waited for.
  var isLate = false
  var deadline: Double
  /// nil once the stream is closed.
  private(set) weak var connection: HTTP2Connection?
  private var pending: [UInt8] = []
  private var sent = 0
  private var isLast = false
  private var isDeferred = false
  private(set) var wantsWritable = false

  init(_ id: Int32, _ connection: HTTP2Connection, deadline: Double) {
    self.id = id
    self.connection = connection
    self.deadline = deadline
  }

  // MARK: - Answering

  func answer(_ response: HTTPResponse, isHead: Bool) {
    guard let connection, connection.isOpen else { return }
    switch phase {
    case .head, .body, .ready, .asked: break
    case .answered, .streaming, .closed: return
    }
    phase = .answered
    deadline = connection.now + connection.options.idleTimeout
    let mayHaveBody = response.status != 204 && response.status != 304
    let length = mayHaveBody && !response.body.isEmpty ? response.body.count : nil
    // Without a body the stream ends with HEADERS: some clients cannot read an empty DATA frame.
    let hasBody = length != nil && !isHead
    if hasBody {
      pending = response.body
      connection.waitingAnswerBytes += pending.count
    }
    isLast = true
    connection.respond(self, HTTP2Fields(response, length: length, date: connection.date), hasBody: hasBody)
  }

  func beginStream(_ response: HTTPResponse, _ stream: Connection) {
    guard let connection, connection.isOpen, case .asked = phase else {
      connection?.loop.soon { stream.ended(code: nil, reason: "") }
      return
    }
    phase = .streaming(stream)
    deadline = .infinity
    stream.attach(self)
    connection.respond(self, HTTP2Fields(response, length: nil, date: connection.date), hasBody: true)
    stream.handler?.opened(stream)
  }

  // MARK: - Carrier

  var isOpen: Bool {
    if case .streaming = phase { !isLast } else { false }
  }

  func send(_ bytes: [UInt8]) -> Bool {
    guard isOpen, let connection else { return false }
    guard pending.isEmpty, !connection.isBlocked else {
      wantsWritable = true
      return false
    }
    // Shared, not copied, until nghttp2 frames it.
    pending = bytes
    resume(connection)
    return true
  }

  func ping() {}

  func close(code: UInt16, reason: String) {
    guard isOpen, let connection else { return }
    isLast = true
    deadline = connection.now + 5
    resume(connection)
  }

  private func resume(_ connection: HTTP2Connection) {
    guard isDeferred else { return connection.flushSoon() }
    isDeferred = false
    connection.resume(self)
  }

  // MARK: - For the connection

  /// Whether nghttp2 has taken the whole answer.
  var isSent: Bool { isLast && pending.isEmpty }

  func nextBody(into buffer: UnsafeMutableBufferPointer<UInt8>) -> HTTP2Session.Body {
    let count = min(buffer.count, pending.count - sent)
    guard count > 0 || isLast else {
      isDeferred = true
      return .later
    }
    if count > 0 { _ = buffer.update(fromContentsOf: pending[sent..<(sent + count)]) }
    sent += count
    if case .answered = phase { connection?.waitingAnswerBytes -= count }
    guard sent == pending.count else { return .bytes(count, isLast: false) }
    pending = []
    sent = 0
    return .bytes(count, isLast: isLast)
  }

  /// The handler is told once that it can go on.
  func tellIfWritable() {
    guard wantsWritable, pending.isEmpty, isOpen, case .streaming(let stream) = phase else { return }
    wantsWritable = false
    stream.handler?.writable(stream)
  }

  /// nghttp2 has forgotten the stream.
  func close() {
    guard let connection else { return }
    switch phase {
    case .answered: connection.waitingAnswerBytes -= pending.count - sent
    case .asked(let exchange): exchange.abandon()
    case .streaming(let stream): connection.loop.soon { stream.ended(code: nil, reason: "") }
    default: break
    }
    phase = .closed
    pending = []
    body = []
    self.connection = nil
  }
}
