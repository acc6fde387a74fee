// A server under clients that do harm, on purpose or by bad luck, measured from outside. deploy/hostile runs all of it.
//
//   hostile churn PORT PID SECONDS CHANNEL      connects, subscribes, publishes and leaves in every way, and tells whether the
//                                               server's memory (RSS) grows: its slope over the second half
//   hostile stall PORT PID N SECONDS CHANNEL    N subscribers that read nothing, 100 that do: what the first cost the server,
//                                               and what they cost the others
//   hostile storm PORT N CHANNEL                N subscribers are dropped by a server that ends and come back to the next
//
// Loopback only. One JSON line on standard output; "storm" says "ready" on standard error when everybody is subscribed, and
// whoever started it ends the server then and starts another one.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what) { perror(what); exit(2); }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static uint64_t seed = 88172645463325252ull;
static double uniform(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (seed >> 11) / 9007199254740992.0;
}

static long rss(int pid) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  FILE *f = fopen(path, "r");
  long pages = 0;
  if (f) { if (fgets(text, sizeof text, f)) sscanf(text, "%*s %ld", &pages); fclose(f); }
  return pages * sysconf(_SC_PAGESIZE);
}

static int port, ep;
static const char *channel;

// A narrow socket: the kernel keeps little for whoever doesn't read, on both sides (see SubscriberSwarm).
static int dial(int blocking, int narrow) {
  int fd = socket(AF_INET, SOCK_STREAM | (blocking ? 0 : SOCK_NONBLOCK), 0), on = 1;
  if (fd < 0) die("socket");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (narrow) {
    int bytes = 2304, segment = 536;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
  }
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(fd, (void *)&a, sizeof a) < 0 && errno != EINPROGRESS) { close(fd); return -1; }
  return fd;
}

static int upgrade(char *to, size_t size, const char *path) {
  return snprintf(to, size,
    "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: touchline.v1\r\n\r\n", path);
}

// A client's frame, masked with zeros.
static size_t frame(uint8_t *to, int opcode, const char *text, size_t count) {
  uint8_t *p = to;
  *p++ = 0x80 | opcode;
  if (count < 126) *p++ = 0x80 | count;
  else *p++ = 0x80 | 126, *p++ = count >> 8, *p++ = count & 0xff;
  memset(p, 0, 4);
  memcpy(p + 4, text, count);
  return p + 4 + count - to;
}

// ---- one WebSocket ----

enum { IDLE, CONNECTING, OPEN };

struct socket {
  int fd, state, kind;
  double since, until, retry;  // when it was closed last; when it acts next; what the server asked for
  size_t have;
  int seen, backoff;
  char in[16384];
};

static struct socket *sockets;
static double closed_at[200000], opened_at[200000];

static void watch(struct socket *s, int narrow) {
  s->fd = dial(0, narrow);
  s->have = 0, s->seen = 0, s->retry = -1;
  if (s->fd < 0) { s->state = IDLE; return; }
  s->state = CONNECTING;
  struct epoll_event e = {.events = EPOLLOUT, .data.ptr = s};
  if (epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &e) < 0) die("epoll_ctl");
}

static void drop(struct socket *s) {
  if (s->fd >= 0) close(s->fd);
  s->fd = -1, s->state = IDLE, s->have = 0;
}

// Sends the handshake once the socket is connected; 0 when it never was.
static int connected(struct socket *s, const char *path) {
  int problem = 0;
  socklen_t size = sizeof problem;
  getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &problem, &size);
  if (problem) return 0;
  char text[1024];
  int count = upgrade(text, sizeof text, path);
  if (send(s->fd, text, count, MSG_NOSIGNAL) != count) return 0;
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
  epoll_ctl(ep, EPOLL_CTL_MOD, s->fd, &e);
  return 1;
}

