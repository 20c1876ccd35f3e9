// SPDX-License-Identifier: BSD-2-Clause
/* An event channel of rdma_cm: a thread that waits for an event sleeps as in the kernel, so it can
 * be cancelled and interrupted, and O_NONBLOCK and poll work. The probe needs a real emulator. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe.h"

struct waiter {
  int fd;
  sem_t started;
  ssize_t result;
  int error;
};

static ssize_t get_event(int fd) {
  char response[512];
  struct {
    struct rdma_ucm_cmd_hdr header;
    struct rdma_ucm_get_event body;
  } command = {{RDMA_USER_CM_CMD_GET_EVENT, sizeof command.body, 336}, {0}};
  command.body.response = (uint64_t)(uintptr_t)response;
  return write(fd, &command, sizeof command);
}

static void* wait_for_event(void* argument) {
  struct waiter* w = argument;
  sem_post(&w->started);
  w->result = get_event(w->fd);
  w->error = errno;
  return NULL;
}

static void on_signal(int number) { (void)number; }

static pthread_t start(struct waiter* w, int fd) {
  pthread_t thread;
  memset(w, 0, sizeof *w);
  w->fd = fd;
  sem_init(&w->started, 0, 0);
  pthread_create(&thread, NULL, wait_for_event, w);
  sem_wait(&w->started);
  return thread;
}

void probe_channel(void) {
  const int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  struct stat st;
  CHECK(fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode));
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 0) == 0);

  struct waiter waiter;
  void* ended = NULL;
  const int next = dup(fd);
  close(next);
  pthread_t thread = start(&waiter, fd);
  usleep(10000); /* most times the thread is cancelled in its sleep */
  CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &ended) == 0);
  CHECK(ended == PTHREAD_CANCELED);
  CHECK(dup(fd) == next && close(next) == 0); /* the thread left no descriptor open */

  const struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  thread = start(&waiter, fd);
  /* The signal is repeated, because it may come before the thread sleeps. */
  while (pthread_tryjoin_np(thread, NULL) != 0) {
    pthread_kill(thread, SIGUSR1);
    usleep(10000);
  }
  CHECK(waiter.result == -1 && waiter.error == EINTR);

  CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  CHECK(get_event(fd) == -1 && errno == EAGAIN);
  close(fd);
}
