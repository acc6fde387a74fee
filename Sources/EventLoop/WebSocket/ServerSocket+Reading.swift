// Why: the other half of ServerSocket, what comes in: bytes, the frames in them, and what a peer may send.

extension ServerSocket {
  func isReady(_ wire: Wire, _ events: Wire.Events) {
    if events.contains(.failed) { return abort() }
    if events.contains(.writable) { flush() }
    if events.contains(.readable) { read() }
    updateEvents()
  }

  private func read() {
    guard !isOver, !isPaused, ending?.isSettled != true else { return }
    switch host.scratch.withUnsafeMutableBytes({ wire.read(into: $0) }) {
    case .blocked: return
    case .ended, .failed: return abort()
    case .bytes(let count):
      let now = host.loop.now
      allowance.refill(after: now - connection.lastHeard, host.options.inbound)
      connection.lastHeard = now
      let reader = self.reader ?? FrameReader(maxMessageBytes: host.options.maxMessageBytes)
      if self.reader == nil { reader.began = now }
      self.reader = reader
      allowance.bytes -= Float(count)
      reader.append(host.scratch.prefix(count))
      understand(reader)
    }
  }

  /// Works through what was read. What that sends goes out together.
  func understand(_ reader: FrameReader) {
    let wasFull = !isHeld && output != nil
    isHeld = true
    takeEvents(of: reader, mayWrite: !wasFull)
    // Who gave the socket up has given up the reader with it.
    guard !isOver else { return }
    if reader.isIdle || ending?.isSettled == true { self.reader = nil }
    release(wasFull: wasFull)
  }

  private func takeEvents(of reader: FrameReader, mayWrite: Bool) {
    var mayWrite = mayWrite
    do throws(FrameReader.Violation) {
      while !isOver, !isPaused, ending?.isSettled != true, isWithinRate(reader), let event = try reader.next()
      {
        if !reader.isInsideMessage { reader.began = connection.lastHeard }
        take(event)
        if mayWrite { mayWrite = makeRoom() }
      }
      // What came last may have been fragments, which are no event.
      if !isOver { _ = isWithinRate(reader) }
    } catch {
      // After our own close frame there is nothing more to say.
      if let ending { return ending.isSettled = true }
      end(error.code, error.reason, isSettled: true)
    }
  }

  /// Much that gathered goes out in between: who asks for much in one read, and reads the answers, is no slow reader.
  /// - Returns: whether the socket still takes something.
  private func makeRoom() -> Bool {
    guard !isOver, let output, output.bytes.count >= Self.heldBytes else { return true }
    isHeld = false
    flush()
    isHeld = !isOver
    return self.output == nil
  }

  /// Whoever sends more than a session may is closed. Fragments count as well, which make no event.
  private func isWithinRate(_ reader: FrameReader) -> Bool {
    allowance.frames -= Float(reader.takeFrameCount())
    guard allowance.isExceeded, ending == nil else { return true }
    let reason = allowance.frames < 0 ? "too many frames a second" : "too many bytes a second"
    end(1008, reason, isSettled: true)
    return false
  }

  private func take(_ event: FrameReader.Event) {
    switch event {
    case .text(let text): if isOpen { connection.handler?.received(text: text, connection) }
    case .pong: connection.handler?.ponged(connection)
    case .ping(let payload):
      guard isOpen else { return }
      let frame = [0x8a, UInt8(payload.count)] + payload
      if let output, !isHeld || output.bytes.count >= Self.heldBytes {
        output.pong = frame
      } else {
        put(frame)
      }
    case .close(let body):
      // The answer to ours, or both crossed.
      if let ending { return ending.isSettled = true }
      let said = body.withUnsafeBytes(closeFrame)
      begin(said.code, said.reason, isSettled: true, body)
    }
  }
}
