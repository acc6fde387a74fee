// What the measuring clients share: connecting, frames, and what the kernel knows of the server's process.
#ifndef CLIENT_H
#define CLIENT_H

#include "stream.h"
#include "measure.h"
#include <fcntl.h>

#ifdef FANOUT_TLS
static SSL_CTX *context;
static SSL_SESSION *first_session;

static inline void make_context(void) {
  context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_protos(context, (const uint8_t *)"\x08http/1.1", 9);
}

static inline void secure(struct stream *s) {
  stream_secure(s, context, 0);
  if (first_session) SSL_set_session(s->ssl, first_session);
}
#else
static inline void make_context(void) {}
static inline void secure(struct stream *s) { (void)s; }
#endif

// Subscribers, which are many, come from several addresses: of one address's ports Linux looks at every second one first, and
// once those are taken it looks at all of them in vain for each connection.
static inline void choose_source(int fd) {
  static int count;
  int on = 1;
  struct sockaddr_in from = loopback(0);
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + count++ / 10000);
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (bind(fd, (void *)&from, sizeof from) < 0) die("bind");
}

static inline struct stream dial(int port, int nonblocking) {
  struct stream s = {.fd = socket(AF_INET, SOCK_STREAM | (nonblocking ? SOCK_NONBLOCK : 0), 0)};
  int on = 1;
  if (s.fd < 0) die("socket");
  setsockopt(s.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (nonblocking) choose_source(s.fd);
  struct sockaddr_in a = loopback(port);
  if (connect(s.fd, (void *)&a, sizeof a) < 0 && errno != EINPROGRESS) die("connect");
  secure(&s);
  return s;
}

static inline int request(char *to, size_t size, const char *path) {
  return snprintf(to, size,
    "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: touchline.v1\r\n\r\n", path);
}

static inline int client_frame(uint8_t *to, const char *text) {
  size_t l = strlen(text), h = l < 126 ? 2 : 4;
  to[0] = 0x81; to[1] = 0x80 | (h == 2 ? l : 126);
  if (h == 4) { to[2] = l >> 8; to[3] = l; }
  memset(to + h, 0, 4);
  memcpy(to + h + 4, text, l);
  return h + 4 + l;
}

static inline int publish_text(char *to, size_t size, int pad, const char *channel) {
  static char filler[65536];
  memset(filler, 'x', pad);
  filler[pad] = 0;
  if (!channel) return snprintf(to, size, "{\"pad\":\"%s\"}", filler);
  return snprintf(to, size,
    "{\"type\":\"publish\",\"channel\":\"%s\",\"priority\":10,\"expiration\":0,\"aps\":{\"timestamp\":%ld,"
    "\"event\":\"update\",\"content-state\":{\"pad\":\"%s\"}}}", channel, (long)time(0), filler);
}

static inline void write_all(struct stream *to, const void *bytes, size_t count) {
  for (size_t sent = 0; sent < count;) {
    ssize_t s = stream_send(to, (const char *)bytes + sent, count - sent);
    if (s < 0 && errno != EAGAIN && errno != EINTR) die("send");
    if (s > 0) sent += s;
  }
}
#endif
