// Why: a ticket is the session's state, sealed with a key of the server's (RFC 5077, RFC 8446 section 4.6.1). OpenSSL makes that key
// for each SSL_CTX, so that a ticket would be good on one port and until the next reload only. Here the key follows from
// a secret of the process and from what a session relies on: the same certificate, and the same authorities for its clients,
// take each other's tickets, on every port and loop and across reloads. Another certificate or authority doesn't: a
// client shall not come back to what is no longer there, or with a certificate that is no longer trusted.

import COpenSSL
import COpenSSLShims

enum TicketKeys {
  /// Never leaves the process, and goes with it.
  private static let secret: [UInt8] = {
    var random = SystemRandomNumberGenerator()
    return (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
  }()

  /// Bytes of a name, an HMAC key and an AES key, as OpenSSL has them (SSL_CTX_set_tlsext_ticket_keys, ssl/s3_lib.c).
  private static let count = 80

  /// Gives a server's context the keys for what its sessions rely on.
  static func set(
    _ context: OpaquePointer, certificate: Certificate, clients: [Certificate], isRequired: Bool
  ) {
    var basis = secret + [isRequired ? 1 : 0]
    for certificate in [certificate] + clients { basis += digest(of: certificate) }
    let keys = [1, 2].flatMap { hash([$0] + basis) }
    shim_set_ticket_keys(context, keys, count)
  }

  private static func digest(of certificate: Certificate) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    var count: UInt32 = 0
    X509_digest(certificate.raw, EVP_sha256(), &bytes, &count)
    return Array(bytes.prefix(Int(count)))
  }

  /// 64 bytes.
  private static func hash(_ bytes: [UInt8]) -> [UInt8] {
    var hashed = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    var count: UInt32 = 0
    EVP_Digest(bytes, bytes.count, &hashed, &count, EVP_sha512(), nil)
    return Array(hashed.prefix(Int(count)))
  }
}
