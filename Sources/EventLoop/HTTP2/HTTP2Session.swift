// Why: the only file that speaks with nghttp2, which does frames, HPACK, flow control and the checks of RFC 9113. It does no
// I/O (nghttp2_session_mem_recv, nghttp2_session_mem_send). Callbacks only note what happened: they run inside nghttp2, which
// must not be entered again from there, and a stream that is begun and reset within one read never reaches the service.

import CNghttp2

/// What a session tells; always from inside ``HTTP2Session/receive(_:)`` or ``HTTP2Session/take()``.
protocol HTTP2SessionOwner: AnyObject {
  func headersBegin(_ id: Int32)
  /// `false` refuses the connection.
  func header(_ id: Int32, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) -> Bool
  func headersEnd(_ id: Int32, endsStream: Bool)
  func data(_ id: Int32, _ bytes: UnsafeBufferPointer<UInt8>)
  func requestEnds(_ id: Int32)
  func streamCloses(_ id: Int32)
  /// `false` refuses the connection.
  func frameBegins(_ kind: FloodGuard.Kind) -> Bool
  func settingsCame()
  /// Fills `buffer` with the stream's next bytes.
  func nextBody(_ id: Int32, into buffer: UnsafeMutableBufferPointer<UInt8>) -> HTTP2Session.Body
  func bodyWasSent(_ id: Int32, endsStream: Bool)
}

final class HTTP2Session {
  /// What a stream has to send.
  enum Body {
    case bytes(Int, isLast: Bool)
    /// Nothing now; ``HTTP2Session/resume(_:)`` says when.
    case later
  }

  /// Error codes of RFC 9113 section 7 that end a connection.
  enum Fault: UInt32 {
    case noError = 0x0
    case protocolError = 0x1
    case settingsTimeout = 0x4
    case enhanceYourCalm = 0xb

    /// For a log.
    var words: String {
      switch self {
      case .noError: "it is over"
      case .protocolError: "it broke the protocol"
      case .settingsTimeout: "it didn't acknowledge the settings"
      case .enhanceYourCalm:
        "it sent too much of what costs a server and not a client (resets, pings, empty frames, …)"
      }
    }
  }

  unowned(unsafe) let owner: any HTTP2SessionOwner
  private var raw: OpaquePointer?

