// Why: the other half of HTTP2Connection, what the peer's frames say, as nghttp2 tells it.

extension HTTP2Connection: HTTP2SessionOwner {
  /// Bytes of a body beyond `maxBodyBytes` that are thrown away before the stream is reset.
  private static let maxSurplus = 1_048_576

  func headersBegin(_ id: Int32) {
    guardian.worked()
    streams[id] = HTTP2Stream(id, self, deadline: now + options.handshakeTimeout)
  }

  func header(_ id: Int32, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) -> Bool {
    guard let stream = streams[id] else { return true }
    stream.head.add(name, value, limit: options.maxHeaderBytes)
    // A little too much is answered. A block of a few bytes can name the same long field a hundred thousand times.
    return stream.head.bytes <= 16 * options.maxHeaderBytes
  }

  func headersEnd(_ id: Int32, endsStream: Bool) {
    guard let stream = streams[id] else { return }
    stream.requestEnded = endsStream
    guard stream.head.bytes <= options.maxHeaderBytes else {
      return stream.answer(.refusal(431, "HeadersTooLarge"), isHead: false)
    }
    let request: HTTPRequest
    do {
      request = try stream.head.request(peer: peer)
    } catch {
      return stream.answer(.refusal(error.status, error.reason), isHead: false)
    }
    stream.head = HTTP2RequestHead()
    if endsStream {
      stream.phase = .ready(request)
      ready.append(stream)
    } else {
      stream.phase = .body(request)
      if request.header("expect")?.lowercased() == "100-continue" { session?.encourage(id) }
    }
  }

  func data(_ id: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
    guard let stream = streams[id] else {
      session?.creditConnection(bytes.count)
      return
    }
    session?.creditStream(id, bytes.count)
    guard case .body(let request) = stream.phase else {
      session?.creditConnection(bytes.count)
      return drop(bytes.count, of: stream)
    }
    let kept = min(bytes.count, options.maxBodyBytes - stream.body.count)
    stream.body.append(contentsOf: bytes.prefix(kept))
    stream.owed += kept
    guard kept < bytes.count else { return }
    session?.creditConnection(bytes.count - kept)
    drop(bytes.count - kept, of: stream)
    // The rest would not change the answer.
    stream.phase = .ready(request)
    ready.append(stream)
  }

  /// Reads past a body that is not wanted, so that its sender gets to the answer: some never look before they have sent all.
  private func drop(_ count: Int, of stream: HTTP2Stream) {
    stream.surplus += count
    if stream.surplus > Self.maxSurplus { session?.stop(stream.id) }
  }

  func requestEnds(_ id: Int32) {
    guard let stream = streams[id] else { return }
    stream.requestEnded = true
    switch stream.phase {
    case .body(let request):
      stream.phase = .ready(request)
      ready.append(stream)
    case .asked: stream.deadline = .infinity
    default: break
    }
  }

  func streamCloses(_ id: Int32) {
    guard let stream = streams.removeValue(forKey: id) else { return }
    session?.creditConnection(stream.owed)
    stream.close()
  }

  func frameBegins(_ kind: FloodGuard.Kind) -> Bool { guardian.allows(kind, now: now) }

  func settingsCame() { sawSettings = true }

  func nextBody(_ id: Int32, into buffer: UnsafeMutableBufferPointer<UInt8>) -> HTTP2Session.Body {
    guard let stream = streams[id] else { return .bytes(0, isLast: true) }
    if case .answered = stream.phase { stream.deadline = now + options.idleTimeout }
    return stream.nextBody(into: buffer)
  }

  func bodyWasSent(_ id: Int32, endsStream: Bool) {
    guardian.worked()
    guard endsStream, let stream = streams[id], !stream.requestEnded else { return }
    // Answered before the request was whole. What is on its way may still come for a while (see `drop`).
    if stream.isLate { session?.stop(id) } else { stream.deadline = now + options.handshakeTimeout }
  }
}
