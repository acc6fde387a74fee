// Why: the wsi under a WebSocketClient. lws masks and frames; messages wait here, one lws_write() a writable
// callback, so that lws never buffers more than one of them.

import CLibwebsockets
import CLibwebsocketsShims

final class ClientSocket: WebSocketEndpoint {
  private(set) var pendingBytes = 0
  private(set) var isOpen = false

  private let loop: EventLoop
  private let target: ClientURL
  private let tls: ClientTLS
  private var verdict: ServerVerdict
  private let headers: [(String, String)]
  private var handler: (any WebSocketClientHandler)?
  private var client: WebSocketClient?
  private var queue: [[UInt8]] = []
  private var message: [UInt8] = []
  private var wantsPing = false
  private var closing: (code: UInt16, reason: String)?
  private var peerClosing: (code: UInt16?, reason: String)?
  private var closeIsSent = false
  private var timer: LoopTimer?
  private var refusalStatus: Int?
  private var refusalBody: [UInt8] = []

  init(
    loop: EventLoop, target: ClientURL, tls: ClientTLS, headers: [(String, String)],
    handler: any WebSocketClientHandler
  ) {
    self.loop = loop
    self.target = target
    self.tls = tls
    verdict = ServerVerdict(host: target.host, isInsecure: tls.isInsecure)
    self.headers = headers
    self.handler = handler
  }

  func connect(_ client: WebSocketClient, subprotocols: [String], timeout: Double) {
    self.client = client
    guard let context = try? loop.websocketsContext() else {
      return fail(.unreachable(address: target.address, reason: "the loop has ended"))
    }
    timer = loop.schedule(after: timeout) { [weak self] in self?.timedOut() }
    var info = lws_client_connect_info()
    info.port = Int32(target.port)
    info.local_protocol_name = Statics.cString(Statics.protocolName)
    let offered = subprotocols.joined(separator: ", ")
    do {
      let started = try withCStrings([target.host, target.path, target.hostHeader, offered]) {
        strings throws(EventLoopError) in
        info.address = strings[0]
        info.path = strings[1]
        info.host = strings[2]
        info.protocol = subprotocols.isEmpty ? nil : strings[3]
        return try context.connect(&info, tls: target.isSecure ? tls : nil, endpoint: self)
      }
      // lws answers at once only when it can't look the name up.
      if !started { fail(.unreachable(address: target.address, reason: "unknown host")) }
    } catch {
      fail(.untrusted(address: target.address, reason: "\(error)"))
    }
  }

  override func trusts(_ verification: OpaquePointer, isTrusted: Bool) -> Bool {
    verdict.accepts(verification, isTrusted: isTrusted)
  }

  func send(_ text: [UInt8]) {
    guard isOpen, closing == nil, let wsi else { return }
    pendingBytes += text.count
    queue.append(text)
    lws_callback_on_writable(wsi)
  }

  func ping() {
    guard isOpen, let wsi else { return }
    wantsPing = true
    lws_callback_on_writable(wsi)
  }

  func close(code: UInt16, reason: String) {
    guard closing == nil, handler != nil else { return }
    closing = (code, reason)
    if isOpen, let wsi {
      armKiller()
      lws_callback_on_writable(wsi)
    }
  }

  private func armKiller() {
    timer?.cancel()
    timer = loop.schedule(after: 5) { [weak self] in
      if let wsi = self?.wsi { destroy(wsi) }
    }
  }

  private func timedOut() {
    let wsi = self.wsi
    fail(.timedOut(address: target.address))
    if let wsi { destroy(wsi) }
  }

  // MARK: - What lws says

  override func handle(
    _ reason: lws_callback_reasons, _ data: UnsafeMutableRawPointer?, _ count: Int
  ) -> Int32 {
    switch reason {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER: return appendHeaders(headers, to: data, count)
    case LWS_CALLBACK_ESTABLISHED_CLIENT_HTTP: return answered()
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP_READ:
      if let data { refusalBody.append(contentsOf: UnsafeRawBufferPointer(start: data, count: count)) }
    case LWS_CALLBACK_CLIENT_FILTER_PRE_ESTABLISH:
      // The last moment the answer's headers exist.
      if let wsi { client?.subprotocol = copyHeader(wsi, WSI_TOKEN_PROTOCOL) }
    case LWS_CALLBACK_CLIENT_ESTABLISHED: established()
    case LWS_CALLBACK_CLIENT_RECEIVE: received(data, count)
    case LWS_CALLBACK_CLIENT_RECEIVE_PONG: client?.lastHeard = loop.now
    case LWS_CALLBACK_CLIENT_WRITEABLE: return writable()
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE: return peerCloses(data, count)
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR: connectionFailed(data, count)
    case LWS_CALLBACK_CLIENT_CLOSED, LWS_CALLBACK_WSI_DESTROY: gone()
    default: break
    }
    return 0
  }

  /// lws shows the answer here before it checks it, and gives up afterwards if it is no 101
  /// (lib/roles/http/client/client-http.c, lws_client_interpret_server_handshake).
  private func answered() -> Int32 {
    guard let wsi else { return -1 }
    let status = Int(lws_http_client_http_response(wsi))
    guard status != 101, status != 0 else { return 0 }
    refusalStatus = status
    var room = [CChar](repeating: 0, count: 4_096)
    room.withUnsafeMutableBufferPointer { buffer in
      var start = buffer.baseAddress
      var count = Int32(buffer.count)
      // Says what it read through LWS_CALLBACK_RECEIVE_CLIENT_HTTP_READ.
      _ = lws_http_client_read(wsi, &start, &count)
    }
    return -1
  }

