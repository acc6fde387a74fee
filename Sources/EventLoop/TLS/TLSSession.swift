// Why: OpenSSL on a non-blocking socket has four answers where recv(2) has two, and a queue of errors that belongs to the
// thread, so that a leftover of one connection fails the next one (SSL_get_error(3)). This is where both end.

import COpenSSL
import Glibc

/// TLS on one connected, non-blocking socket, as the server's side.
final class TLSSession {
  enum Handshake: Equatable {
    case done
    case blocked
    case failed(String)
  }

  /// What was read blocks until the socket takes something, for instance a new key.
  private(set) var readWaitsForRoom = false
  /// What was written blocks until the peer says something.
  private(set) var writeWaitsForPeer = false

  /// OpenSSL's own, for those who write to it directly; see ``SecureEnd``.
  let ssl: OpaquePointer
  private var endIsKnown = false
  private var isBroken = false

  init?(_ context: TLSContext, descriptor: Int32) {
    guard let ssl = SSL_new(context.raw) else { return nil }
    self.ssl = ssl
    guard SSL_set_fd(ssl, descriptor) == 1 else { return nil }
    SSL_set_accept_state(ssl)
  }

  deinit { SSL_free(ssl) }

  /// Whether a read gives something although the socket is not readable: decrypted bytes, or the end.
  var hasMore: Bool { SSL_pending(ssl) > 0 || endIsKnown || isBroken }

  func handshake() -> Handshake {
    ERR_clear_error()
    let result = SSL_do_handshake(ssl)
    guard result != 1 else {
      readWaitsForRoom = false
      return .done
    }
    switch SSL_get_error(ssl, result) {
    case SSL_ERROR_WANT_READ: readWaitsForRoom = false
    case SSL_ERROR_WANT_WRITE: readWaitsForRoom = true
    default:
      isBroken = true
      let code = ERR_peek_last_error()
      let reason = code == 0 ? nil : ERR_reason_error_string(code).map { String(cString: $0) }
      ERR_clear_error()
      return .failed(reason ?? "the client went away")
    }
    return .blocked
  }

  /// What ALPN agreed on; nil without ALPN.
  var applicationProtocol: String? {
    var name: UnsafePointer<UInt8>?
    var count: UInt32 = 0
    SSL_get0_alpn_selected(ssl, &name, &count)
    guard let name, count > 0 else { return nil }
    return String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
  }

  /// The client's certificate, when it has shown one that was verified.
  var peerCertificate: PeerCertificate? {
    guard let raw = SSL_get1_peer_certificate(ssl), SSL_get_verify_result(ssl) == Int(X509_V_OK) else {
      return nil
    }
    return PeerCertificate(Certificate(owning: raw))
  }

  /// Reads until `buffer` is full or the socket is empty: a record holds at most 16 KB.
  func read(into buffer: UnsafeMutableRawBufferPointer) -> Wire.Moved {
    guard let start = buffer.baseAddress, !isBroken else { return .failed }
    var have = 0
    while have < buffer.count {
      ERR_clear_error()
      let count = SSL_read(ssl, start + have, Int32(buffer.count - have))
      if count > 0 {
        have += Int(count)
        continue
      }
      switch SSL_get_error(ssl, count) {
      case SSL_ERROR_WANT_READ: readWaitsForRoom = false
      case SSL_ERROR_WANT_WRITE: readWaitsForRoom = true
      case SSL_ERROR_ZERO_RETURN:
        endIsKnown = true
        return have > 0 ? .bytes(have) : .ended
      default:
        fail()
        return have > 0 ? .bytes(have) : .failed
      }
      return have > 0 ? .bytes(have) : .blocked
    }
    return .bytes(have)
  }

  /// Writes until all is taken or the socket is full. After `blocked` the same bytes must come first in the next call, because
  /// OpenSSL has begun to send them (SSL_write(3), "repeated with the same arguments").
  func write(_ start: UnsafeRawPointer, _ count: Int) -> Wire.Moved {
    guard !isBroken else { return .failed }
    var sent = 0
    while sent < count {
      ERR_clear_error()
      let taken = SSL_write(ssl, start + sent, Int32(clamping: count - sent))
      if taken > 0 {
        sent += Int(taken)
        continue
      }
      switch SSL_get_error(ssl, taken) {
      case SSL_ERROR_WANT_WRITE: writeWaitsForPeer = false
      case SSL_ERROR_WANT_READ: writeWaitsForPeer = true
      default:
        fail()
        return .failed
      }
      return sent > 0 ? .bytes(sent) : .blocked
    }
    writeWaitsForPeer = false
    return .bytes(sent)
  }

  /// Sends close_notify if the socket takes it; the peer's own is not waited for (RFC 8446 section 6.1).
  func sayGoodbye() {
    // Not after a fatal error (SSL_shutdown(3)).
    guard !isBroken, SSL_is_init_finished(ssl) == 1 else { return }
    ERR_clear_error()
    if SSL_shutdown(ssl) < 0 { ERR_clear_error() }
  }

  /// Nothing is read or written any more: after a fatal error OpenSSL must not be asked again (SSL_get_error(3)).
  func fail() {
    isBroken = true
    ERR_clear_error()
  }
}
