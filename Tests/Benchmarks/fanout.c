// Fan-out measured from outside, against the floor: one bare send(2) a subscriber.
//
//   fanout raw PORT                       the floor: a server that sends each publisher's message to every subscriber
//   fanout load PORT PID N W SECONDS PATH PUBLISH-PATH SKIP SIZE [TEMPLATE-CHANNEL]
//                                         connects N subscribers, keeps W messages under way, prints one JSON line.
//                                         W 0 publishes nothing and holds the connections; W -R publishes R a second
//   fanout probe PORT CHANNEL COUNT MS    publishes every MS milliseconds and prints how long the answers took
//
// Loopback only. SKIP is how many frames a subscriber gets before its first message. Every message must reach every
// subscriber, counted; the process ends with 1 when one is missing.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what) { perror(what); exit(2); }

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void raise_limit(void) {
  struct rlimit l;
  getrlimit(RLIMIT_NOFILE, &l);
  l.rlim_cur = l.rlim_max;
  setrlimit(RLIMIT_NOFILE, &l);
}

static int dial(int port, int nonblocking) {
  int fd = socket(AF_INET, SOCK_STREAM | (nonblocking ? SOCK_NONBLOCK : 0), 0), on = 1;
  if (fd < 0) die("socket");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(fd, (void *)&a, sizeof a) < 0 && errno != EINPROGRESS) die("connect");
  return fd;
}

static int request(char *to, size_t size, const char *path) {
  return snprintf(to, size,
    "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: touchline.v1\r\n\r\n", path);
}

// Bytes of one frame in front of its payload; 0 when more is needed. Servers' frames have no mask.
static int head(const uint8_t *b, size_t have, uint64_t *length) {
  if (have < 2) return 0;
  int masked = b[1] & 0x80 ? 4 : 0, l = b[1] & 0x7f;
  if (l < 126) { *length = l; return 2 + masked; }
  int extra = l == 126 ? 2 : 8;
  if (have < (size_t)2 + extra) return 0;
  *length = 0;
  for (int i = 0; i < extra; i++) *length = *length << 8 | b[2 + i];
  return 2 + extra + masked;
}

// ---- raw ----

static _Noreturn void serve_raw(int port) {
  raise_limit();
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, ep = epoll_create1(0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (void *)&a, sizeof a) < 0 || listen(listener, 4096) < 0) die("listen");
  struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
  static int subscribers[1 << 18];
  static uint8_t open_[1 << 18];
  static uint8_t buffer[1 << 20], out[1 << 20];
  static size_t held;
  int count = 0;
  const char answer[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: touchline.v1\r\n\r\n";
  for (;;) {
    struct epoll_event es[256];
    int n = epoll_wait(ep, es, 256, -1);
    for (int i = 0; i < n; i++) {
      int fd = es[i].data.fd;
      if (fd == listener) {
        int c;
        while ((c = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
          setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
          struct epoll_event ce = {.events = EPOLLIN, .data.fd = c};
          epoll_ctl(ep, EPOLL_CTL_ADD, c, &ce);
          open_[c] = 0;
        }
        continue;
      }
      if (!open_[fd]) {
        char text[4096];
        ssize_t r = recv(fd, text, sizeof text - 1, 0);
        if (r <= 0) { close(fd); continue; }
        text[r] = 0;
        send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
        open_[fd] = strstr(text, "/pub") ? 2 : 1;
        if (open_[fd] == 1) subscribers[count++] = fd;
        continue;
      }
      ssize_t r = recv(fd, buffer + held, sizeof buffer - held, 0);
      if (r <= 0) {
        close(fd);
        open_[fd] = 0;
        for (int s = 0; s < count; s++) if (subscribers[s] == fd) { subscribers[s] = subscribers[--count]; break; }
        continue;
      }
      if (open_[fd] != 2) continue;
      size_t have = held + r, at = 0;
      uint64_t length;
      int h;
      while ((h = head(buffer + at, have - at, &length)) && at + h + length <= have) {
        uint8_t *p = buffer + at + h, *m = p - 4, *o = out;
        *o++ = 0x81; *o++ = 126; *o++ = length >> 8; *o++ = length;
        for (uint64_t b = 0; b < length; b++) o[b] = p[b] ^ m[b & 3];
        for (int s = 0; s < count; s++) {
          if (send(subscribers[s], out, 4 + length, MSG_NOSIGNAL) < 0) perror("send");
        }
        at += h + length;
      }
      held = have - at;
      memmove(buffer, buffer + at, held);
    }
  }
}

// ---- load ----

struct subscriber { int fd; uint32_t frames; uint64_t left; uint8_t head[16]; uint8_t held; uint8_t state; };

static uint64_t cpu_ns(int pid) {
  char path[128];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *d = opendir(path);
  struct dirent *e;
  uint64_t sum = 0;
  while (d && (e = readdir(d))) {
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pid, e->d_name);
    FILE *f = e->d_name[0] == '.' ? 0 : fopen(path, "r");
    if (f) { if (fscanf(f, "%llu", &ns) == 1) sum += ns; fclose(f); }
  }
  if (d) closedir(d);
  return sum;
}

