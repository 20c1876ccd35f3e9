// SPDX-License-Identifier: BSD-2-Clause
/* A ping-pong program that stops where it is told to, so that it, its peer or the emulator can be
 * killed there. It is one process with one queue pair, and has two threads at most.
 *
 *   steps [-e] [-t] [-x] [-n ITERATIONS] [-s STEP] server|client
 *
 * -e sleeps on a completion channel instead of polling, -t polls and answers in a second thread
 * while the first one begins, -x reads completions by the extended interface, -s stops at a step:
 * it prints "at STEP" and waits for a line. Before it connects it prints "address LID QPN" and
 * reads "LID QPN" of its peer.
 *
 * The program ends with one line and the exit code 0: "end ok", "end status N" (an error
 * completion), "end fatal" (IBV_EVENT_DEVICE_FATAL) or "end refused VERB ERRNO". A side that
 * receives nothing for a while asks with an empty RDMA WRITE whether its peer is there, as programs
 * on real adapters do.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { kMessage = 4096, kDepth = 16, kSilenceMs = 300 };

struct options {
  bool events;
  bool thread;
  bool extended;
  bool is_client;
  int iterations;
  const char* stop_at;
};

struct side {
  struct options asked;
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_mr* mr;
  struct ibv_comp_channel* channel;
  struct ibv_cq* cq;
  struct ibv_cq_ex* extended; /* cq with the extended interface; NULL: only the classic one */
  struct ibv_qp* qp;
  char* memory; /* one message to receive, then one to send */
  int received;
  int sent; /* completed sends */
  int posted;
};

/* Prints the end and ends the process with 0. The kernel closes what is open. */
void end(const char* format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Stops here if this step was asked for. */
void step(const struct side* side, const char* name);

/* steps_setup.c has these. Each ends the program with "end refused ..." if a verb fails. */
void open_device(struct side* side);
void register_memory(struct side* side);
void make_queues(struct side* side);
void connect_queue_pair(struct side* side);
void destroy_queues(struct side* side);
void close_device(struct side* side);
