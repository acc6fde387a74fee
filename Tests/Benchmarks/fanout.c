// Fan-out measured from outside. With -DFANOUT_TLS everything is wss.
//
//   fanout load PORT PID N W SECONDS PATH PUBLISH-PATH SKIP SIZE [TEMPLATE-CHANNEL]
//                                         connects N subscribers, keeps W messages under way, prints one JSON line.
//                                         W 0 publishes nothing and holds the connections; W -R publishes R a second.
//                                         SECONDS such as 200x publishes 200 messages instead
//   fanout probe PORT CHANNEL COUNT MS    publishes every MS milliseconds and prints how long the answers took
//   fanout --resume load …                with TLS: the others resume the session of the first subscriber
//
// Loopback only. SKIP is how many frames a subscriber gets before its first message. Every message must reach every
// subscriber, counted; the process ends with 1 when one is missing.
#include "client.h"

static int is_resuming, resumed;

// After its first frame: the ticket is here by then.
#ifdef FANOUT_TLS
static void settled(struct stream *s) {
  resumed += SSL_session_reused(s->ssl);
  if (is_resuming && !first_session) first_session = SSL_get1_session(s->ssl);
}
#else
static void settled(struct stream *s) { (void)s; }
#endif

// ---- load ----

enum { CONNECTING, SHAKING, ASKED, READY };
struct subscriber { struct stream stream; uint32_t frames; uint64_t left; uint8_t head[16]; uint8_t held; uint8_t state; };

#define MESSAGES (1 << 20)
static uint64_t sent_at[MESSAGES];
static uint32_t arrived[MESSAGES];
static uint64_t deliveries, frame_bytes;

static void take(struct subscriber *s, const uint8_t *b, size_t n, int skip) {
  while (n) {
    if (s->left) {
      size_t k = n < s->left ? n : s->left;
      s->left -= k; b += k; n -= k;
      if (s->left) return;
    } else {
      s->head[s->held++] = *b++; n--;
      uint64_t length;
      int h = head(s->head, s->held, &length);
      if (!h || h != s->held) continue;
      s->held = 0;
      s->left = length;
      if (length) { frame_bytes = h + length; continue; }
    }
    if (++s->frames <= (uint32_t)skip) continue;
    uint32_t message = s->frames - skip - 1;
    if (message >= MESSAGES) continue;
    arrived[message]++;
    deliveries++;
    if (sample_count < SAMPLES) samples[sample_count++] = (now_ns() - sent_at[message]) / 1000;
  }
}

static int ep;
static uint8_t buffer[1 << 18];

// Everything that is there for one subscriber; -1 when it was closed.
static int drain(struct subscriber *s, int skip) {
  for (;;) {
    ssize_t r = stream_recv(&s->stream, buffer, sizeof buffer);
    if (r < 0 && errno == EAGAIN) return 0;
    if (r <= 0) { fprintf(stderr, "a subscriber was closed\n"); return -1; }
    take(s, buffer, r, skip);
    // Less than there was room for is all in the clear; with TLS a read gives one record.
#ifndef FANOUT_TLS
    return 0;
#endif
  }
}

static void wait_for(struct subscriber *s, uint32_t number, uint32_t events) {
  struct epoll_event e = {.events = events, .data.u32 = number};
  epoll_ctl(ep, EPOLL_CTL_MOD, s->stream.fd, &e);
}

// One step of a connection on its way; 1 when it became ready, -1 when it was refused.
static int step(struct subscriber *s, uint32_t number, const char *line, int ask, int skip) {
  if (s->state == CONNECTING) {
    s->state = SHAKING;
    // Edge-triggered: with levels each epoll_wait would ask once more for every socket that was just emptied, and hold
    // the lock that the server's sends want.
    wait_for(s, number, EPOLLIN | EPOLLET);
  }
  if (s->state == SHAKING) {
    if (stream_handshake(&s->stream) < 0) return errno == EAGAIN ? 0 : -1;
    write_all(&s->stream, line, ask);
    s->state = ASKED;
    return 0;
  }
  ssize_t r = stream_recv(&s->stream, buffer, sizeof buffer - 1);
  if (r < 0 && errno == EAGAIN) return 0;
  if (r <= 0) return -1;
  uint8_t *end = memmem(buffer, r, "\r\n\r\n", 4);
  if (!end) return 0;
  if (memcmp(buffer, "HTTP/1.1 101", 12)) { fprintf(stderr, "%.*s\n", (int)r, buffer); return -1; }
  s->state = READY;
  settled(&s->stream);
  take(s, end + 4, buffer + r - end - 4, skip);
  return drain(s, skip) < 0 ? -1 : 1;
}

