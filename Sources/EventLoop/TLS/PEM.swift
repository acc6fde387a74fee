// Why: OpenSSL's own loaders (SSL_CTX_use_certificate_chain_file) say "no start line" for a missing file, a
// key in the place of a certificate and an empty file alike. Reading step by step tells them apart.

import COpenSSL
import Glibc

/// One certificate; OpenSSL counts its references.
final class Certificate {
  let raw: OpaquePointer

  init(owning raw: OpaquePointer) { self.raw = raw }

  deinit { X509_free(raw) }

  /// When it expires, in seconds since 1970; nil when the date cannot be read.
  var notAfter: Int? {
    var parts = tm()
    guard ASN1_TIME_to_tm(X509_get0_notAfter(raw), &parts) == 1 else { return nil }
    return timegm(&parts)
  }
}

enum PEM {
  /// More is no certificate or key of anybody.
  private static let maxBytes = 1_048_576

  /// The certificates of a source, at least one.
  static func certificates(_ source: PEMSource) throws(EventLoopError) -> [Certificate] {
    let bytes = try contents(source, what: "certificate")
    let found = withMemory(bytes) { memory in
      var found: [Certificate] = []
      while let raw = PEM_read_bio_X509(memory, nil, nil, nil) { found.append(Certificate(owning: raw)) }
      return found
    }
    ERR_clear_error()
    guard !found.isEmpty else {
      throw .badTLSFile(
        path: source.name, reason: "it has no readable PEM certificate (-----BEGIN CERTIFICATE-----)")
    }
    return found
  }

  /// Calls `body` with the private key of a source.
  static func withPrivateKey<Result>(
    _ source: PEMSource, _ body: (OpaquePointer) -> Result
  ) throws(EventLoopError) -> Result {
    let bytes = try contents(source, what: "key")
    let key = withMemory(bytes) { memory in
      // Without this callback OpenSSL would ask for the passphrase on the terminal (pem_password_cb(3)).
      PEM_read_bio_PrivateKey(memory, nil, { _, _, _, _ in -1 }, nil)
    }
    ERR_clear_error()
    guard let key else {
      let isEncrypted = String(decoding: bytes, as: UTF8.self).contains("ENCRYPTED")
      throw .badTLSFile(
        path: source.name,
        reason: isEncrypted
          ? "the key is encrypted; give one without a passphrase"
          : "it has no readable PEM private key (-----BEGIN PRIVATE KEY-----)")
    }
    defer { EVP_PKEY_free(key) }
    return body(key)
  }

  private static func withMemory<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
    bytes.withUnsafeBytes { buffer in
      let memory = BIO_new_mem_buf(buffer.baseAddress, Int32(buffer.count))
      defer { BIO_free(memory) }
      return body(memory)
    }
  }

  private static func contents(_ source: PEMSource, what: String) throws(EventLoopError) -> [UInt8] {
    guard case .file(let path) = source else {
      if case .bytes(let bytes, _) = source { return bytes }
      return []
    }
    let descriptor = Statics.withProcessLock { open(path, O_RDONLY | O_CLOEXEC) }
    guard descriptor >= 0 else {
      throw .badTLSFile(path: path, reason: "the \(what) cannot be read: \(describe(errno: errno))")
    }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 16_384)
    while bytes.count <= maxBytes {
      let count = read(descriptor, &room, room.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else {
        throw .badTLSFile(path: path, reason: "the \(what) cannot be read: \(describe(errno: errno))")
      }
      if count == 0 { return bytes }
      bytes.append(contentsOf: room.prefix(count))
    }
    throw .badTLSFile(path: path, reason: "it is longer than \(maxBytes) bytes")
  }
}

/// The oldest entry of OpenSSL's error queue as text, and an empty queue afterwards.
func takeTLSError() -> String {
  let code = ERR_get_error()
  ERR_clear_error()
  guard code != 0 else { return "unknown reason" }
  guard let text = ERR_reason_error_string(code) else { return "error \(code)" }
  return String(cString: text)
}
