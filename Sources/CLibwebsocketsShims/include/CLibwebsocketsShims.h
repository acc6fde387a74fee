// What Swift's importer cannot see of libwebsockets, and the socket flags glibc spells as enum macros.
#ifndef TOUCHLINE_CLIBWEBSOCKETS_SHIMS_H
#define TOUCHLINE_CLIBWEBSOCKETS_SHIMS_H

#include <libwebsockets.h>
#include <sys/socket.h>
#include <sys/types.h>

/// LWS_PRE is a macro of macros: the room lws_write() wants in front of a payload (lws-write.h).
static inline size_t shim_lws_pre(void) { return LWS_PRE; }

/// One send(2) that neither blocks nor raises SIGPIPE.
static inline ssize_t shim_send_now(int fd, const void *bytes, size_t count) {
  return send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// Hands bytes that are complete on the wire to lws. LWS_WRITE_RAW is a macro, and lws_write() takes a
/// pointer to mutable bytes although it only frames, and so only writes to, the other kinds.
static inline int shim_write_raw(struct lws *wsi, const void *bytes, size_t count) {
  return lws_write(wsi, (unsigned char *)bytes, count, LWS_WRITE_RAW);
}

/// accept4(2) with SOCK_NONBLOCK and SOCK_CLOEXEC. It needs _GNU_SOURCE, which in this header would change
/// what other C modules see of <sys/select.h>.
int shim_accept(int fd, struct sockaddr *address, socklen_t *size);

#endif