// Connects all of them, at most 200 at a time.
static int connect_all(struct subscriber *subs, int n, int port, const char *path, int skip) {
  static char line[4096];
  int ask = request(line, sizeof line, path), started = 0, ready = 0;
  struct epoll_event es[512];
  while (ready < n) {
    int most = is_resuming && !ready ? 1 : 200;
    while (started < n && started - ready < most) {
      subs[started].stream = dial(port, 1);
      struct epoll_event e = {.events = EPOLLOUT, .data.u32 = started};
      epoll_ctl(ep, EPOLL_CTL_ADD, subs[started++].stream.fd, &e);
    }
    int k = epoll_wait(ep, es, 512, 5000);
    if (k <= 0) { fprintf(stderr, "only %d of %d subscribers were let in\n", ready, n); return -1; }
    for (int i = 0; i < k; i++) {
      struct subscriber *s = &subs[es[i].data.u32];
      if (s->state == READY) {
        if (drain(s, skip) < 0) return -1;
        continue;
      }
      int done = step(s, es[i].data.u32, line, ask, skip);
      if (done < 0) { fprintf(stderr, "a subscriber was refused\n"); return -1; }
      ready += done;
    }
  }
  return 0;
}

static struct stream open_session(int port, const char *path) {
  static char line[4096];
  struct stream s = dial(port, 0);
  if (stream_handshake(&s) < 0) die("handshake");
  write_all(&s, line, request(line, sizeof line, path));
  if (stream_recv(&s, buffer, sizeof buffer) <= 0) die("session");
  return s;
}

