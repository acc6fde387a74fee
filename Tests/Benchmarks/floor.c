// The floor: a server that calls send(2) once a subscriber for each publisher's message, and does nothing else. With
// -DFANOUT_TLS it calls SSL_write(3) instead, with a certificate that it makes for itself.
//
//   floor PORT      /pub publishes, every other path subscribes; loopback only
#include "stream.h"

static struct stream streams[1 << 18];
static uint8_t kinds[1 << 18];  // what a descriptor is, see below
enum { SHAKING, ASKED, SUBSCRIBER, PUBLISHER };
static int subscribers[1 << 18], count;

#ifdef FANOUT_TLS
#include <openssl/x509.h>

static SSL_CTX *context;

static void make_context(void) {
  context = SSL_CTX_new(TLS_server_method());
  EVP_PKEY *key = EVP_EC_gen("P-256");
  X509 *certificate = X509_new();
  X509_NAME *name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"floor", -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
  X509_set_pubkey(certificate, key);
  if (!X509_sign(certificate, key, EVP_sha256()) || !SSL_CTX_use_certificate(context, certificate) ||
      !SSL_CTX_use_PrivateKey(context, key)) die("certificate");
  X509_free(certificate);
  EVP_PKEY_free(key);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // As Touchline has them: no buffers between records.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
}
#endif

static void leave(int fd) {
  stream_close(&streams[fd]);
  for (int s = 0; s < count; s++) if (subscribers[s] == fd) { subscribers[s] = subscribers[--count]; break; }
}

static void arrive(int fd, int ep) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event);
  streams[fd].fd = fd;
  kinds[fd] = ASKED;
#ifdef FANOUT_TLS
  stream_secure(&streams[fd], context, 1);
  kinds[fd] = SHAKING;
#endif
}

static void answer(int fd) {
  static const char accepted[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: touchline.v1\r\n\r\n";
  char text[4096];
  ssize_t r = stream_recv(&streams[fd], text, sizeof text - 1);
  if (r < 0 && errno == EAGAIN) return;
  if (r <= 0) { leave(fd); return; }
  text[r] = 0;
  stream_send(&streams[fd], accepted, sizeof accepted - 1);
  kinds[fd] = strstr(text, "/pub") ? PUBLISHER : SUBSCRIBER;
  if (kinds[fd] == SUBSCRIBER) subscribers[count++] = fd;
}

static void fan_out(const uint8_t *frame, size_t size) {
  for (int s = 0; s < count; s++) {
    if (stream_send(&streams[subscribers[s]], frame, size) < 0) die("send");
  }
}

static void publish(int fd) {
  static uint8_t buffer[1 << 20], out[1 << 20];
  static size_t held;
  for (;;) {
    ssize_t r = stream_recv(&streams[fd], buffer + held, sizeof buffer - held);
    if (r < 0 && errno == EAGAIN) return;
    if (r <= 0) { leave(fd); return; }
    size_t have = held + r, at = 0;
    uint64_t length;
    int h;
    while ((h = head(buffer + at, have - at, &length)) && at + h + length <= have) {
      uint8_t *p = buffer + at + h, *m = p - 4, *o = out;
      *o++ = 0x81; *o++ = 126; *o++ = length >> 8; *o++ = length;
      for (uint64_t b = 0; b < length; b++) o[b] = p[b] ^ m[b & 3];
      fan_out(out, 4 + length);
      at += h + length;
    }
    held = have - at;
    memmove(buffer, buffer + at, held);
  }
}

int main(int c, char **v) {
  if (c != 2) { fprintf(stderr, "usage: floor PORT\n"); return 2; }
  raise_limit();
#ifdef FANOUT_TLS
  make_context();
#endif
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, ep = epoll_create1(0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in a = loopback(atoi(v[1]));
  if (bind(listener, (void *)&a, sizeof a) < 0 || listen(listener, 4096) < 0) die("listen");
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(ep, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    struct epoll_event es[256];
    int n = epoll_wait(ep, es, 256, -1);
    for (int i = 0; i < n; i++) {
      int fd = es[i].data.fd;
      if (fd == listener) {
        while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) arrive(fd, ep);
        continue;
      }
      if (kinds[fd] == SHAKING) {
        ssize_t done = stream_handshake(&streams[fd]);
        if (done < 0 && errno == EAGAIN) continue;
        if (done <= 0) { leave(fd); continue; }
        kinds[fd] = ASKED;
      }
      if (kinds[fd] == ASKED) answer(fd);
      else if (kinds[fd] == PUBLISHER) publish(fd);
      else {
        // A subscriber says nothing but its goodbye.
        char rest[256];
        ssize_t r = stream_recv(&streams[fd], rest, sizeof rest);
        if (r == 0 || (r < 0 && errno != EAGAIN)) leave(fd);
      }
    }
  }
}