static long rss_bytes(int pid) {
  char path[64];
  long total = 0, resident = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  FILE *f = fopen(path, "r");
  if (f) { if (fscanf(f, "%ld %ld", &total, &resident) != 2) resident = 0; fclose(f); }
  return resident * sysconf(_SC_PAGESIZE);
}

static int client_frame(uint8_t *to, const char *text) {
  size_t l = strlen(text);
  to[0] = 0x81; to[1] = 0x80 | 126; to[2] = l >> 8; to[3] = l;
  memset(to + 4, 0, 4);
  memcpy(to + 8, text, l);
  return 8 + l;
}

static int publish_text(char *to, size_t size, int pad, const char *channel) {
  static char filler[65536];
  memset(filler, 'x', pad);
  filler[pad] = 0;
  if (!channel) return snprintf(to, size, "{\"pad\":\"%s\"}", filler);
  return snprintf(to, size,
    "{\"type\":\"publish\",\"channel\":\"%s\",\"priority\":10,\"expiration\":0,\"aps\":{\"timestamp\":%ld,"
    "\"event\":\"update\",\"content-state\":{\"pad\":\"%s\"}}}", channel, (long)time(0), filler);
}

static void write_all(int fd, const void *bytes, size_t count) {
  for (size_t sent = 0; sent < count;) {
    ssize_t s = send(fd, (const char *)bytes + sent, count - sent, MSG_NOSIGNAL);
    if (s < 0 && errno != EAGAIN && errno != EINTR) die("send");
    if (s > 0) sent += s;
  }
}

#define MESSAGES (1 << 20)
static uint64_t sent_at[MESSAGES];
static uint32_t arrived[MESSAGES];
static uint32_t *samples;
static size_t sample_count;
#define SAMPLES (1 << 22)