  private func established() {
    guard let client, let wsi else { return }
    isOpen = true
    timer?.cancel()
    timer = nil
    client.lastHeard = loop.now
    loop.soon { [self] in handler?.opened(client) }
    if closing != nil {
      armKiller()
      lws_callback_on_writable(wsi)
    }
  }

  private func writable() -> Int32 {
    guard isOpen, let wsi else { return 0 }
    guard lws_partial_buffered(wsi) == 0 else {
      lws_callback_on_writable(wsi)
      return 0
    }
    if wantsPing {
      wantsPing = false
      _ = write([0x3f], LWS_WRITE_PING, wsi)
    } else if !queue.isEmpty {
      let next = queue.removeFirst()
      pendingBytes -= next.count
      guard write(next, LWS_WRITE_TEXT, wsi) else { return -1 }
    } else if let closing, !closeIsSent {
      closeIsSent = true
      let body = [UInt8(closing.code >> 8), UInt8(closing.code & 0xff)] + closeReasonBytes(closing.reason)
      // A client's frames are masked (RFC 6455 section 5.3). Written whole, because
      // lws_close_reason() loses the frame in a _DEBUG build.
      let mask = withUnsafeBytes(of: UInt32.random(in: .min ... .max)) { Array($0) }
      let masked = body.indices.map { body[$0] ^ mask[$0 % 4] }
      let frame = [0x88, 0x80 | UInt8(body.count)] + mask + masked
      guard shim_write_raw(wsi, frame, frame.count) >= 0 else { return -1 }
    }
    let isMore = wantsPing || !queue.isEmpty || (closing != nil && !closeIsSent)
    if isMore { lws_callback_on_writable(wsi) }
    return 0
  }

  /// lws frames and masks in place and wants room in front (lws-write.h, LWS_PRE).
  private func write(_ payload: [UInt8], _ kind: lws_write_protocol, _ wsi: OpaquePointer) -> Bool {
    let room = shim_lws_pre()
    var buffer = [UInt8](repeating: 0, count: room)
    buffer.append(contentsOf: payload)
    return buffer.withUnsafeMutableBufferPointer { buffer in
      guard let start = buffer.baseAddress else { return false }
      return lws_write(wsi, start + room, payload.count, kind) >= 0
    }
  }

  private func received(_ data: UnsafeMutableRawPointer?, _ count: Int) {
    guard let client, let wsi else { return }
    client.lastHeard = loop.now
    guard closing == nil else { return }
    let left = message.count + count + lws_remaining_packet_payload(wsi)
    guard left <= WebSocketClient.maxMessageBytes else {
      message = []
      return close(code: 1009, reason: "message longer than \(WebSocketClient.maxMessageBytes) bytes")
    }
    if let data { message.append(contentsOf: UnsafeRawBufferPointer(start: data, count: count)) }
    guard lws_remaining_packet_payload(wsi) == 0, lws_is_final_fragment(wsi) != 0 else { return }
    let whole = message
    message = []
    // Queued, so that it never comes before opened().
    loop.soon { [self] in handler?.received(text: whole, client) }
  }

  private func peerCloses(_ data: UnsafeMutableRawPointer?, _ count: Int) -> Int32 {
    guard closing == nil else { return -1 }
    guard peerClosing == nil else { return 0 }
    peerClosing = closeFrame(UnsafeRawBufferPointer(start: data, count: data == nil ? 0 : count))
    return 0
  }

  private func connectionFailed(_ data: UnsafeMutableRawPointer?, _ count: Int) {
    let text = data.map { String(decoding: UnsafeRawBufferPointer(start: $0, count: count), as: UTF8.self) }
    let reason = text.map { String($0.prefix { $0 != "\0" }) } ?? "connection refused"
    if let refusal = verdict.refusal {
      fail(.untrusted(address: target.address, reason: refusal))
    } else if let handshake = handshakeFailure(reason) {
      fail(.unreachable(address: target.address, reason: handshake))
    } else if let refusalStatus {
      fail(.refused(address: target.address, status: refusalStatus, body: refusalBody))
    } else if reason.hasPrefix("HS:") || reason.contains("header") {
      fail(.badHandshake(address: target.address, reason: reason))
    } else {
      // What lws says when the kernel refused the connection (lib/core-net/close.c).
      let isRefusal = reason == "closed before established"
      fail(.unreachable(address: target.address, reason: isRefusal ? "connection refused" : reason))
    }
  }

  private func fail(_ error: WebSocketClientError) {
    guard !isOpen, let client, let handler else { return }
    self.handler = nil
    finish()
    loop.soon { handler.failed(client, error) }
  }

  private func gone() {
    guard isOpen, let client else {
      return fail(.unreachable(address: target.address, reason: "connection closed"))
    }
    let code = closing?.code ?? peerClosing?.code
    let reason = closing?.reason ?? peerClosing?.reason ?? ""
    finish()
    loop.soon { [self] in
      let handler = self.handler
      self.handler = nil
      handler?.closed(client, code: code, reason: reason)
    }
  }

  private func finish() {
    isOpen = false
    timer?.cancel()
    timer = nil
    client = nil
    queue = []
    pendingBytes = 0
    if let context = try? loop.websocketsContext() { context.release(self) }
  }
}
