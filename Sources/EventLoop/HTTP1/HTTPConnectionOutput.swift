// Why: the other half of HTTPConnection, what goes out: answers, the endless body of an event stream, and
// the polite end.

import CLibuv
import CLibwebsocketsShims
import Glibc

extension HTTPConnection {
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
  func write(_ bytes: [UInt8]) {
    guard !isClosed else { return }
    output.append(contentsOf: bytes)
    flush()
    updateEvents()
  }

  func flush() {
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
  func letGo() {
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
