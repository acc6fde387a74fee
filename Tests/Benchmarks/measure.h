// What the load measures with: the clock, a process's use of processor and memory from /proc, and sorted samples.
#ifndef MEASURE_H
#define MEASURE_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline uint64_t cpu_ns(int pid) {
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

static inline long rss_bytes(int pid) {
  char path[64];
  long total = 0, resident = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  FILE *f = fopen(path, "r");
  if (f) { if (fscanf(f, "%ld %ld", &total, &resident) != 2) resident = 0; fclose(f); }
  return resident * sysconf(_SC_PAGESIZE);
}

static uint32_t *samples;
static size_t sample_count;
#define SAMPLES (1 << 22)

static inline int compare(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static inline double percentile(double p) {
  return sample_count ? samples[(size_t)(p * (sample_count - 1))] / 1000.0 : 0;
}

#endif
