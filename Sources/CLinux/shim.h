// What Swift's Glibc leaves out of Linux: epoll(7), and prctl(2), whose arguments are variable.
#ifndef TOUCHLINE_CLINUX_H
#define TOUCHLINE_CLINUX_H

#include <sys/epoll.h>
#include <sys/prctl.h>

/// The kernel sends this process a signal when the thread that started it ends (PR_SET_PDEATHSIG).
static inline int shim_set_parent_death_signal(int signal) {
  return prctl(PR_SET_PDEATHSIG, (unsigned long)signal, 0UL, 0UL, 0UL);
}

#endif