static int load(char **v) {
  int port = atoi(v[0]), pid = atoi(v[1]), n = atoi(v[2]), w = atoi(v[3]), skip = atoi(v[7]), pad = atoi(v[8]);
  double seconds = atof(v[4]);
  uint64_t most = v[4][strlen(v[4]) - 1] == 'x' ? (uint64_t)seconds : MESSAGES - 1;
  raise_limit();
  make_context();
  samples = malloc(SAMPLES * sizeof *samples);
  struct subscriber *subs = calloc(n, sizeof *subs);
  static uint8_t frame[1 << 17];
  static char text[1 << 17];
  struct epoll_event es[512];
  ep = epoll_create1(0);
  long rss0 = rss_bytes(pid);
  uint64_t begin = now_ns(), cpu = cpu_ns(pid);
  if (connect_all(subs, n, port, v[5], skip) < 0) return 1;
  double connected = (now_ns() - begin) / 1e9, connect_us = (cpu_ns(pid) - cpu) / 1000.0 / n;
  if (w == 0) {
    usleep(700000);
    double rss = (rss_bytes(pid) - rss0) / (double)n;
    printf("{\"n\":%d,\"connects_per_s\":%.0f,\"us_per_connect\":%.1f,\"resumed\":%d,\"rss_per_connection\":%.0f}\n", n,
      n / connected, connect_us, resumed, rss);
    fflush(stdout);
    sleep(seconds);
    return 0;
  }
  struct stream publisher = open_session(port, v[6]);
  fcntl(publisher.fd, F_SETFL, O_NONBLOCK);
  struct epoll_event pe = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
  epoll_ctl(ep, EPOLL_CTL_ADD, publisher.fd, &pe);
  publish_text(text, sizeof text, pad, v[9]);
  int size = client_frame(frame, text);
  uint64_t published = 0, complete = 0, counted = 0, first = 0, start = now_ns();
  uint64_t warm = start + 400000000ull, stop = warm + (uint64_t)(seconds * 1e9), next = start;
  int is_measured = 0, is_over = 0;
  uint64_t patience = 0;
  double us = 0, rate = 0;
  size_t measured = 0;
  uint64_t seen = 0;
  // After the measured time what is under way still has to arrive, as long as anything does.
  while (!is_over || (deliveries < published * n && now_ns() < patience)) {
    uint64_t t = now_ns();
    if (deliveries != seen) { seen = deliveries; patience = t + 3000000000ull; }
    if (!is_measured && t >= warm) {
      is_measured = 1;
      cpu = cpu_ns(pid); counted = deliveries; first = t; sample_count = 0;
    }
    if (!is_over && (most < MESSAGES - 1 ? published == most : t >= stop)) {
      us = deliveries > counted ? (cpu_ns(pid) - cpu) / 1000.0 / (deliveries - counted) : 0;
      rate = (deliveries - counted) / ((now_ns() - first) / 1e9);
      measured = sample_count;
      is_over = 1;
      patience = t + 3000000000ull;
    }
    while (complete < published && arrived[complete] == (uint32_t)n) complete++;
    while (!is_over && published < most &&
           (w > 0 ? published - complete < (uint64_t)w : t >= next)) {
      sent_at[published++] = now_ns();
      write_all(&publisher, frame, size);
      if (w < 0) next += 1000000000ull / -w;
    }
    int k = epoll_wait(ep, es, 512, 1);
    for (int i = 0; i < k; i++) {
      if (es[i].data.u32 == UINT32_MAX) {
        while (stream_recv(&publisher, buffer, sizeof buffer) > 0);
        if (errno != EAGAIN) { fprintf(stderr, "the publisher was closed\n"); return 1; }
      } else if (drain(&subs[es[i].data.u32], skip) < 0) {
        return 1;
      }
    }
  }
  sample_count = measured;
  qsort(samples, sample_count, sizeof *samples, compare);
  long long lost = (long long)(published * n) - (long long)deliveries;
  printf("{\"n\":%d,\"w\":%d,\"us_per_delivery\":%.3f,\"deliveries_per_s\":%.0f,\"p50_ms\":%.2f,\"p99_ms\":%.2f,"
    "\"published\":%llu,\"lost\":%lld,\"frame_bytes\":%llu}\n",
    n, w, us, rate, percentile(0.5), percentile(0.99), (unsigned long long)published, lost,
    (unsigned long long)frame_bytes);
  if (lost) fprintf(stderr, "%lld of %llu messages were lost\n", lost, (unsigned long long)(published * n));
  return lost != 0;
}

// ---- probe ----

static int probe(char **v) {
  int count = atoi(v[2]), pause = atoi(v[3]);
  static char text[65536];
  static uint8_t frame[65536];
  make_context();
  struct stream session = open_session(atoi(v[0]), "/v1/events");
  samples = malloc(count * sizeof *samples);
  publish_text(text, sizeof text, 100, v[1]);
  int size = client_frame(frame, text);
  for (int i = 0; i < count; i++) {
    uint64_t t = now_ns();
    write_all(&session, frame, size);
    ssize_t r = stream_recv(&session, buffer, sizeof buffer - 1);
    if (r <= 0) die("probe");
    buffer[r] = 0;
    if (!memmem(buffer, r, "\"published\"", 11)) { fprintf(stderr, "probe: %s\n", buffer + 4); return 1; }
    samples[sample_count++] = (now_ns() - t) / 1000;
    usleep(pause * 1000);
  }
  qsort(samples, sample_count, sizeof *samples, compare);
  printf("{\"answers\":%d,\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"max_ms\":%.2f}\n", count, percentile(0.5),
    percentile(0.99), percentile(1));
  return 0;
}

int main(int c, char **v) {
  if (c > 1 && !strcmp(v[1], "--resume")) { is_resuming = 1; c--; v++; }
  if (c >= 11 && !strcmp(v[1], "load")) return load(v + 2);
  if (c == 6 && !strcmp(v[1], "probe")) return probe(v + 2);
  fprintf(stderr, "usage: see the top of Tests/Benchmarks/fanout.c\n");
  return 2;
}
