// SPDX-License-Identifier: BSD-2-Clause
#include "calls/await_message.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static void close_own(void* own) {
  if (*(int*)own >= 0) close(*(int*)own);
}

ssize_t verbena_await_message(int fd, int* own, ssize_t (*receive)(int, void*, size_t, int)) {
  char byte = 0;
  ssize_t result = -1;
  pthread_cleanup_push(close_own, own);
  result = receive(fd, &byte, sizeof byte, MSG_PEEK);
  pthread_cleanup_pop(0);
  return result;
}
