// How long one message takes to everybody, and everybody's acknowledgement to the server, while the processors are the server's:
// the clients read and write nothing meanwhile. With -DFANOUT_TLS everything is wss.
//
//   spread PORT PID N LOOPS ROUNDS CHANNEL   N subscribers of a server with so many loops; prints one JSON line of medians
//
// Loopback only. Subscribers connect one after the other, so that the last LOOPS of them are each the last one of their loop, and a
// loop serves in the order of their coming: when they have the message, everybody has. For the acknowledgements the server is stopped
// while they are written, the last ones' at the end, and goes on when the clock starts.
#include "client.h"
#include <signal.h>

static uint8_t frame[1 << 17];

static void read_all(struct stream *s, uint8_t *to, size_t count) {
  for (size_t have = 0; have < count;) {
    ssize_t r = stream_recv(s, to + have, count - have);
    if (r == 0) { fprintf(stderr, "a subscriber was closed\n"); exit(1); }
    if (r < 0 && errno != EAGAIN && errno != EINTR) die("recv");
    if (r > 0) have += r;
  }
}

// Reads one whole frame, ended with a zero.
static char *read_frame(struct stream *s) {
  uint64_t length = 0;
  size_t have = 0;
  int h = 0;
  while (!h) {
    read_all(s, frame + have, 1);
    h = head(frame, ++have, &length);
  }
  read_all(s, frame, length);
  frame[length] = 0;
  return (char *)frame;
}

static struct stream connect_to(int port, const char *path) {
  char line[4096];
  struct stream s = dial(port, 0);
  while (stream_handshake(&s) < 0) if (errno != EAGAIN) die("handshake");
  write_all(&s, line, request(line, sizeof line, path));
  char end[5] = "";
  while (strcmp(end, "\r\n\r\n")) {
    memmove(end, end + 1, 3);
    read_all(&s, (uint8_t *)end + 3, 1);
  }
  return s;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *values, int count) {
  qsort(values, count, sizeof *values, ascending);
  return values[count / 2];
}

// A resting server: nothing of the last round is left to do.
static void rest(int pid) {
  uint64_t before;
  do { before = cpu_ns(pid); usleep(20000); } while (cpu_ns(pid) - before > 500000);
}

int main(int c, char **v) {
  if (c != 7) { fprintf(stderr, "usage: see the top of Tests/Benchmarks/spread.c\n"); return 2; }
  int port = atoi(v[1]), pid = atoi(v[2]), n = atoi(v[3]), loops = atoi(v[4]), rounds = atoi(v[5]);
  if (n < loops || loops < 1 || rounds < 1) { fprintf(stderr, "N must be at least LOOPS\n"); return 2; }
  raise_limit();
  make_context();
  static char path[4096], text[1 << 17];
  static uint8_t out[1 << 18];
  snprintf(path, sizeof path, "/v1/channels/%s/events", v[6]);
  struct stream *subscribers = calloc(n, sizeof *subscribers);
  double *times[2] = {calloc(rounds, sizeof(double)), calloc(rounds, sizeof(double))};
  double *costs[2] = {calloc(rounds, sizeof(double)), calloc(rounds, sizeof(double))};
  if (!subscribers || !times[0] || !times[1] || !costs[0] || !costs[1]) die("calloc");
  for (int i = 0; i < n; i++) {
    subscribers[i] = connect_to(port, path);
    read_frame(&subscribers[i]);
  }
  struct stream publisher = connect_to(port, "/v1/events");
  for (int round = 0; round < rounds; round++) {
    rest(pid);
    publish_text(text, sizeof text, 200, v[6]);
    int size = client_frame(out, text);
    uint64_t cpu = cpu_ns(pid), begin = now_ns();
    write_all(&publisher, out, size);
    long seq = -1;
    for (int i = n - loops; i < n; i++) {
      char *found = strstr(read_frame(&subscribers[i]), "\"seq\":");
      if (!found) { fprintf(stderr, "no message: %s\n", frame); return 1; }
      seq = atol(found + 6);
    }
    times[0][round] = (now_ns() - begin) / 1e6;
    rest(pid);
    costs[0][round] = (cpu_ns(pid) - cpu) / 1e3 / n;
    read_frame(&publisher);
    for (int i = 0; i < n - loops; i++) {
      if (!strstr(read_frame(&subscribers[i]), "\"seq\":")) { fprintf(stderr, "no message: %s\n", frame); return 1; }
    }

    snprintf(text, sizeof text, "{\"type\":\"ack\",\"channel\":\"%s\",\"seq\":%ld}", v[6], seq);
    size = client_frame(out, text);
    kill(pid, SIGSTOP);
    for (int i = 0; i < n; i++) write_all(&subscribers[i], out, size);
    cpu = cpu_ns(pid), begin = now_ns();
    kill(pid, SIGCONT);
    for (int i = n - loops; i < n; i++) {
      if (!strstr(read_frame(&subscribers[i]), "acknowledged")) { fprintf(stderr, "no answer: %s\n", frame); return 1; }
    }
    times[1][round] = (now_ns() - begin) / 1e6;
    rest(pid);
    costs[1][round] = (cpu_ns(pid) - cpu) / 1e3 / n;
    for (int i = 0; i < n - loops; i++) read_frame(&subscribers[i]);
  }
  double fanout = median(times[0], rounds), acks = median(times[1], rounds);
  printf("{\"n\":%d,\"loops\":%d,\"fanout_ms\":%.2f,\"deliveries_per_s\":%.0f,\"us_per_delivery\":%.2f,\"acks_ms\":%.2f,"
    "\"acks_per_s\":%.0f,\"us_per_ack\":%.2f}\n", n, loops, fanout, n / fanout * 1e3, median(costs[0], rounds), acks,
    n / acks * 1e3, median(costs[1], rounds));
  return 0;
}
