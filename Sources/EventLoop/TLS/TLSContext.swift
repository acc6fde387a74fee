// Why: an SSL_CTX is what connections have in common: certificates, trusted authorities, ciphers, ticket keys.
// OpenSSL counts its references, so connections keep the context they began with when the server swaps in another.

import COpenSSL
import COpenSSLShims

final class TLSContext {
  let raw: OpaquePointer
  /// When the certificate expires, in seconds since 1970.
  let notAfter: Int?

  /// A server's context.
  /// - Throws: ``EventLoopError/badTLSFile(path:reason:)``.
  init(_ identity: TLSIdentity) throws(EventLoopError) {
    let chain = try PEM.certificates(identity.certificateChain)
    guard let raw = SSL_CTX_new(TLS_server_method()), shim_ssl_common(raw) == 1 else {
      throw .noTLS(reason: takeTLSError())
    }
    self.raw = raw
    notAfter = chain[0].notAfter
    // Forward secrecy and authenticated encryption only; HTTP/2 forbids the rest (RFC 9113 section 9.2.2). The ciphers of
    // TLS 1.3 are all such and stay as they are.
    SSL_CTX_set_cipher_list(raw, "ECDHE+AESGCM:ECDHE+CHACHA20")
    shim_no_session_cache(raw)
    let name = Array("touchline".utf8)
    // Needed for resumption when clients have certificates (SSL_CTX_set_session_id_context(3)).
    SSL_CTX_set_session_id_context(raw, name, UInt32(name.count))
    SSL_CTX_set_alpn_select_cb(raw, selectProtocol, nil)
    // What throws from here on is followed by deinit: every property has its value.
    try use(chain, named: identity.certificateChain, identity.privateKey)
    var clients: [Certificate] = []
    if let authority = identity.clientAuthority { clients = try trust(authority) }
    TicketKeys.set(
      raw, certificate: chain[0], clients: clients,
      isRequired: identity.clientAuthority?.isRequired ?? false)
    // One is enough: OpenSSL's default of two is for clients that open several connections at once.
    SSL_CTX_set_num_tickets(raw, 1)
  }

  deinit { SSL_CTX_free(raw) }

  /// A client's context.
  /// - Throws: ``EventLoopError/badTLSFile(path:reason:)``.
  init(_ client: ClientTLS) throws(EventLoopError) {
    guard let raw = SSL_CTX_new(TLS_client_method()), shim_ssl_common(raw) == 1 else {
      throw .noTLS(reason: takeTLSError())
    }
    self.raw = raw
    notAfter = nil
    if let authority = client.authority {
      let store = SSL_CTX_get_cert_store(raw)
      for certificate in try PEM.certificates(authority) { X509_STORE_add_cert(store, certificate.raw) }
    } else {
      SSL_CTX_set_default_verify_paths(raw)
    }
    guard let chain = client.certificateChain else { return }
    guard let key = client.privateKey else {
      throw .badTLSFile(path: chain.name, reason: "the certificate's private key is not given")
    }
    try use(try PEM.certificates(chain), named: chain, key)
  }

  private func use(
    _ chain: [Certificate], named name: PEMSource, _ key: PEMSource
  ) throws(EventLoopError) {
    guard SSL_CTX_use_certificate(raw, chain[0].raw) == 1 else {
      throw .badTLSFile(path: name.name, reason: takeTLSError())
    }
    for certificate in chain.dropFirst() { _ = shim_add_chain_certificate(raw, certificate.raw) }
    let fits = try PEM.withPrivateKey(key) { key in
      SSL_CTX_use_PrivateKey(raw, key) == 1 && SSL_CTX_check_private_key(raw) == 1
    }
    ERR_clear_error()
    guard fits else {
      throw .badTLSFile(path: key.name, reason: "the key does not belong to the certificate in \(name.name)")
    }
  }

  private func trust(_ authority: TLSIdentity.ClientAuthority) throws(EventLoopError) -> [Certificate] {
    let store = SSL_CTX_get_cert_store(raw)
    let certificates = try PEM.certificates(authority.certificates)
    for certificate in certificates {
      X509_STORE_add_cert(store, certificate.raw)
      // The names are sent to clients, which choose among their certificates by them.
      SSL_CTX_add_client_CA(raw, certificate.raw)
    }
    let mode = authority.isRequired ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_PEER
    SSL_CTX_set_verify(raw, mode, nil)
    return certificates
  }
}

/// `h2` before `http/1.1`; a client that offers neither goes on without ALPN, and its first bytes decide.
private func selectProtocol(
  _ ssl: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
  _ chosenCount: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ offeredCount: UInt32,
  _ context: UnsafeMutableRawPointer?
) -> Int32 {
  guard let offered, let chosen, let chosenCount else { return SSL_TLSEXT_ERR_NOACK }
  // Names with their length in front (RFC 7301 section 3.1). OpenSSL has checked the lengths; the answer must point
  // into memory that outlives the call, which the offer is.
  for wanted in [Array("h2".utf8), Array("http/1.1".utf8)] {
    var index = 0
    while index < Int(offeredCount) {
      let count = Int(offered[index])
      guard index + 1 + count <= Int(offeredCount) else { break }
      if UnsafeBufferPointer(start: offered + index + 1, count: count).elementsEqual(wanted) {
        chosen.pointee = offered + index + 1
        chosenCount.pointee = UInt8(count)
        return SSL_TLSEXT_ERR_OK
      }
      index += 1 + count
    }
  }
  return SSL_TLSEXT_ERR_NOACK
}
