// Counts what a program allocates, for LD_PRELOAD: the sum is in the file that ALLOCATIONS names, as a 64-bit number.
//
//   gcc -O2 -shared -fPIC -o allocations.so Tests/Benchmarks/allocations.c
//   ALLOCATIONS=/tmp/count LD_PRELOAD=./allocations.so touchline serve …; od -An -td8 /tmp/count
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
static uint64_t nowhere, *count = &nowhere;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("ALLOCATIONS");
  int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
  if (fd < 0 || ftruncate(fd, 8) < 0) return;
  void *page = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) count = page;
  close(fd);
}

void *malloc(size_t size) { ++*count; return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { ++*count; return __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { ++*count; return __libc_realloc(old, size); }
