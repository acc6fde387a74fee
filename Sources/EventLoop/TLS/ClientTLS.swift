// Why: libwebsockets does its clients' TLS, but with an SSL_CTX and a verdict on the server's certificate of ours: its own
// errors say "error:00000001:lib(0)", and its check of the name cannot read an IPv6 address
// (lib/tls/openssl/openssl-client.c, lws_tls_client_connect and lws_ssl_client_bio_create).

import COpenSSL

/// How a client checks a secure server, and what it shows of itself.
public struct ClientTLS: Sendable, Hashable {
  /// The authorities that are trusted; nil means the system's.
  public var authority: PEMSource?
  /// The client's own certificate, followed by those that signed it; needs `privateKey`.
  public var certificateChain: PEMSource?
  /// The key of the first certificate of the chain, not encrypted.
  public var privateKey: PEMSource?
  /// Takes whatever certificate the server shows. For experiments: anybody on the way could be the server.
  public var isInsecure: Bool

  /// Makes a configuration; nothing is read yet.
  public init(
    authority: PEMSource? = nil, certificateChain: PEMSource? = nil, privateKey: PEMSource? = nil,
    isInsecure: Bool = false
  ) {
    self.authority = authority
    self.certificateChain = certificateChain
    self.privateKey = privateKey
    self.isInsecure = isInsecure
  }

  /// Reads all of it, as a client does.
  /// - Throws: ``EventLoopError/badTLSFile(path:reason:)``.
  public func check() throws(EventLoopError) { _ = try TLSContext(self) }
}

/// A client's look at a server's certificate, once for each certificate of the chain; the server's own comes last.
struct ServerVerdict {
  private let host: String
  private let isInsecure: Bool
  /// Why the server is not trusted.
  private(set) var refusal: String?

  init(host: String, isInsecure: Bool) {
    self.host = host
    self.isInsecure = isInsecure
  }

  /// - Parameter isTrusted: OpenSSL's own verdict (SSL_CTX_set_verify(3), "preverify_ok").
  /// - Returns: whether the handshake goes on.
  mutating func accepts(_ verification: OpaquePointer, isTrusted: Bool) -> Bool {
    guard !isInsecure else {
      X509_STORE_CTX_set_error(verification, X509_V_OK)
      return true
    }
    guard isTrusted else {
      refusal = Self.describe(X509_STORE_CTX_get_error(verification), host: host)
      return false
    }
    guard X509_STORE_CTX_get_error_depth(verification) == 0 else { return true }
    let certificate = X509_STORE_CTX_get_current_cert(verification)
    // An address is looked for among the addresses, a name among the names (X509_check_host(3)).
    guard
      X509_check_ip_asc(certificate, host, 0) == 1
        || X509_check_host(certificate, host, host.utf8.count, 0, nil) == 1
    else {
      X509_STORE_CTX_set_error(verification, X509_V_ERR_HOSTNAME_MISMATCH)
      refusal = Self.describe(X509_V_ERR_HOSTNAME_MISMATCH, host: host)
      return false
    }
    return true
  }

  private static func describe(_ code: Int32, host: String) -> String {
    switch code {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      "the server's certificate is not trusted; name the file of the authority that signed it"
    case X509_V_ERR_CERT_HAS_EXPIRED: "the server's certificate has expired"
    case X509_V_ERR_CERT_NOT_YET_VALID:
      "the server's certificate is not valid yet; is this machine's clock right?"
    case X509_V_ERR_HOSTNAME_MISMATCH: "the server's certificate is not for \(host)"
    default:
      "the server's certificate is not accepted: " + String(cString: X509_verify_cert_error_string(Int(code)))
    }
  }
}

/// What lws says of a handshake that broke off has no reason in it ("connect SSL err 1: error:00000001", "connect SYSCALL 104";
/// lws_tls_client_connect). nil when it is about something else.
func handshakeFailure(_ text: String) -> String? {
  guard text.hasPrefix("connect SSL") || text.hasPrefix("connect SYSCALL") else { return nil }
  return
    "the TLS handshake failed: the port does not speak TLS 1.2 or newer, or the server refuses this client"
}
