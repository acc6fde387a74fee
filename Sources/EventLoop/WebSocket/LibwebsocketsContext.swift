// Why: the only file that makes and destroys a lws context, and the only lws callback of the module. It serves clients
// only, and one protocol serves them all: connections find their Swift object through the opaque pointer of the wsi, so
// no per-session memory of lws is used and subprotocols are not lws protocols.

import CLibuv
import CLibwebsockets
import Glibc
import Locks

/// What a wsi reports to. The context keeps it alive from ``LibwebsocketsContext/keep(_:)`` until
/// ``LibwebsocketsContext/release(_:)``; lws itself holds no reference.
class WebSocketEndpoint {
  var wsi: OpaquePointer?

  func handle(_ reason: lws_callback_reasons, _ data: UnsafeMutableRawPointer?, _ count: Int) -> Int32 { 0 }

  /// Whether a secure server is who it should be; see ``ServerVerdict``.
  func trusts(_ verification: OpaquePointer, isTrusted: Bool) -> Bool { isTrusted }
}

/// Ends a connection of lws now, whatever is pending. Not from inside one of its callbacks.
func destroy(_ wsi: OpaquePointer) {
  guard lws_partial_buffered(wsi) != 0 else {
    lws_set_timeout(wsi, PENDING_TIMEOUT_KILLED_BY_PARENT, LWS_TO_KILL_SYNC)
    return
  }
  // With something buffered a synchronous kill only begins to flush (lib/core-net/close.c,
  // LRS_FLUSHING_BEFORE_CLOSE), an expired timeout does not (lib/core-net/wsi-timeout.c,
  // lws_sul_wsitimeout_cb). Timeouts are looked at after socket events only: shutdown() makes one.
  lws_set_timeout(wsi, PENDING_TIMEOUT_KILLED_BY_PARENT, LWS_TO_KILL_ASYNC)
  shutdown(lws_get_socket_fd(wsi), Int32(SHUT_RDWR))
}

final class LibwebsocketsContext {
  private let raw: OpaquePointer
  private let vhost: OpaquePointer
  private var endpoints: [ObjectIdentifier: WebSocketEndpoint] = [:]
  /// One vhost for each way of checking servers: lws keeps an SSL_CTX a vhost. The contexts live as long as lws may use them.
  private var secureVhosts: [ClientTLS: (vhost: OpaquePointer, tls: TLSContext)] = [:]
  private let eventPipe: Int32
  private let decoys: [Int32]
  /// More than other threads open in the moment of a destruction. Four were too few beside a whole test suite.
  private static let decoyCount = 64
  private let loopList: UnsafeMutablePointer<UnsafeMutableRawPointer?>

  init(loop: EventLoop) throws {
    let loopList = UnsafeMutablePointer<UnsafeMutableRawPointer?>.allocate(capacity: 1)
    loopList.initialize(to: UnsafeMutableRawPointer(loop.uv))
    var info = lws_context_creation_info()
    info.port = CONTEXT_PORT_NO_LISTEN_SERVER
    info.protocols = Statics.protocols
    info.gid = -1
    info.uid = -1
    info.options = UInt64(LWS_SERVER_OPTION_LIBUV)
    info.foreign_loops = loopList
    info.retry_and_idle_policy = Statics.neverProbe
    // Room for long request lines and headers of outgoing requests; WebSocket reads stay at the
    // protocol's rx_buffer_size.
    info.pt_serv_buf_size = 16_384
    info.max_http_header_data = 16_384
    // Made on demand, held by clients that wait for an answer (lib/roles/http/parsers.c).
    info.max_http_header_pool = 16_384
    // All deadlines are ours: lws' own timers only run once its sockets have been serviced (lws_uv_idle).
    info.timeout_secs = 3_600
    info.connect_timeout_secs = 3_600

    var decoys: [Int32] = []
    let before = polledDescriptors(of: loop)
    let made = Statics.withProcessLock { () -> OpaquePointer? in
      lws_set_log_level(0, nil)
      decoys = (0..<Self.decoyCount).map { _ in open("/dev/null", O_RDONLY | O_CLOEXEC) }
      return lws_create_context(&info)
    }
    eventPipe = polledDescriptors(of: loop).subtracting(before).first ?? -1
    guard let made, let vhost = lws_get_vhost_by_name(made, "default") else {
      for decoy in decoys { close(decoy) }
      loopList.deallocate()
      throw EventLoopError.noContext
    }
    self.decoys = decoys
    self.raw = made
    self.vhost = vhost
    self.loopList = loopList
  }