  init?(owner: any HTTP2SessionOwner, options: ServerOptions) {
    self.owner = owner
    guard let choices = Self.choices(options.http2) else { return nil }
    defer { nghttp2_option_del(choices) }
    guard
      nghttp2_session_server_new2(&raw, Self.callbacks, Unmanaged.passUnretained(self).toOpaque(), choices)
        == 0
    else { return nil }
    let settings = [
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
        value: options.http2.maxConcurrentStreams),
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
        value: UInt32(clamping: options.maxHeaderBytes)),
      // Priorities are ignored, and so no tree of them can be grown by strangers (RFC 9218 section 2.1).
      nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES.rawValue), value: 1),
    ]
    nghttp2_submit_settings(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count)
    nghttp2_session_set_local_window_size(
      raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, max(65_535, options.http2.maxBufferedBodyBytes))
  }

  deinit { nghttp2_session_del(raw) }

  private static func choices(_ limits: HTTP2Limits) -> OpaquePointer? {
    var choices: OpaquePointer?
    guard nghttp2_option_new(&choices) == 0, let choices else { return nil }
    // Credit is given back when a body is dealt with, so that the window bounds what is buffered.
    nghttp2_option_set_no_auto_window_update(choices, 1)
    nghttp2_option_set_no_closed_streams(choices, 1)
    nghttp2_option_set_max_outbound_ack(choices, limits.maxPendingAcknowledgements)
    // Our own guard counts resets and says ENHANCE_YOUR_CALM; nghttp2's would say INTERNAL_ERROR.
    nghttp2_option_set_stream_reset_rate_limit(choices, 1_000_000, 1_000_000)
    return choices
  }

  // MARK: - Bytes

  /// Takes what the peer sent.
  /// - Returns: nil when all is well, otherwise what the connection ends with.
  func receive(_ bytes: UnsafeRawBufferPointer) -> Fault? {
    let used = nghttp2_session_mem_recv(
      raw, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count)
    guard used < 0 else { return nil }
    switch nghttp2_error(rawValue: Int32(used)) {
    case NGHTTP2_ERR_FLOODED, NGHTTP2_ERR_TOO_MANY_CONTINUATIONS, NGHTTP2_ERR_TOO_MANY_SETTINGS,
      NGHTTP2_ERR_CALLBACK_FAILURE:
      return .enhanceYourCalm
    default: return .protocolError
    }
  }

  /// The next bytes for the peer, a whole frame; empty when there are none. Valid until the next call.
  func take() -> UnsafeRawBufferPointer? {
    var start: UnsafePointer<UInt8>?
    let count = nghttp2_session_mem_send(raw, &start)
    guard count >= 0 else { return nil }
    return UnsafeRawBufferPointer(start: start, count: count)
  }

  /// Whether nothing is left to be read or written.
  var isDone: Bool { nghttp2_session_want_read(raw) == 0 && nghttp2_session_want_write(raw) == 0 }

  // MARK: - What goes out

  /// Queues an answer's head; its body is asked for by `nextBody`.
  func respond(_ id: Int32, _ fields: HTTP2Fields, hasBody: Bool) -> Bool {
    fields.withFields { list in
      guard hasBody else { return nghttp2_submit_response(raw, id, list.baseAddress, list.count, nil) == 0 }
      var provider = nghttp2_data_provider()
      provider.read_callback = readBody
      return nghttp2_submit_response(raw, id, list.baseAddress, list.count, &provider) == 0
    }
  }

  /// Queues `100 Continue`.
  func encourage(_ id: Int32) {
    var fields = HTTP2Fields()
    fields.add(":status", "100")
    fields.withFields { list in
      _ = nghttp2_submit_headers(
        raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), id, nil, list.baseAddress, list.count, nil)
    }
  }

  /// The stream has bytes again.
  func resume(_ id: Int32) { nghttp2_session_resume_data(raw, id) }

  /// Tells the peer to stop sending on a stream that was answered already (RFC 9113 section 8.1).
  func stop(_ id: Int32) { reset(id, NGHTTP2_NO_ERROR) }

  /// Gives a stream up.
  func cancel(_ id: Int32) { reset(id, NGHTTP2_CANCEL) }

  private func reset(_ id: Int32, _ code: nghttp2_error_code) {
    nghttp2_submit_rst_stream(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), id, code.rawValue)
  }

  /// Lets the peer send `count` more bytes on one stream.
  func creditStream(_ id: Int32, _ count: Int) { nghttp2_session_consume_stream(raw, id, count) }

  /// Lets the peer send `count` more bytes on the connection.
  func creditConnection(_ count: Int) { nghttp2_session_consume_connection(raw, count) }

  /// Queues GOAWAY: streams up to the last one that was seen go on, newer ones are not looked at.
  func goAway() {
    let last = nghttp2_session_get_last_proc_stream_id(raw)
    nghttp2_submit_goaway(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, Fault.noError.rawValue, nil, 0)
  }

  /// A GOAWAY frame by itself (RFC 9113 section 6.8), for the end of a session that is not to be trusted any more.
  func lastWord(_ fault: Fault) -> [UInt8] {
    let last = UInt32(bitPattern: nghttp2_session_get_last_proc_stream_id(raw))
    let numbers = [last, fault.rawValue].flatMap { number in
      stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
    }
    return [0, 0, 8, 7, 0, 0, 0, 0, 0] + numbers
  }

  // MARK: - Callbacks

  /// Safe to share: written once here, and copied by nghttp2 with each session.
  nonisolated(unsafe) private static let callbacks: OpaquePointer? = {
    var callbacks: OpaquePointer?
    guard nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, header, context in
      guard let header, let kind = floodKind(header.pointee) else { return 0 }
      return result(HTTP2Session.of(context)?.owner.frameBegins(kind) ?? false)
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, context in
      guard let frame, isRequest(frame) else { return 0 }
      HTTP2Session.of(context)?.owner.headersBegin(frame.pointee.hd.stream_id)
      return 0
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      _, frame, name, nameCount, value, valueCount, _, context in
      guard let frame, isRequest(frame) else { return 0 }
      return result(
        HTTP2Session.of(context)?.owner.header(
          frame.pointee.hd.stream_id, name: UnsafeBufferPointer(start: name, count: nameCount),
          value: UnsafeBufferPointer(start: value, count: valueCount)) ?? false)
    }
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, id, bytes, count, context in
      HTTP2Session.of(context)?.owner.data(id, UnsafeBufferPointer(start: bytes, count: count))
      return 0
    }
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, context in
      guard let frame, let session = HTTP2Session.of(context) else { return 0 }
      return result(session.frameCame(frame))
    }
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, context in
      guard let frame, let session = HTTP2Session.of(context) else { return 0 }
      return result(session.frameWasSent(frame))
    }
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, id, _, context in
      HTTP2Session.of(context)?.owner.streamCloses(id)
      return 0
    }
    return callbacks
  }()

  fileprivate static func of(_ context: UnsafeMutableRawPointer?) -> HTTP2Session? {
    context.map { Unmanaged<HTTP2Session>.fromOpaque($0).takeUnretainedValue() }
  }

  private func frameCame(_ frame: UnsafePointer<nghttp2_frame>) -> Bool {
    let header = frame.pointee.hd
    let endsStream = header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
    switch nghttp2_frame_type(UInt32(header.type)) {
    case NGHTTP2_HEADERS where isRequest(frame): owner.headersEnd(header.stream_id, endsStream: endsStream)
    // Trailers, which nobody reads.
    case NGHTTP2_HEADERS where endsStream: owner.requestEnds(header.stream_id)
    case NGHTTP2_DATA:
      if endsStream {
        owner.requestEnds(header.stream_id)
      } else if header.length == 0 {
        return owner.frameBegins(.idle)
      }
    case NGHTTP2_SETTINGS: owner.settingsCame()
    default: break
    }
    return true
  }

  private func frameWasSent(_ frame: UnsafePointer<nghttp2_frame>) -> Bool {
    let header = frame.pointee.hd
    let endsStream = header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
    switch nghttp2_frame_type(UInt32(header.type)) {
    case NGHTTP2_DATA: owner.bodyWasSent(header.stream_id, endsStream: endsStream)
    case NGHTTP2_HEADERS where endsStream: owner.bodyWasSent(header.stream_id, endsStream: true)
    // A peer can make the server reset streams, too ("MadeYouReset", CVE-2025-8671).
    case NGHTTP2_RST_STREAM where frame.pointee.rst_stream.error_code != NGHTTP2_NO_ERROR.rawValue:
      return owner.frameBegins(.reset)
    default: break
    }
    return true
  }
}

