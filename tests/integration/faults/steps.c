// SPDX-License-Identifier: BSD-2-Clause
/* The traffic and the steps of the program that steps.h describes. */
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kReceive = 1, kSend = 2, kProbe = 3 }; /* the values of wr_id */

void end(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("end ");
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  fflush(stdout);
  _exit(0);
}

void step(const struct side* side, const char* name) {
  if (side->asked.stop_at == NULL || strcmp(side->asked.stop_at, name) != 0) return;
  printf("at %s\n", name);
  fflush(stdout);
  char line[16];
  if (fgets(line, sizeof line, stdin) == NULL) end("refused input %d", EPIPE);
}

static void post_receive(struct side* side) {
  struct ibv_sge part = {(uintptr_t)side->memory, kMessage, side->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = kReceive, .sg_list = &part, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  const int code = ibv_post_recv(side->qp, &wr, &bad);
  if (code != 0) end("refused ibv_post_recv %d", code);
}

/* Posts a message with its number at both ends. */
static void post_send(struct side* side) {
  char* const message = side->memory + kMessage;
  const int number = side->posted++;
  memcpy(message, &number, sizeof number);
  memcpy(message + kMessage - sizeof number, &number, sizeof number);
  struct ibv_sge part = {(uintptr_t)message, kMessage, side->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = kSend, .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND};
  struct ibv_send_wr* bad = NULL;
  const int code = ibv_post_send(side->qp, &wr, &bad);
  if (code != 0) end("refused ibv_post_send %d", code);
}

static void ask_for_peer(struct side* side) {
  struct ibv_send_wr wr = {.wr_id = kProbe, .opcode = IBV_WR_RDMA_WRITE};
  struct ibv_send_wr* bad = NULL;
  const int code = ibv_post_send(side->qp, &wr, &bad);
  if (code != 0) end("refused ibv_post_send %d", code);
}

static void check_message(const struct side* side) {
  int first = 0;
  int last = 0;
  memcpy(&first, side->memory, sizeof first);
  memcpy(&last, side->memory + kMessage - sizeof last, sizeof last);
  if (first != side->received || last != side->received) {
    end("corrupt message %d: %d..%d", side->received, first, last);
  }
}

static void handle(struct side* side, const struct ibv_wc* wc) {
  if (wc->status != IBV_WC_SUCCESS) {
    struct pollfd events = {side->context->async_fd, POLLIN, 0};
    struct ibv_async_event event;
    if (poll(&events, 1, 0) == 1 && ibv_get_async_event(side->context, &event) == 0 &&
        event.event_type == IBV_EVENT_DEVICE_FATAL) {
      end("fatal");
    }
    end("status %d", wc->status);
  }
  if (wc->wr_id == kSend) ++side->sent;
  if (wc->wr_id != kReceive) return;
  check_message(side);
  ++side->received;
  post_receive(side);
  const int goal = side->asked.iterations;
  if (side->posted < goal) post_send(side);
  if (side->received == goal / 2) step(side, "half");
}

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Takes one completion, as ibv_poll_cq does. */
static int take(struct side* side, struct ibv_wc* wc) {
  if (side->extended == NULL) return ibv_poll_cq(side->cq, 1, wc);
  struct ibv_poll_cq_attr attr = {0};
  const int code = ibv_start_poll(side->extended, &attr);
  if (code != 0) return code == ENOENT ? 0 : -code;
  wc->wr_id = side->extended->wr_id;
  wc->status = side->extended->status;
  ibv_end_poll(side->extended);
  return 1;
}

/* Waits for a completion or an event. Returns false if nothing happens for a while. */
static bool wait_for_work(struct side* side) {
  if (side->asked.events && ibv_req_notify_cq(side->cq, 0) != 0) end("refused ibv_req_notify_cq");
  const int64_t limit = now_ms() + kSilenceMs;
  for (;;) {
    struct ibv_wc wc;
    const int n = take(side, &wc);
    if (n < 0) end("refused %s %d", side->extended ? "ibv_start_poll" : "ibv_poll_cq", n);
    if (n == 1) {
      handle(side, &wc);
      return true;
    }
    struct pollfd fds[] = {{side->context->async_fd, POLLIN, 0},
                           {side->channel != NULL ? side->channel->fd : -1, POLLIN, 0}};
    const int64_t rest = limit - now_ms();
    if (rest <= 0) return false;
    poll(fds, 2, side->asked.events ? (int)rest : 0);
    struct ibv_async_event event;
    if (fds[0].revents != 0 && ibv_get_async_event(side->context, &event) == 0) {
      if (event.event_type == IBV_EVENT_DEVICE_FATAL) end("fatal");
      ibv_ack_async_event(&event);
    }
    struct ibv_cq* cq = NULL;
    void* user = NULL;
    if (fds[1].revents != 0 && ibv_get_cq_event(side->channel, &cq, &user) == 0) {
      ibv_ack_cq_events(cq, 1);
    }
  }
}

static void begin(struct side* side) {
  if (side->asked.is_client) post_send(side);
  step(side, "first");
}

static void* play(void* argument) {
  struct side* side = argument;
  const int goal = side->asked.iterations;
  while (side->received < goal || side->sent < goal) {
    if (!wait_for_work(side)) ask_for_peer(side);
  }
  return NULL;
}

static void run(struct side* side) {
  step(side, "start");
  open_device(side);
  step(side, "opened");
  register_memory(side);
  step(side, "registered");
  make_queues(side);
  step(side, "made");
  for (int i = 0; i < kDepth / 2; ++i) post_receive(side);
  connect_queue_pair(side);
  step(side, "connected");
  if (side->asked.thread) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, play, side) != 0) end("refused pthread_create");
    /* Only the completion orders this before what the other thread does with the buffer. */
    begin(side);
    pthread_join(thread, NULL);
  } else {
    begin(side);
    play(side);
  }
  step(side, "done");
  destroy_queues(side);
  step(side, "destroyed");
  close_device(side);
  step(side, "closed");
}

int main(int argc, char** argv) {
  struct side side;
  memset(&side, 0, sizeof side);
  side.asked.iterations = 100;
  for (int option; (option = getopt(argc, argv, "etxn:s:")) != -1;) {
    if (option == 'e') side.asked.events = true;
    if (option == 't') side.asked.thread = true;
    if (option == 'x') side.asked.extended = true;
    if (option == 'n') side.asked.iterations = atoi(optarg);
    if (option == 's') side.asked.stop_at = optarg;
    if (option == '?') return 2;
  }
  if (optind + 1 != argc) return 2;
  side.asked.is_client = strcmp(argv[optind], "client") == 0;
  run(&side);
  printf("end ok\n");
  return fflush(stdout);
}
