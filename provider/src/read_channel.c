#include "read_channel.h"

#include <errno.h>
#include <pthread.h>

// An errno, 0 when it was woken.
static int sleep_on(struct pollfd* fds, void* visit) {
  int ready = -1;
  pthread_cleanup_push(verbena_end_visit, visit);
  ready = poll(fds, kVerbenaVisitFds, -1);
  pthread_cleanup_pop(0);
  return ready < 0 ? errno : 0;
}

ssize_t verbena_read_channel(int fd, void* bytes, size_t size) {
  pthread_testcancel();
  const int saved = errno;
  _Alignas(16) unsigned char visit[kVerbenaVisitBytes];
  if (size < kVerbenaEventBytes || !verbena_begin_visit(fd, visit)) {
    errno = saved;
    return kVerbenaReadPlainly;
  }
  ssize_t got = 0;
  struct pollfd fds[kVerbenaVisitFds];
  while ((got = verbena_visit_read(visit, bytes, size, fds)) == 0) {
    const int error = sleep_on(fds, visit);
    verbena_visit_wake(visit);
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