// Reads what is there. Each frame goes to `take`, which may drop the socket. 0 when the connection is gone.
static int receive(struct socket *s, void (*take)(struct socket *, int, char *, size_t)) {
  ssize_t r = recv(s->fd, s->in + s->have, sizeof s->in - 1 - s->have, 0);
  if (r <= 0) return r < 0 && errno == EAGAIN;
  s->have += r;
  size_t at = 0;
  if (s->state == CONNECTING) {
    s->in[s->have] = 0;
    char *end = strstr(s->in, "\r\n\r\n");
    if (!end) return 1;
    if (strncmp(s->in, "HTTP/1.1 101", 12)) return 0;
    s->state = OPEN;
    at = end + 4 - s->in;
  }
  while (s->fd >= 0 && s->have - at >= 2) {
    uint8_t *b = (uint8_t *)s->in + at;
    size_t length = b[1] & 0x7f, head = 2;
    if (length == 126) { if (s->have - at < 4) break; length = b[2] << 8 | b[3], head = 4; }
    if (s->have - at < head + length) break;
    char after = s->in[at + head + length];
    s->in[at + head + length] = 0;
    take(s, b[0] & 15, s->in + at + head, length);
    if (s->fd < 0) return 1;
    s->in[at + head + length] = after;
    at += head + length;
  }
  memmove(s->in, s->in + at, s->have - at);
  s->have -= at;
  return 1;
}

static void say(struct socket *s, int opcode, const char *text, size_t count) {
  uint8_t bytes[8192];
  size_t size = frame(bytes, opcode, text, count);
  if (s->fd >= 0 && send(s->fd, bytes, size, MSG_NOSIGNAL) < 0 && errno != EAGAIN && errno != EPIPE && errno != ECONNRESET)
    perror("send");
}

// ---- a publisher over HTTP/1.1, kept alive ----

static int http = -1;

// Asks and gives the status; `answer` has room for 8 KB. 0 when the server isn't there, or hung up.
static int ask(const char *text, char *answer) {
  if (http < 0) http = dial(1, 0);
  if (http < 0) return 0;
  struct timeval limit = {.tv_sec = 10};
  setsockopt(http, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  size_t have = 0, count = strlen(text);
  if (send(http, text, count, MSG_NOSIGNAL) != (ssize_t)count) goto gone;
  for (;;) {
    ssize_t r = recv(http, answer + have, 8191 - have, 0);
    if (r <= 0) goto gone;
    answer[have += r] = 0;
    char *end = strstr(answer, "\r\n\r\n");
    if (!end) continue;
    char *length = strcasestr(answer, "\r\ncontent-length:");
    size_t body = length && length < end ? strtoul(length + 17, 0, 10) : 0;
    if ((size_t)(end + 4 - answer) + body > have) continue;
    if (strcasestr(answer, "connection: close")) { close(http); http = -1; }
    return atoi(answer + 9);
  }
gone:
  close(http), http = -1;
  return 0;
}

static int publish(const char *state, int alert, char *answer) {
  char body[4096], text[8192];
  snprintf(body, sizeof body, "{\"aps\":{\"timestamp\":%ld,\"event\":\"update\",%s\"content-state\":%s}}", (long)time(0),
    alert ? "\"alert\":{\"title\":\"Goal\",\"body\":\"1:0\"}," : "", state);
  snprintf(text, sizeof text,
    "POST /4/broadcasts/apps/com.example.bench HTTP/1.1\r\nHost: localhost\r\napns-channel-id: %s\r\n"
    "apns-push-type: liveactivity\r\napns-priority: 10\r\napns-expiration: 0\r\ncontent-length: %zu\r\n\r\n%s",
    channel, strlen(body), body);
  return ask(text, answer);
}

// ---- churn ----

static long connections, received, left[5];

// What it does once it is open: `kind` says how it leaves.
static void take_churn(struct socket *s, int opcode, char *text, size_t count) {
  (void)text;
  (void)count;
  if (opcode == 8) return drop(s);
  if (opcode != 1) return;
  received++;
  if (s->seen++) return;
  char request[256];
  int length = snprintf(request, sizeof request, "{\"type\":\"subscribe\",\"channel\":\"other\"}");
  say(s, 1, request, length);
  length = snprintf(request, sizeof request, "{\"type\":\"unsubscribe\",\"channel\":\"other\"}");
  say(s, 1, request, length);
}

static void leave(struct socket *s) {
  struct linger reset = {1, 0};
  left[s->kind]++;
  switch (s->kind) {
    case 0: say(s, 8, "\x03\xe8", 2); break;                                           // politely
    case 1: break;                                                                    // just gone
    case 2: setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset); break;     // reset
    case 3: send(s->fd, "\x81\xfe\x10\x00", 4, MSG_NOSIGNAL); break;                   // in the middle of a frame
    default: say(s, 1, "nonsense", 8); break;                                          // refused
  }
  drop(s);
}

