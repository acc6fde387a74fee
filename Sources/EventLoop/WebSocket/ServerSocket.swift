// Why: the WebSocket half of a Connection. lws keeps the protocol (masking, fragments, pongs, the closing
// handshake); sending goes around it: a prepared frame is written to the socket directly, which is safe
// as long as lws itself has nothing half-written (lws_partial_buffered), and only the rest of a short
// write is handed to lws with LWS_WRITE_RAW, which then comes first at the next POLLOUT
// (lib/core-net/service.c, lws_handle_POLLOUT_event, "Priority 1").
//
// Close frames are ours, too. The documented way, lws_close_reason() and -1 from the writeable callback,
// sends none: Debian's build has _DEBUG, where lws_service_fd_tsi() closes a second time ("close_and_handled
// uv repeat test") and the second close kills the connection before the frame is out.

import CLibwebsockets
import CLibwebsocketsShims
import Glibc

final class ServerSocket: WebSocketEndpoint, Carrier {
  let connection: Connection
  private let loop: EventLoop
  private let maxMessageBytes: Int
  private let whenGone: () -> Void

  /// FIN, opcode 9, no mask, a payload: lws does not report pongs without one
  /// (lib/roles/ws/ops-ws.c, lws_ws_rx_sm, "already_done").
  private static let pingFrame: [UInt8] = [0x89, 0x01, 0x3f]

  private var descriptor: Int32 = -1
  private var message: [UInt8] = []
  private var wantsWritable = false
  private var wantsPing = false
  private var closing: (code: UInt16, reason: String)?
  private var peerClosing: (code: UInt16?, reason: String)?
  private var closeIsSent = false
  private var killer: LoopTimer?

  init(connection: Connection, loop: EventLoop, maxMessageBytes: Int, whenGone: @escaping () -> Void) {
    self.connection = connection
    self.loop = loop
    self.maxMessageBytes = maxMessageBytes
    self.whenGone = whenGone
  }

  var isOpen: Bool { descriptor >= 0 && closing == nil && peerClosing == nil }

  // MARK: - Carrier

  func send(_ bytes: [UInt8]) -> Bool {
    guard isOpen, let wsi else { return false }
    if wantsPing || lws_partial_buffered(wsi) != 0 {
      askWritable(wsi)
      return false
    }
    return push(bytes, wsi)
  }

  func ping() {
    guard isOpen, let wsi else { return }
    if lws_partial_buffered(wsi) == 0, push(Self.pingFrame, wsi) { return }
    wantsPing = true
    lws_callback_on_writable(wsi)
  }

  func close(code: UInt16, reason: String) {
    guard isOpen else { return }
    closing = (code, reason)
    message = []
    killer = loop.schedule(after: 5) { [weak self] in
      if let wsi = self?.wsi { destroy(wsi) }
    }
    sendClose()
  }

  /// Sends the close frame as soon as nothing is half-written; the peer's close frame then ends it all.
  private func sendClose() {
    guard let closing, !closeIsSent, let wsi else { return }
    let body = [UInt8(closing.code >> 8), UInt8(closing.code & 0xff)] + closeReasonBytes(closing.reason)
    if lws_partial_buffered(wsi) == 0, push([0x88, UInt8(body.count)] + body, wsi) {
      closeIsSent = true
    } else {
      lws_callback_on_writable(wsi)
    }
  }

  private func askWritable(_ wsi: OpaquePointer) {
    guard !wantsWritable else { return }
    wantsWritable = true
    lws_callback_on_writable(wsi)
  }

  private func push(_ bytes: [UInt8], _ wsi: OpaquePointer) -> Bool {
    bytes.withUnsafeBytes { buffer in
      guard let start = buffer.baseAddress else { return true }
      let sent = shim_send_now(descriptor, start, buffer.count)
      if sent == buffer.count { return true }
      guard sent > 0 else {
        // EAGAIN: nothing was taken. Any other error shows as a hang-up on the next poll.
        askWritable(wsi)
        return false
      }
      shim_write_raw(wsi, start.advanced(by: sent), buffer.count - sent)
      return true
    }
  }