  /// Starts an outgoing connection, through TLS if `tls` is given. `false`: it failed at once and `endpoint` hears nothing.
  /// - Throws: ``EventLoopError/badTLSFile(path:reason:)``.
  func connect(
    _ info: inout lws_client_connect_info, tls: ClientTLS?, endpoint: WebSocketEndpoint
  ) throws(EventLoopError) -> Bool {
    info.vhost = vhost
    if let tls {
      info.vhost = try secureVhost(tls)
      // The name is checked in ServerVerdict.
      info.ssl_connection |= Int32(LCCSCF_USE_SSL.rawValue | LCCSCF_SKIP_SERVER_CERT_HOSTNAME_CHECK.rawValue)
      // lws' HTTP/2 is not for strangers (see docs/architecture.md).
      info.alpn = Statics.cString("http/1.1")
    }
    keep(endpoint)
    info.context = raw
    info.opaque_user_data = Unmanaged.passUnretained(endpoint).toOpaque()
    info.retry_and_idle_policy = Statics.neverProbe
    guard let wsi = lws_client_connect_via_info(&info) else {
      release(endpoint)
      return false
    }
    // A connection that failed inside the call has reported so and is not kept any more.
    if endpoints[ObjectIdentifier(endpoint)] != nil { endpoint.wsi = wsi }
    return true
  }

  private func secureVhost(_ client: ClientTLS) throws(EventLoopError) -> OpaquePointer {
    if let known = secureVhosts[client] { return known.vhost }
    let tls = try TLSContext(client)
    var info = lws_context_creation_info()
    info.port = CONTEXT_PORT_NO_LISTEN
    info.protocols = Statics.protocols
    // Given to this vhost and not to the context: there it would make each context of the process take a new index for what
    // lws hangs on a SSL, in one variable for all of them (lib/tls/openssl/openssl-tls.c, lws_context_init_ssl_library).
    info.options = UInt64(LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT)
    info.provided_client_ssl_ctx = tls.raw
    info.retry_and_idle_policy = Statics.neverProbe
    let made = "tls-\(secureVhosts.count)".withCString { name in
      info.vhost_name = name
      return Statics.withProcessLock { lws_create_vhost(raw, &info) }
    }
    guard let made else { throw .noTLS(reason: "libwebsockets made no vhost") }
    secureVhosts[client] = (made, tls)
    return made
  }

  func keep(_ endpoint: WebSocketEndpoint) { endpoints[ObjectIdentifier(endpoint)] = endpoint }

  func release(_ endpoint: WebSocketEndpoint) {
    if let wsi = endpoint.wsi { lws_set_opaque_user_data(wsi, nil) }
    endpoint.wsi = nil
    endpoints[ObjectIdentifier(endpoint)] = nil
  }

  /// Starts closing every socket; the loop must turn before ``finishDestruction()``.
  ///
  /// lws closes its event pipe twice: in lws_plat_pipe_close() now, and in __lws_close_free_wsi_final() a
  /// loop turn later (lib/core-net/close.c; its log says "close ret 9", EBADF). In between another thread
  /// may get that number for a socket of its own, which then is closed under its feet. So the number is
  /// occupied again at once; what opens descriptors in this module does so under the same lock; and for the
  /// threads of others a few lower numbers become free first, because the kernel gives the lowest one.
  func beginDestruction() {
    Statics.withProcessLock {
      for decoy in decoys { close(decoy) }
      lws_context_destroy(raw)
      guard eventPipe >= 0, case let null = open("/dev/null", O_RDONLY | O_CLOEXEC), null >= 0 else { return }
      guard null != eventPipe else { return }
      let taken = fcntl(null, F_DUPFD_CLOEXEC, eventPipe)
      if taken != eventPipe { close(taken) }
      close(null)
    }
  }

  func finishDestruction() {
    Statics.withProcessLock { lws_context_destroy(raw) }
    loopList.deallocate()
    endpoints = [:]
    secureVhosts = [:]
  }
}

