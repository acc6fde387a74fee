// What Swift's Glibc leaves out of Linux: epoll(7), prctl(2), whose arguments are variable, and what glibc has besides POSIX.
#ifndef TOUCHLINE_CLINUX_H
#define TOUCHLINE_CLINUX_H

#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

/// The kernel sends this process a signal when the thread that started it ends (PR_SET_PDEATHSIG).
static inline int shim_set_parent_death_signal(int signal) {
  return prctl(PR_SET_PDEATHSIG, (unsigned long)signal, 0UL, 0UL, 0UL);
}

// Declared here, because <spawn.h> shows it with _GNU_SOURCE alone (glibc 2.34 and newer).
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int first);

/// A child keeps no descriptor from `first` on.
static inline int shim_close_from(posix_spawn_file_actions_t *actions, int first) {
  return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

#endif