private func result(_ goesOn: Bool) -> Int32 { goesOn ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE.rawValue }

private func isRequest(_ frame: UnsafePointer<nghttp2_frame>) -> Bool {
  frame.pointee.hd.type == UInt8(NGHTTP2_HEADERS.rawValue)
    && frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST
}

/// What a frame that begins counts as; nil for those that do work, and for acknowledgements.
private func floodKind(_ header: nghttp2_frame_hd) -> FloodGuard.Kind? {
  let isAcknowledgement = header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0
  switch nghttp2_frame_type(UInt32(header.type)) {
  // Empty DATA is counted once it is known whether it ends its stream.
  case NGHTTP2_DATA, NGHTTP2_HEADERS, NGHTTP2_CONTINUATION: return nil
  case NGHTTP2_SETTINGS: return isAcknowledgement ? .idle : .settings
  case NGHTTP2_PING: return isAcknowledgement ? .idle : .ping
  case NGHTTP2_RST_STREAM: return .reset
  default: return .idle
  }
}

private func readBody(
  _ session: OpaquePointer?, _ id: Int32, _ buffer: UnsafeMutablePointer<UInt8>?, _ room: Int,
  _ flags: UnsafeMutablePointer<UInt32>?, _ source: UnsafeMutablePointer<nghttp2_data_source>?,
  _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let session = HTTP2Session.of(context), let flags else {
    return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
  }
  switch session.owner.nextBody(id, into: UnsafeMutableBufferPointer(start: buffer, count: room)) {
  case .later: return Int(NGHTTP2_ERR_DEFERRED.rawValue)
  case .bytes(let count, let isLast):
    if isLast { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return count
  }
}