/// The descriptors under uv_poll of a loop.
private func polledDescriptors(of loop: EventLoop) -> Set<Int32> {
  let found = Found()
  uv_walk(
    loop.uv,
    { handle, argument in
      guard let handle, let argument, uv_handle_get_type(handle) == UV_POLL else { return }
      var descriptor: Int32 = -1
      guard uv_fileno(handle, &descriptor) == 0 else { return }
      Unmanaged<Found>.fromOpaque(argument).takeUnretainedValue().descriptors.insert(descriptor)
    }, Unmanaged.passUnretained(found).toOpaque())
  return found.descriptors
}

private final class Found {
  var descriptors: Set<Int32> = []
}

/// The C structures lws reads during the whole life of the process.
enum Statics {
  private static let lock = Mutex(())

  /// Making and destroying contexts loads plugins and initialises OpenSSL in process-wide variables
  /// (lib/core/context.c): one at a time. Also held where this module opens descriptors, see
  /// ``LibwebsocketsContext/beginDestruction()``.
  static func withProcessLock<Result>(_ body: () -> Result) -> Result {
    lock.withLock { _ in body() }
  }

  static let protocolName: StaticString = "touchline"

  /// Safe to share: written once here, and only read by lws.
  nonisolated(unsafe) static let protocols: UnsafePointer<lws_protocols> = {
    let list = UnsafeMutablePointer<lws_protocols>.allocate(capacity: 2)
    list.initialize(repeating: lws_protocols(), count: 2)
    list[0].name = cString(protocolName)
    list[0].callback = dispatch
    // The receive buffer is most of what a connection costs; a write above tx_packet_size would be
    // copied and sent in pieces (lib/core-net/output.c, lws_issue_raw).
    list[0].rx_buffer_size = 1_024
    list[0].tx_packet_size = 200_000
    return UnsafePointer(list)
  }()

  /// All zero: no validity pings, no hang-up, no timer a connection (lib/core-net/wsi-timeout.c,
  /// _lws_validity_confirmed_role). Safe to share: written once here, and only read by lws.
  nonisolated(unsafe) static let neverProbe: UnsafePointer<lws_retry_bo_t> = {
    let policy = UnsafeMutablePointer<lws_retry_bo_t>.allocate(capacity: 1)
    policy.initialize(to: lws_retry_bo_t())
    return UnsafePointer(policy)
  }()

  static func cString(_ string: StaticString) -> UnsafePointer<CChar> {
    UnsafeRawPointer(string.utf8Start).assumingMemoryBound(to: CChar.self)
  }
}

private func dispatch(
  _ wsi: OpaquePointer?, _ reason: lws_callback_reasons, _ user: UnsafeMutableRawPointer?,
  _ data: UnsafeMutableRawPointer?, _ count: Int
) -> Int32 {
  switch reason {
  case LWS_CALLBACK_PROTOCOL_INIT, LWS_CALLBACK_PROTOCOL_DESTROY, LWS_CALLBACK_WSI_CREATE,
    LWS_CALLBACK_GET_THREAD_ID, LWS_CALLBACK_EVENT_WAIT_CANCELLED, LWS_CALLBACK_LOCK_POLL,
    LWS_CALLBACK_UNLOCK_POLL, LWS_CALLBACK_ADD_POLL_FD, LWS_CALLBACK_DEL_POLL_FD,
    LWS_CALLBACK_CHANGE_MODE_POLL_FD:
    // These come without a connection, or with a wsi that is none yet.
    return 0
  case LWS_CALLBACK_OPENSSL_PERFORM_SERVER_CERT_VERIFICATION:
    // `user` is the X509_STORE_CTX, `count` the verdict so far; 0 accepts (lws-callbacks.h).
    guard let wsi, let user, let owner = lws_get_opaque_user_data(wsi) else { return 1 }
    let endpoint = Unmanaged<WebSocketEndpoint>.fromOpaque(owner).takeUnretainedValue()
    return endpoint.trusts(OpaquePointer(user), isTrusted: count != 0) ? 0 : 1
  default:
    guard let wsi, let owner = lws_get_opaque_user_data(wsi) else { return 0 }
    let endpoint = Unmanaged<WebSocketEndpoint>.fromOpaque(owner).takeUnretainedValue()
    endpoint.wsi = wsi
    return endpoint.handle(reason, data, count)
  }
}
