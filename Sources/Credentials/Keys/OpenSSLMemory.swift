// Why: OpenSSL reads and writes PEM through BIOs. These two functions lend it bytes for one call and take bytes back,
// so that no pointer outlives the call.
//
// Whoever calls OpenSSL here also empties its error queue. It belongs to the thread, and the server's TLS runs on the
// same one: "The current thread's error queue must be empty before the TLS/SSL I/O operation is attempted, or
// SSL_get_error() will not work reliably" (SSL_get_error(3)). A bad token must not end a stranger's connection.

import COpenSSL

enum OpenSSLMemory {
  /// Lets OpenSSL read some bytes.
  static func reading<Value>(_ bytes: [UInt8], _ body: (_ bio: OpaquePointer) -> Value?) -> Value? {
    defer { ERR_clear_error() }
    return bytes.withUnsafeBytes { buffer in
      guard let bio = BIO_new_mem_buf(buffer.baseAddress, Int32(clamping: buffer.count)) else { return nil }
      defer { BIO_free(bio) }
      return body(bio)
    }
  }

  /// Takes what OpenSSL writes; nil when it failed.
  ///
  /// The memory in between is OpenSSL's secure heap where the program has one, and is wiped when it is freed
  /// (BIO_s_secmem(3)): what is written may be a private key.
  static func written(_ body: (_ bio: OpaquePointer) -> Int32) -> [UInt8]? {
    defer { ERR_clear_error() }
    guard let bio = BIO_new(BIO_s_secmem()) else { return nil }
    defer { BIO_free(bio) }
    guard body(bio) == 1 else { return nil }
    var bytes = [UInt8](repeating: 0, count: BIO_ctrl_pending(bio))
    let count = bytes.withUnsafeMutableBytes { BIO_read(bio, $0.baseAddress, Int32($0.count)) }
    return count == bytes.count ? bytes : nil
  }

}

/// Stands where OpenSSL would ask on the terminal for a password; reading an encrypted key then fails (pem_password_cb(3)).
func refusePassword(
  _: UnsafeMutablePointer<CChar>?, _: Int32, _: Int32, _: UnsafeMutableRawPointer?
) -> Int32 { -1 }
