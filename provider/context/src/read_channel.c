// SPDX-License-Identifier: BSD-2-Clause
#include "read_channel.h"

#include <errno.h>
#include <pthread.h>

// Ends the visit of a cancelled thread. sanitizers.cpp suppresses TSan's reports by this name,
// because TSan sees no locks of a cancelled thread.
static void end_cancelled_visit(void* visit) { verbena_end_visit(visit); }

// Returns an errno, or 0 when the thread was woken.
static int sleep_on(int wakers, void* visit) {
  struct epoll_event reported[kVerbenaWakers];
  int ready = -1;
  pthread_cleanup_push(end_cancelled_visit, visit);
  ready = epoll_wait(wakers, reported, kVerbenaWakers, -1);
  pthread_cleanup_pop(0);
  const int error = ready < 0 ? errno : 0;
  verbena_visit_wake(visit, reported, ready < 0 ? 0 : ready);
  return error;
}

ssize_t verbena_read_channel(int fd, void* bytes, size_t size, int (*may_block)(int fd)) {
  pthread_testcancel();
  const int saved = errno;
  _Alignas(16) unsigned char visit[kVerbenaVisitBytes];
  if (size < kVerbenaEventBytes || !verbena_begin_visit(fd, may_block, visit)) {
    errno = saved;
    return kVerbenaReadPlainly;
  }
  ssize_t got = 0;
  int wakers = -1;
  while ((got = verbena_visit_read(visit, bytes, size, &wakers)) == 0) {
    const int error = sleep_on(wakers, visit);
    if (error == EINTR && verbena_may_interrupt()) {
      verbena_end_visit(visit);
      errno = EINTR;
      return -1;
    }
  }
  verbena_end_visit(visit);
  errno = saved;
  return got;
}