  // MARK: - What lws says

  override func handle(
    _ reason: lws_callback_reasons, _ data: UnsafeMutableRawPointer?, _ count: Int
  ) -> Int32 {
    switch reason {
    case LWS_CALLBACK_ADD_HEADERS: return addHeaders(data)
    case LWS_CALLBACK_ESTABLISHED:
      if let wsi { descriptor = lws_get_socket_fd(wsi) }
    case LWS_CALLBACK_RECEIVE: received(data, count)
    case LWS_CALLBACK_RECEIVE_PONG:
      connection.lastHeard = loop.now
      connection.handler?.ponged(connection)
    case LWS_CALLBACK_SERVER_WRITEABLE: return writable()
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE: return peerCloses(data, count)
    case LWS_CALLBACK_CLOSED, LWS_CALLBACK_WSI_DESTROY: gone()
    default: break
    }
    return 0
  }

  private func addHeaders(_ data: UnsafeMutableRawPointer?) -> Int32 {
    guard let subprotocol = connection.subprotocol, let data else { return 0 }
    let arguments = data.assumingMemoryBound(to: lws_process_html_args.self)
    let line = Array("Sec-WebSocket-Protocol: \(subprotocol)\r\n".utf8)
    guard line.count < Int(arguments.pointee.max_len), let end = arguments.pointee.p else { return -1 }
    UnsafeMutableRawPointer(end).copyMemory(from: line, byteCount: line.count)
    arguments.pointee.p = end + line.count
    return 0
  }

  private func writable() -> Int32 {
    guard let wsi else { return -1 }
    if lws_partial_buffered(wsi) != 0 {
      lws_callback_on_writable(wsi)
      return 0
    }
    if closing != nil {
      sendClose()
      return 0
    }
    if wantsPing {
      wantsPing = false
      ping()
      if wantsPing || lws_partial_buffered(wsi) != 0 {
        lws_callback_on_writable(wsi)
        return 0
      }
    }
    if wantsWritable {
      wantsWritable = false
      connection.handler?.writable(connection)
    }
    return 0
  }

  private func received(_ data: UnsafeMutableRawPointer?, _ count: Int) {
    guard isOpen, let wsi else { return }
    connection.lastHeard = loop.now
    if lws_frame_is_binary(wsi) != 0 {
      close(code: 1003, reason: "binary messages are not accepted")
      return
    }
    // At a chunk, count + remaining is what is left of the frame: refuse before it is all here.
    let remaining = lws_remaining_packet_payload(wsi)
    guard message.count + count + remaining <= maxMessageBytes else {
      close(code: 1009, reason: "message longer than \(maxMessageBytes) bytes")
      return
    }
    if let data { message.append(contentsOf: UnsafeRawBufferPointer(start: data, count: count)) }
    // The last chunk can be empty.
    guard remaining == 0, lws_is_final_fragment(wsi) != 0 else { return }
    let whole = message
    message = []
    guard String(validating: whole, as: UTF8.self) != nil else {
      close(code: 1007, reason: "text is not valid UTF-8")
      return
    }
    connection.handler?.received(text: whole, connection)
  }

  /// 0 lets lws answer with the peer's code; -1 ends the connection.
  private func peerCloses(_ data: UnsafeMutableRawPointer?, _ count: Int) -> Int32 {
    // Our close frame is out and this is its answer, or both crossed.
    guard closing == nil else { return -1 }
    guard peerClosing == nil else { return 0 }
    peerClosing = closeFrame(UnsafeRawBufferPointer(start: data, count: data == nil ? 0 : count))
    return 0
  }

  private func gone() {
    guard descriptor >= 0 else { return }
    descriptor = -1
    killer?.cancel()
    killer = nil
    let code = closing?.code ?? peerClosing?.code
    let reason = closing?.reason ?? peerClosing?.reason ?? ""
    if let context = try? loop.websocketsContext() { context.release(self) }
    let connection = self.connection
    let whenGone = self.whenGone
    loop.soon {
      whenGone()
      connection.ended(code: code, reason: reason)
    }
  }
}