static int compare(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static double percentile(double p) {
  return sample_count ? samples[(size_t)(p * (sample_count - 1))] / 1000.0 : 0;
}

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

static int load(char **v) {
  int port = atoi(v[0]), pid = atoi(v[1]), n = atoi(v[2]), w = atoi(v[3]), skip = atoi(v[7]), pad = atoi(v[8]);
  double seconds = atof(v[4]);
  raise_limit();
  samples = malloc(SAMPLES * sizeof *samples);
  struct subscriber *subs = calloc(n, sizeof *subs);
  static char line[4096];
  static uint8_t buffer[1 << 18], frame[1 << 17];
  static char text[1 << 17];
  int ask = request(line, sizeof line, v[5]), ep = epoll_create1(0);
  struct epoll_event es[512];
  long rss0 = rss_bytes(pid);
  uint64_t begin = now_ns();
  int started = 0, ready = 0;
  while (ready < n) {
    while (started < n && started - ready < 200) {
      subs[started].fd = dial(port, 1);
      struct epoll_event e = {.events = EPOLLOUT, .data.u32 = started};
      epoll_ctl(ep, EPOLL_CTL_ADD, subs[started++].fd, &e);
    }
    int k = epoll_wait(ep, es, 512, 5000);
    if (k <= 0) { fprintf(stderr, "only %d of %d subscribers were let in\n", ready, n); return 1; }
    for (int i = 0; i < k; i++) {
      struct subscriber *s = &subs[es[i].data.u32];
      if (s->state == 0) {
        write_all(s->fd, line, ask);
        s->state = 1;
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = es[i].data.u32};
        epoll_ctl(ep, EPOLL_CTL_MOD, s->fd, &e);
        continue;
      }
      ssize_t r = recv(s->fd, buffer, sizeof buffer - 1, 0);
      if (r <= 0) { fprintf(stderr, "a subscriber was refused\n"); return 1; }
      uint8_t *end = memmem(buffer, r, "\r\n\r\n", 4);
      if (s->state == 1 && end) {
        if (memcmp(buffer, "HTTP/1.1 101", 12)) { fprintf(stderr, "%.*s\n", (int)r, buffer); return 1; }
        s->state = 2;
        ready++;
        take(s, end + 4, buffer + r - end - 4, skip);
      } else if (s->state == 2) {
        take(s, buffer, r, skip);
      }
    }
  }
  double connected = (now_ns() - begin) / 1e9;
  usleep(700000);
  double rss = (rss_bytes(pid) - rss0) / (double)n;
  if (w == 0) {
    printf("{\"n\":%d,\"connects_per_s\":%.0f,\"rss_per_connection\":%.0f}\n", n, n / connected, rss);
    fflush(stdout);
    sleep(seconds);
    return 0;
  }
  int publisher = dial(port, 0);
  ask = request(line, sizeof line, v[6]);
  write_all(publisher, line, ask);
  if (recv(publisher, buffer, sizeof buffer, 0) <= 0) die("publisher");
  fcntl(publisher, F_SETFL, O_NONBLOCK);
  struct epoll_event pe = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
  epoll_ctl(ep, EPOLL_CTL_ADD, publisher, &pe);
  publish_text(text, sizeof text, pad, v[9]);
  int size = client_frame(frame, text);
  uint64_t published = 0, complete = 0, counted = 0, cpu = 0, first = 0, start = now_ns();
  uint64_t warm = start + 400000000ull, stop = warm + (uint64_t)(seconds * 1e9), next = start;
  int is_measured = 0;
  for (;;) {
    uint64_t t = now_ns();
    if (!is_measured && t >= warm) {
      is_measured = 1;
      cpu = cpu_ns(pid); counted = deliveries; first = t; sample_count = 0;
    }
    if (t >= stop) break;
    while (complete < published && arrived[complete] == (uint32_t)n) complete++;
    while (published < MESSAGES - 1 && (w > 0 ? published - complete < (uint64_t)w : t >= next)) {
      sent_at[published++] = now_ns();
      write_all(publisher, frame, size);
      if (w < 0) next += 1000000000ull / -w;
    }
    int k = epoll_wait(ep, es, 512, 1);
    for (int i = 0; i < k; i++) {
      if (es[i].data.u32 == UINT32_MAX) {
        if (recv(publisher, buffer, sizeof buffer, 0) == 0) { fprintf(stderr, "the publisher was closed\n"); return 1; }
        continue;
      }
      struct subscriber *s = &subs[es[i].data.u32];
      ssize_t r = recv(s->fd, buffer, sizeof buffer, 0);
      if (r == 0) { fprintf(stderr, "a subscriber was closed\n"); return 1; }
      if (r > 0) take(s, buffer, r, skip);
    }
  }
  double us = (cpu_ns(pid) - cpu) / 1000.0 / (deliveries - counted);
  double rate = (deliveries - counted) / ((now_ns() - first) / 1e9);
  size_t measured = sample_count;
  uint64_t patience = now_ns() + 3000000000ull;
  while (deliveries < published * n && now_ns() < patience) {
    int k = epoll_wait(ep, es, 512, 10);
    for (int i = 0; i < k; i++) {
      if (es[i].data.u32 == UINT32_MAX) { if (recv(publisher, buffer, sizeof buffer, 0) == 0) break; continue; }
      ssize_t r = recv(subs[es[i].data.u32].fd, buffer, sizeof buffer, 0);
      if (r > 0) take(&subs[es[i].data.u32], buffer, r, skip);
    }
  }
  sample_count = measured;
  qsort(samples, sample_count, sizeof *samples, compare);
  long long lost = (long long)(published * n) - (long long)deliveries;
  printf("{\"n\":%d,\"w\":%d,\"us_per_delivery\":%.3f,\"deliveries_per_s\":%.0f,\"p50_ms\":%.2f,\"p99_ms\":%.2f,"
    "\"lost\":%lld,\"frame_bytes\":%llu,\"connects_per_s\":%.0f,\"rss_per_connection\":%.0f}\n",
    n, w, us, rate, percentile(0.5), percentile(0.99), lost, (unsigned long long)frame_bytes, n / connected, rss);
  return lost != 0;
}

// ---- probe ----

static int probe(char **v) {
  int port = atoi(v[0]), count = atoi(v[2]), pause = atoi(v[3]), fd = dial(port, 0);
  static char line[4096], text[65536];
  static uint8_t buffer[65536], frame[65536];
  samples = malloc(count * sizeof *samples);
  write_all(fd, line, request(line, sizeof line, "/v1/events"));
  if (recv(fd, buffer, sizeof buffer, 0) <= 0) die("probe");
  publish_text(text, sizeof text, 100, v[1]);
  int size = client_frame(frame, text);
  for (int i = 0; i < count; i++) {
    uint64_t t = now_ns();
    write_all(fd, frame, size);
    ssize_t r = recv(fd, buffer, sizeof buffer - 1, 0);
    if (r <= 0) die("probe");
    buffer[r] = 0;
    if (!strstr((char *)buffer + 2, "\"published\"")) { fprintf(stderr, "%s\n", buffer + 2); return 1; }
    samples[sample_count++] = (now_ns() - t) / 1000;
    usleep(pause * 1000);
  }
  qsort(samples, sample_count, sizeof *samples, compare);
  printf("{\"answers\":%d,\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"max_ms\":%.2f}\n", count, percentile(0.5),
    percentile(0.99), percentile(1));
  return 0;
}

int main(int c, char **v) {
  if (c == 3 && !strcmp(v[1], "raw")) serve_raw(atoi(v[2]));
  if (c >= 11 && !strcmp(v[1], "load")) return load(v + 2);
  if (c == 6 && !strcmp(v[1], "probe")) return probe(v + 2);
  fprintf(stderr, "usage: see the top of Benchmarks/fanout.c\n");
  return 2;
}
