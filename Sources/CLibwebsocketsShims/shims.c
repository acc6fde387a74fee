#define _GNU_SOURCE
#include "CLibwebsocketsShims.h"

int shim_accept(int fd, struct sockaddr *address, socklen_t *size) {
  return accept4(fd, address, size, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
