// Why: libwebsockets' TLS keeps a context, buffers and a session cache for each client. Thousands of clients of one server
// need one SSL_CTX, and of each connection what OpenSSL keeps of it. No pointer of OpenSSL leaves this file.

import COpenSSL
import COpenSSLShims
import Glibc

/// What the secure connections of a swarm have in common: whom they trust.
final class SwarmTLS {
  private let context: OpaquePointer
  private let host: String

  /// - Parameters:
  ///   - host: the name or the address that the server's certificate must have.
  ///   - authority: a PEM file of the authorities that are trusted; nil for the system's.
  init(host: String, authority: String?) throws(Swarm.Failure) {
    guard let context = SSL_CTX_new(TLS_client_method()) else {
      throw Swarm.Failure(description: "OpenSSL gives no context")
    }
    self.context = context
    self.host = host
    // What throws from here on is followed by deinit: every property has its value.
    guard shim_ssl_common(context) == 1 else { throw Swarm.Failure(description: "OpenSSL has no TLS 1.2") }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
    if let authority {
      guard SSL_CTX_load_verify_file(context, authority) == 1 else {
        ERR_clear_error()
        throw Swarm.Failure(description: "\(authority) has no readable PEM certificate of an authority")
      }
    } else {
      SSL_CTX_set_default_verify_paths(context)
    }
  }

  deinit { SSL_CTX_free(context) }

  /// A session on a socket, which stays its caller's; nil when OpenSSL has no memory for it.
  func session(on descriptor: Int32) -> SwarmTLSSession? {
    guard let raw = SSL_new(context) else { return nil }
    let session = SwarmTLSSession(owning: raw, context: self)
    // An address is looked for among the addresses, a name among the names (X509_check_host(3)).
    let isAddress = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(raw), host) == 1
    guard isAddress || (SSL_set1_host(raw, host) == 1 && shim_set_server_name(raw, host) == 1),
      SSL_set_fd(raw, descriptor) == 1
    else { return nil }
    SSL_set_connect_state(raw)
    return session
  }
}

/// TLS of one connection. It reads and writes the socket by itself, which raises no SIGPIPE where that is ignored; the loop
/// ignores it.
final class SwarmTLSSession {
  /// What came of a step.
  enum Step {
    case done(Int)
    case wantsRead
    case wantsWrite
    case closed
    case failed(String)
  }

  private let raw: OpaquePointer
  /// Holds the context as long as there is a session of it.
  private let context: SwarmTLS

  fileprivate init(owning raw: OpaquePointer, context: SwarmTLS) {
    self.raw = raw
    self.context = context
  }

  deinit { SSL_free(raw) }

  /// Goes on with the handshake; 1 when it is done.
  func handshake() -> Step {
    let result = SSL_do_handshake(raw)
    guard result != 1 else { return .done(1) }
    let verdict = SSL_get_verify_result(raw)
    let step = step(result)
    guard case .failed = step, verdict != X509_V_OK else { return step }
    return .failed(
      "the server's certificate is not accepted: \(String(cString: X509_verify_cert_error_string(verdict)))")
  }

  /// Reads into a buffer of at least a record, 16 KB, so that nothing stays in OpenSSL that epoll doesn't know of
  /// (SSL_pending(3)).
  func read(into buffer: UnsafeMutableRawBufferPointer) -> Step {
    step(SSL_read(raw, buffer.baseAddress, Int32(clamping: buffer.count)))
  }

  func write(_ bytes: [UInt8]) -> Step {
    bytes.withUnsafeBytes { step(SSL_write(raw, $0.baseAddress, Int32(clamping: $0.count))) }
  }

  private func step(_ result: Int32) -> Step {
    guard result <= 0 else { return .done(Int(result)) }
    let problem = errno
    // SSL_get_error(3) looks at the thread's queue of errors, which must be empty before the next call.
    defer { ERR_clear_error() }
    switch SSL_get_error(raw, result) {
    case SSL_ERROR_WANT_READ: return .wantsRead
    case SSL_ERROR_WANT_WRITE: return .wantsWrite
    case SSL_ERROR_ZERO_RETURN: return .closed
    case SSL_ERROR_SYSCALL:
      return .failed(problem == 0 ? "connection closed" : String(cString: strerror(problem)))
    default:
      let code = ERR_peek_error()
      return .failed(ERR_reason_error_string(code).map { "TLS: \(String(cString: $0))" } ?? "TLS failed")
    }
  }
}
