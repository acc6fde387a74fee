// What Swift's importer cannot see of OpenSSL: options and setters that are macros of macros (ssl.h).
#ifndef TOUCHLINE_COPENSSL_SHIMS_H
#define TOUCHLINE_COPENSSL_SHIMS_H

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/// What every context of ours has: TLS 1.2 or newer, no renegotiation (a peer could make the server work for nothing), writes
/// that may be partial and retried from another address, and no buffers kept between records
/// (SSL_CTX_set_mode(3), SSL_CTX_set_options(3)).
/// A peer that closes TCP without close_notify is taken for one that ended, as HTTP's own framing tells truncation.
static inline int shim_ssl_common(SSL_CTX *context) {
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  return (int)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}

/// Adds to the chain that is sent after the certificate; takes its own reference.
static inline int shim_add_chain_certificate(SSL_CTX *context, X509 *certificate) {
  return (int)SSL_CTX_add1_chain_cert(context, certificate);
}

/// Tickets alone resume sessions: a cache on this side would only grow with the number of strangers.
static inline void shim_no_session_cache(SSL_CTX *context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

/// The keys that tickets are sealed with: 80 bytes.
static inline int shim_set_ticket_keys(SSL_CTX *context, const unsigned char *keys, size_t count) {
  return (int)SSL_CTX_set_tlsext_ticket_keys(context, (void *)keys, (long)count);
}

/// Writes until all is taken or the socket is full, for a loop over thousands of them. The thread's queue of errors must be
/// empty before, and is empty afterwards.
/// Returns the bytes that are on their way for good. With fewer than `count` and `*is_broken` 0, OpenSSL has begun a record of
/// the next ones, at most 16 KB, and they must come again (SSL_write(3)).
static inline size_t shim_ssl_write_now(SSL *ssl, const void *bytes, size_t count, int *is_broken) {
  size_t sent = 0;
  while (sent < count) {
    size_t left = count - sent;
    int taken = SSL_write(ssl, (const char *)bytes + sent, left > INT_MAX ? INT_MAX : (int)left);
    if (taken <= 0) {
      int error = SSL_get_error(ssl, taken);
      *is_broken = error != SSL_ERROR_WANT_WRITE && error != SSL_ERROR_WANT_READ;
      ERR_clear_error();
      break;
    }
    sent += (size_t)taken;
  }
  return sent;
}

/// Names the server in the handshake, as one that has several needs it (SSL_set_tlsext_host_name(3)).
static inline int shim_set_server_name(SSL *session, const char *name) {
  return (int)SSL_set_tlsext_host_name(session, name);
}

#endif
