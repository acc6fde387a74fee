// What the floor and the load share: sockets over loopback, frames' heads, and TLS on a socket when FANOUT_TLS is defined.
#ifndef STREAM_H
#define STREAM_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

_Noreturn static inline void die(const char *what) { perror(what); exit(2); }

static inline void raise_limit(void) {
  struct rlimit l;
  getrlimit(RLIMIT_NOFILE, &l);
  l.rlim_cur = l.rlim_max;
  setrlimit(RLIMIT_NOFILE, &l);
}

static inline struct sockaddr_in loopback(int port) {
  return (struct sockaddr_in){
    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

// Bytes of one frame's head; 0 when more is needed. A client's frames have a mask.
static inline int head(const uint8_t *b, size_t have, uint64_t *length) {
  if (have < 2) return 0;
  int masked = b[1] & 0x80 ? 4 : 0, l = b[1] & 0x7f;
  if (l < 126) { *length = l; return 2 + masked; }
  int extra = l == 126 ? 2 : 8;
  if (have < (size_t)2 + extra) return 0;
  *length = 0;
  for (int i = 0; i < extra; i++) *length = *length << 8 | b[2 + i];
  return 2 + extra + masked;
}

// ---- A socket, and what lies on it ----

#ifdef FANOUT_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>

struct stream { int fd; SSL *ssl; };

// Puts TLS on a connected socket; its handshake comes with stream_handshake.
static inline void stream_secure(struct stream *s, SSL_CTX *context, int is_server) {
  s->ssl = SSL_new(context);
  if (!s->ssl || !SSL_set_fd(s->ssl, s->fd)) die("SSL_new");
  if (is_server) SSL_set_accept_state(s->ssl); else SSL_set_connect_state(s->ssl);
}

static inline ssize_t stream_result(struct stream *s, int result) {
  if (result > 0) return result;
  int error = SSL_get_error(s->ssl, result);
  ERR_clear_error();
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
  return -1;
}

// 1 when it is done, -1 with EAGAIN when not yet.
static inline ssize_t stream_handshake(struct stream *s) { return stream_result(s, SSL_do_handshake(s->ssl)); }
static inline ssize_t stream_recv(struct stream *s, void *b, size_t n) {
  return stream_result(s, SSL_read(s->ssl, b, n));
}
static inline ssize_t stream_send(struct stream *s, const void *b, size_t n) {
  return stream_result(s, SSL_write(s->ssl, b, n));
}
static inline void stream_close(struct stream *s) {
  SSL_free(s->ssl);
  s->ssl = NULL;
  close(s->fd);
}

#else

struct stream { int fd; };
static inline ssize_t stream_handshake(struct stream *s) { (void)s; return 1; }
static inline ssize_t stream_recv(struct stream *s, void *b, size_t n) { return recv(s->fd, b, n, 0); }
static inline ssize_t stream_send(struct stream *s, const void *b, size_t n) { return send(s->fd, b, n, MSG_NOSIGNAL); }
static inline void stream_close(struct stream *s) { close(s->fd); }

#endif
#endif
