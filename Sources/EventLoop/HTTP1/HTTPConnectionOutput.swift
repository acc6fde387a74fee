// Why: the other half of HTTPConnection, what goes out: answers, the endless body of an event stream, and
// the end.

extension HTTPConnection {
  // MARK: - Answers (called by HTTPExchange)

  func answer(_ response: HTTPResponse, isHead: Bool) {
    guard case .answering(_, let keepAlive) = phase else { return }
    let goesOn = keepAlive && !peerEnded && !server.isClosing
    let hasBody = !isHead && response.status != 204 && response.status != 304
    let head = response.head(length: response.body.count, keepAlive: goesOn, date: server.date)
    phase = .head
    isResting = input.isEmpty
    renewDeadline()
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
  func write(_ bytes: [UInt8]) {
    guard !isClosed else { return }
    output.append(contentsOf: bytes)
    flush()
    updateEvents()
  }

  /// An answer is read: a slow reader that goes on isn't cut off in the middle. When all of it went, the next request has its time.
  private func renewDeadline() {
    guard case .head = phase, closeSent == nil else { return }
    let isWritten = written == output.count && !isResting
    deadline = loop.now + (isWritten ? server.options.handshakeTimeout : server.options.idleTimeout)
  }

  func flush() {
    while written < output.count {
      let moved = output.withUnsafeBytes { buffer in
        buffer.baseAddress.map { wire.write($0 + written, buffer.count - written) } ?? .blocked
      }
      switch moved {
      case .bytes(let sent):
        written += sent
        renewDeadline()
      case .blocked: return
      case .ended, .failed: return abort()
      }
    }
    if !output.isEmpty {
      output = []
      written = 0
      lingerIfWritten()
      process()
    }
    if wantsWritable, case .streaming(let connection) = phase, closeSent == nil {
      wantsWritable = false
      connection.handler?.writable(connection)
    }
  }

  // MARK: - The end

  func lingerIfWritten() {
    guard lingersWhenWritten, !isClosed else { return }
    guard written >= output.count else {
      deadline = min(deadline, loop.now + server.options.idleTimeout)
      return
    }
    finishStream()
    if peerEnded { return abort() }
    letGo()
    server.replace(self, with: Farewell(wire, host: server))
  }

  func check(_ now: Double) {
    guard deadline < now else { return }
    switch phase {
    case .head where !input.isEmpty && output.isEmpty, .body where output.isEmpty:
      refuse(408, "RequestTimeout")
    default: abort()
    }
  }

  func drain() {
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
    wire.close()
    server.forget(self)
  }

  private func finishStream() {
    guard case .streaming(let connection) = phase else { return }
    phase = .head
    loop.soon { connection.ended(code: nil, reason: "") }
  }

  /// Has no more to do with the wire.
  func letGo() {
    phase = .closed
    input = []
    output = []
    written = 0
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
    let moved = bytes.withUnsafeBytes { buffer in
      buffer.baseAddress.map { wire.write($0, buffer.count) } ?? .bytes(0)
    }
    var sent = 0
    if case .bytes(let count) = moved { sent = count }
    if sent == bytes.count { return true }
    // Once OpenSSL has begun with a message there is no way back from it; see Wire.write.
    guard sent > 0 || (wire.isSecure && moved == .blocked) else {
      // Blocked, or an error that the next poll shows.
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
