// SPDX-License-Identifier: BSD-2-Clause
#include "read_channel.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

// A read, with the signals that it holds back. While packets come, the thread does not sleep in the
// kernel, where a signal would end the read. So after a while signals wait until the thread looks
// for them, or sleeps.
struct Read {
  _Alignas(16) unsigned char visit[kVerbenaVisitBytes];
  bool holds_signals;
  sigset_t before;        // the thread's mask, if signals are held back
  volatile bool is_left;  // verbena_leave_channel() has ended the visit
  struct Read* outer;     // the read that a handler has interrupted to begin this one, or NULL
};

// The calling thread's read, while a handler of a signal may jump out of it: while the thread
// sleeps or looks for signals.
static _Thread_local struct Read* interruptible = NULL;

static void free_signals(struct Read* r) {
  if (r->holds_signals) pthread_sigmask(SIG_SETMASK, &r->before, NULL);
  r->holds_signals = false;
}

static void hold_signals(struct Read* r) {
  sigset_t held;
  sigfillset(&held);
  for (int number = 1; number < NSIG; ++number) {
    if (verbena_is_of_a_fault(number)) sigdelset(&held, number);
  }
  r->holds_signals = pthread_sigmask(SIG_BLOCK, &held, &r->before) == 0;
}

// Lets the handlers of the signals run that wait. Returns EINTR if one of them ends the read, or 0.
static int look_for_signals(struct Read* r) {
  sigset_t waiting;
  bool is_any = false;
  int error = 0;
  if (!r->holds_signals) {
    hold_signals(r);
    return 0;
  }
  if (sigpending(&waiting) != 0) return 0;
  for (int number = 1; number < NSIG; ++number) {
    if (sigismember(&waiting, number) != 1 || sigismember(&r->before, number) == 1) continue;
    is_any = true;
    if (verbena_interrupts(number)) error = EINTR;
  }
  if (!is_any) return 0;
  free_signals(r);
  if (error == 0) hold_signals(r);
  return error;
}

static void begin_interruptible(struct Read* r) {
  r->outer = interruptible;
  interruptible = r;
}

static void end_interruptible(struct Read* r) { interruptible = r->is_left ? NULL : r->outer; }

static void end_read(struct Read* r) {
  if (!r->is_left) verbena_end_visit(r->visit);
  free_signals(r);
}

void verbena_leave_channel(void) {
  for (struct Read* r = interruptible; r != NULL; r = r->outer) {
    r->is_left = true;
    verbena_end_visit(r->visit);
  }
  interruptible = NULL;
}

// Ends the visit of a cancelled thread. sanitizers.cpp suppresses TSan's reports by this name,
// because TSan sees no locks of a cancelled thread.
static void end_cancelled_visit(void* read) {
  end_interruptible(read);
  end_read(read);
}

// Returns an errno, or 0 when the thread was woken.
static int sleep_on(int wakers, struct Read* r) {
  struct epoll_event reported[kVerbenaWakers];
  int ready = -1;
  begin_interruptible(r);
  pthread_cleanup_push(end_cancelled_visit, r);
  ready = epoll_pwait(wakers, reported, kVerbenaWakers, -1, r->holds_signals ? &r->before : NULL);
  pthread_cleanup_pop(0);
  const int error = ready < 0 ? errno : 0;
  end_interruptible(r);
  if (r->is_left) return EINTR;
  verbena_visit_wake(r->visit, reported, ready < 0 ? 0 : ready);
  return error == EINTR && !verbena_may_interrupt() ? 0 : error;
}

static int look_around(struct Read* r) {
  begin_interruptible(r);
  pthread_cleanup_push(end_cancelled_visit, r);
  pthread_testcancel();
  pthread_cleanup_pop(0);
  const int error = look_for_signals(r);
  end_interruptible(r);
  return r->is_left ? EINTR : error;
}

ssize_t verbena_read_channel(int fd, void* bytes, size_t size, int (*may_block)(int fd)) {
  pthread_testcancel();
  const int saved = errno;
  struct Read r = {.holds_signals = false, .is_left = false, .outer = NULL};
  if (size < kVerbenaEventBytes || !verbena_begin_visit(fd, may_block, r.visit)) {
    errno = saved;
    return kVerbenaReadPlainly;
  }
  ssize_t got = 0;
  int wakers = -1;
  int error = 0;
  while (error != EINTR && (got = verbena_visit_read(r.visit, bytes, size, &wakers)) == 0) {
    error = wakers == kVerbenaNoWakers ? look_around(&r) : sleep_on(wakers, &r);
  }
  end_read(&r);
  const bool is_interrupted = error == EINTR && !r.is_left;
  errno = is_interrupted ? EINTR : saved;
  if (r.is_left) return kVerbenaReadPlainly;
  return is_interrupted ? -1 : got;
}