static int cmp(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int churn(int pid, double seconds) {
  const int slots = 300;
  sockets = calloc(slots, sizeof *sockets);
  char path[256], answer[8192];
  snprintf(path, sizeof path, "/v1/channels/%s/events", channel);
  double start = now(), sample = start, pulse = start, life = start;
  size_t most = seconds + 16, samples = 0;
  double *at = malloc(most * sizeof *at), *size = malloc(most * sizeof *size);
  long published = 0, made = 0;
  for (int i = 0; i < slots; i++) sockets[i].fd = -1, sockets[i].until = start + uniform() * 2;
  while (now() - start < seconds) {
    double t = now();
    for (int i = 0; i < slots; i++) {
      struct socket *s = &sockets[i];
      if (t < s->until) continue;
      if (s->state == IDLE) {
        s->kind = uniform() * 5;
        watch(s, 0);
        connections++;
        // One in twenty leaves before anything was said.
        s->until = t + (uniform() < 0.05 ? 0.001 : 0.1 + uniform() * 2);
      } else {
        leave(s);
        s->until = t + uniform() * 0.5;
      }
    }
    if (t >= pulse) {
      char state[64];
      snprintf(state, sizeof state, "{\"n\":%ld}", published);
      if (publish(state, 0, answer) == 200) published++;
      pulse = t + 0.02;
    }
    if (t >= life) {
      // A channel's whole life.
      if (ask("POST /1/apps/com.example.bench/channels HTTP/1.1\r\nHost: x\r\ncontent-length: 55\r\n\r\n"
              "{\"message-storage-policy\":0,\"push-type\":\"LiveActivity\"}", answer) == 201) {
        char id[256] = "", text[1024];
        char *header = strcasestr(answer, "apns-channel-id:");
        if (header) sscanf(header + 16, " %255[^\r\n]", id);
        snprintf(text, sizeof text, "DELETE /1/apps/com.example.bench/channels HTTP/1.1\r\nHost: x\r\napns-channel-id: %s\r\n\r\n", id);
        if (ask(text, answer) == 204) made++;
      }
      life = t + 0.5;
    }
    if (t >= sample && samples < most) {
      at[samples] = t - start, size[samples++] = rss(pid);
      sample = t + 1;
    }
    struct epoll_event es[256];
    int n = epoll_wait(ep, es, 256, 5);
    for (int i = 0; i < n; i++) {
      struct socket *s = es[i].data.ptr;
      if (s->fd < 0) continue;
      int fine = es[i].events & EPOLLOUT ? connected(s, path) : receive(s, take_churn);
      if (!fine) { drop(s); s->until = now() + uniform() * 0.5; }
    }
  }
  // Least squares over the second half, with the slope's standard error.
  size_t from = samples / 2, n = samples - from;
  double mt = 0, mv = 0, tt = 0, tv = 0, rest = 0;
  for (size_t i = from; i < samples; i++) mt += at[i] / n, mv += size[i] / n;
  for (size_t i = from; i < samples; i++) tt += (at[i] - mt) * (at[i] - mt), tv += (at[i] - mt) * (size[i] - mv);
  double slope = tt > 0 ? tv / tt : 0;
  for (size_t i = from; i < samples; i++) {
    double off = size[i] - mv - slope * (at[i] - mt);
    rest += off * off;
  }
  double error = n > 2 && tt > 0 ? sqrt(rest / (n - 2) / tt) : 0;
  printf("{\"seconds\":%.0f,\"connections\":%ld,\"left\":[%ld,%ld,%ld,%ld,%ld],\"received\":%ld,\"published\":%ld,"
         "\"channels\":%ld,\"rss_start\":%.0f,\"rss_half\":%.0f,\"rss_end\":%.0f,\"slope_bytes_an_hour\":%.0f,"
         "\"slope_error\":%.0f}\n",
    seconds, connections, left[0], left[1], left[2], left[3], left[4], received, published, made,
    samples > 5 ? size[5] : 0, size[from], samples ? size[samples - 1] : 0, slope * 3600, error * 3600);
  return 0;
}

// ---- stall ----

enum { HEALTHY = 100 };

static double *latencies;
static size_t latency_count, latency_room;
static size_t heard;
static long closed_1013;

static void take_latency(struct socket *s, int opcode, char *text, size_t count) {
  (void)count;
  if (opcode == 8) return drop(s);
  if (opcode == 9) return say(s, 10, text, count);
  char *stamp = strstr(text, "\"t\":");
  if (opcode != 1 || !stamp) return;
  heard++;
  if (latency_count == latency_room) return;
  latencies[latency_count++] = now() - strtod(stamp + 4, 0);
}

static void take_nothing(struct socket *s, int opcode, char *text, size_t count) {
  if (opcode != 8) return;
  if (count >= 2 && ((uint8_t)text[0] << 8 | (uint8_t)text[1]) == 1013) closed_1013++;
  drop(s);
}

// Publishes, and publishes again as soon as the healthy subscribers have it.
static double load(double seconds, int alert, int most) {
  char state[1024], pad[600], answer[8192];
  memset(pad, 'x', sizeof pad - 1), pad[sizeof pad - 1] = 0;
  long count = 0;
  double start = now();
  while (now() - start < seconds && (!most || count < most)) {
    size_t wanted = heard + HEALTHY;
    snprintf(state, sizeof state, "{\"t\":%.9f,\"pad\":\"%s\"}", now(), pad);
    if (publish(state, alert, answer) != 200) { fprintf(stderr, "a publish failed: %.200s\n", answer); exit(1); }
    count++;
    for (double end = now() + 5; heard < wanted && now() < end;) {
      struct epoll_event es[256];
      int more = epoll_wait(ep, es, 256, 10);
      for (int i = 0; i < more; i++) {
        struct socket *s = es[i].data.ptr;
        if (s->fd >= 0 && !receive(s, take_latency)) drop(s);
      }
    }
    if (heard < wanted) { fprintf(stderr, "a message was lost\n"); exit(1); }
  }
  return count / (now() - start);
}

static void pump(double seconds, const char *path) {
  for (double end = now() + seconds; now() < end;) {
    struct epoll_event es[256];
    int n = epoll_wait(ep, es, 256, 10);
    for (int i = 0; i < n; i++) {
      struct socket *s = es[i].data.ptr;
      if (s->fd < 0) continue;
      if (!(es[i].events & EPOLLOUT ? connected(s, path) : receive(s, take_latency))) drop(s);
    }
  }
}

static double quantile(double q) {
  if (!latency_count) return 0;
  qsort(latencies, latency_count, sizeof *latencies, cmp);
  size_t place = q * latency_count;
  return latencies[place < latency_count ? place : latency_count - 1];
}

// Others that read everything, in a process of their own, so that reading costs this one nothing. Gives its pid.
static int readers(int n, const char *path) {
  int ready[2];
  if (pipe(ready) < 0) die("pipe");
  int pid = fork();
  if (pid) { char byte; close(ready[1]); if (read(ready[0], &byte, 1) != 1) die("readers"); close(ready[0]); return pid; }
  ep = epoll_create1(0);
  sockets = calloc(n, sizeof *sockets);
  for (int i = 0; i < n; i++) { watch(&sockets[i], 0); if (i % 100 == 99) pump(0.05, path); }
  pump(1, path);
  if (write(ready[1], "!", 1) != 1) exit(1);
  for (;;) latency_count = 0, pump(60, path);
}

static int stall(int pid, int n, double seconds) {
  const int healthy = HEALTHY;
  sockets = calloc(healthy + n, sizeof *sockets);
  latency_room = 4000000, latencies = malloc(latency_room * sizeof *latencies);
  char path[256];
  snprintf(path, sizeof path, "/v1/channels/%s/events", channel);
  for (int i = 0; i < healthy + n; i++) sockets[i].fd = -1;
  for (int i = 0; i < healthy; i++) watch(&sockets[i], 0);
  pump(1, path);
  load(1, 0, 0);  // the process's own first costs
  latency_count = 0;
  double rate[3], p50[3], p99[3];
  rate[0] = load(seconds, 0, 0), p50[0] = quantile(0.5), p99[0] = quantile(0.99);
  int others = readers(n, path);
  load(1, 0, 0), latency_count = 0;
  rate[1] = load(seconds, 0, 0), p50[1] = quantile(0.5), p99[1] = quantile(0.99);
  kill(others, SIGKILL), waitpid(others, 0, 0);
  pump(1, path);
  long before = rss(pid);
  for (int i = healthy; i < healthy + n; i++) {
    watch(&sockets[i], 1);
    if (i % 100 == 0) pump(0.05, path);
  }
  pump(1, path);
  for (int i = healthy; i < healthy + n; i++)
    if (sockets[i].fd >= 0) epoll_ctl(ep, EPOLL_CTL_DEL, sockets[i].fd, 0);
  long resting = rss(pid);
  load(2, 0, 0);  // until the kernel's buffers are full
  latency_count = 0;
  rate[2] = load(seconds, 0, 0), p50[2] = quantile(0.5), p99[2] = quantile(0.99);
  long conflating = rss(pid);
  // Alerts are never conflated: the bound is theirs.
  load(60, 1, 250);
  long full = rss(pid);
  load(60, 1, 150);
  pump(7, path);
  long after = rss(pid);
  int cut = 0;
  for (int i = healthy; i < healthy + n; i++) {
    struct socket *s = &sockets[i];
    while (s->fd >= 0) {
      errno = 0;
      if (!receive(s, take_nothing)) { cut++; drop(s); }
      else if (errno == EAGAIN) break;
    }
  }
  int open = 0;
  for (int i = healthy; i < healthy + n; i++) open += sockets[i].fd >= 0;
  // Alone, with as many that read, with as many that don't.
  printf("{\"stalled\":%d,\"healthy\":%d,\"publishes_a_second\":[%.0f,%.0f,%.0f],\"p50_ms\":[%.3f,%.3f,%.3f],"
         "\"p99_ms\":[%.3f,%.3f,%.3f],\"rss_a_connection\":{\"resting\":%.0f,\"conflating\":%.0f,\"full\":%.0f},"
         "\"rss_after_mb\":%.1f,\"closed_1013\":%ld,\"cut_off\":%d,\"still_open\":%d}\n",
    n, healthy, rate[0], rate[1], rate[2], p50[0] * 1e3, p50[1] * 1e3, p50[2] * 1e3, p99[0] * 1e3, p99[1] * 1e3,
    p99[2] * 1e3, (double)(resting - before) / n, (double)(conflating - before) / n, (double)(full - before) / n,
    after / 1048576.0, closed_1013, cut, open);
  return 0;
}

// ---- storm ----

static long goodbyes, with_1012, subscribed;
static int is_ending;

static void take_storm(struct socket *s, int opcode, char *text, size_t count) {
  if (opcode == 9) return say(s, 10, text, count);
  if (opcode == 1 && strstr(text, "\"type\":\"goodbye\"")) {
    char *hint = strstr(text, "\"retry-in\":");
    goodbyes++;
    s->retry = hint ? strtod(hint + 11, 0) : -1;
  }
  if (opcode == 1 && !s->seen++) {
    subscribed++;
    s->backoff = 0;
    opened_at[s - sockets] = now();
  }
  if (opcode == 8 && count >= 2 && ((uint8_t)text[0] << 8 | (uint8_t)text[1]) == 1012) with_1012++;
  if (opcode == 8) say(s, 8, text, count < 2 ? 0 : 2);
}

static void histogram(const char *name, double *times, int n, double from) {
  int counts[64] = {0}, last = 0;
  for (int i = 0; i < n; i++) {
    int place = (times[i] - from) / 0.25;
    place = place < 0 ? 0 : place > 63 ? 63 : place;
    counts[place]++;
    if (place > last) last = place;
  }
  printf("\"%s\":[", name);
  for (int i = 0; i <= last; i++) printf("%s%d", i ? "," : "", counts[i]);
  printf("]");
}

static int storm(int n) {
  sockets = calloc(n, sizeof *sockets);
  char path[256], answer[8192];
  snprintf(path, sizeof path, "/v1/channels/%s/events", channel);
  double start = now(), probe = 0, ended = 0, worst_up = 0, worst_storm = 0;
  long attempts = 0, busiest = 0, answered[3] = {0}, this_tick = 0;
  double tick = start;
  for (int i = 0; i < n; i++) sockets[i].fd = -1, sockets[i].until = start + (double)i / n * 2;
  for (;;) {
    double t = now();
    if (t - start > 120) { fprintf(stderr, "only %ld of %d are subscribed\n", subscribed, n); return 1; }
    for (int i = 0; i < n; i++) {
      struct socket *s = &sockets[i];
      if (s->state != IDLE || t < s->until) continue;
      watch(s, 0);
      if (is_ending) attempts++, this_tick++;
    }
    if (t - tick > 0.1) {
      if (this_tick > busiest) busiest = this_tick;
      this_tick = 0, tick = t;
    }
    if (subscribed == n && !is_ending) {
      if (t - start < 3) goto turn;
      is_ending = 1;
      ended = t;
      fprintf(stderr, "ready\n");
    }
    if (is_ending && subscribed == 2l * n) break;
  turn:
    if (t >= probe) {
      double asked = now();
      int status = publish("{\"t\":1}", 0, answer);
      double took = now() - asked;
      if (status && !is_ending && took > worst_up) worst_up = took;
      if (status && is_ending && took > worst_storm) worst_storm = took;
      if (is_ending) answered[status == 200 ? 0 : status == 503 ? 1 : 2]++;
      probe = t + 0.02;
    }
    struct epoll_event es[512];
    int count = epoll_wait(ep, es, 512, 2);
    for (int i = 0; i < count; i++) {
      struct socket *s = es[i].data.ptr;
      if (s->fd < 0) continue;
      int was_open = s->state == OPEN;
      if (es[i].events & EPOLLOUT ? connected(s, path) : receive(s, take_storm)) continue;
      double retry = s->retry;
      drop(s);
      if (was_open) closed_at[s - sockets] = now();
      // As our own clients do: what the server asked for and a little jitter; after that, full jitter with back-off.
      double ceiling = 0.25 * (1 << (s->backoff < 6 ? s->backoff : 6));
      s->until = now() + (was_open && retry >= 0 ? retry : 0) + uniform() * (ceiling > 10 ? 10 : ceiling);
      s->backoff = was_open && retry >= 0 ? 0 : s->backoff + 1;
    }
  }
  printf("{\"subscribers\":%d,\"goodbyes\":%ld,\"closed_1012\":%ld,\"attempts\":%ld,\"busiest_100_ms\":%ld,\"seconds\":%.1f,"
         "\"slowest_answer_ms\":[%.1f,%.1f],\"publishes\":{\"200\":%ld,\"503\":%ld,\"none\":%ld},", n, goodbyes, with_1012,
    attempts, busiest, now() - ended, worst_up * 1e3, worst_storm * 1e3, answered[0], answered[1], answered[2]);
  histogram("closed_each_250_ms", closed_at, n, ended);
  printf(",");
  histogram("back_each_250_ms", opened_at, n, ended);
  printf("}\n");
  return 0;
}

int main(int argc, char **argv) {
  struct rlimit l;
  getrlimit(RLIMIT_NOFILE, &l);
  l.rlim_cur = l.rlim_max;
  setrlimit(RLIMIT_NOFILE, &l);
  setvbuf(stdout, 0, _IOLBF, 0);
  ep = epoll_create1(0);
  const char *mode = argc > 2 ? argv[1] : "";
  if (argc > 2) port = atoi(argv[2]);
  if (!strcmp(mode, "churn") && argc == 6) { channel = argv[5]; return churn(atoi(argv[3]), atof(argv[4])); }
  if (!strcmp(mode, "stall") && argc == 7) { channel = argv[6]; return stall(atoi(argv[3]), atoi(argv[4]), atof(argv[5])); }
  if (!strcmp(mode, "storm") && argc == 5 && atoi(argv[3]) <= 200000) { channel = argv[4]; return storm(atoi(argv[3])); }
  fprintf(stderr, "hostile: churn PORT PID SECONDS CHANNEL | stall PORT PID N SECONDS CHANNEL | storm PORT N CHANNEL\n");
  return 2;
}
