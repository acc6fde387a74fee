// What Swift's Glibc leaves out of Linux: epoll(7), prctl(2), whose arguments are variable, the flags of sockets, which glibc spells as
// enum macros, and what glibc has besides POSIX.
#ifndef TOUCHLINE_CLINUX_H
#define TOUCHLINE_CLINUX_H

#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>

/// The kernel sends this process a signal when the thread that started it ends (PR_SET_PDEATHSIG).
static inline int shim_set_parent_death_signal(int signal) {
  return prctl(PR_SET_PDEATHSIG, (unsigned long)signal, 0UL, 0UL, 0UL);
}

/// One send(2) that neither blocks nor raises SIGPIPE.
static inline ssize_t shim_send_now(int fd, const void *bytes, size_t count) {
  return send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Declared here, because <sys/socket.h> shows it with _GNU_SOURCE alone.
extern int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);

/// accept4(2) with SOCK_NONBLOCK and SOCK_CLOEXEC.
static inline int shim_accept(int fd, struct sockaddr *address, socklen_t *size) {
  return accept4(fd, address, size, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

// Declared here, because <spawn.h> shows it with _GNU_SOURCE alone (glibc 2.34 and newer).
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int first);

/// A child keeps no descriptor from `first` on.
static inline int shim_close_from(posix_spawn_file_actions_t *actions, int first) {
  return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

#endif
