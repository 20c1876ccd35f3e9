// SPDX-License-Identifier: BSD-2-Clause
/* A ping-pong program that stops where it is told to, so that it, its peer or the emulator can be
 * killed there. One process, one queue pair, two threads at most.
 *
 *   steps [-e] [-t] [-x] [-n ITERATIONS] [-s STEP] server|client
 *
 * -e sleeps on a completion channel instead of polling, -t polls and answers in a second thread
 * while the first one begins, -x reads completions by the extended interface, -s stops at a step:
 * it prints "at STEP" and waits for a line. Before it connects it prints "address LID QPN" and
 * reads "LID QPN" of its peer.
 *
 * The end is one line and the exit code 0: "end ok", "end status N" (an error completion), "end
 * fatal" (IBV_EVENT_DEVICE_FATAL) or "end refused VERB ERRNO". A side that hears nothing for a
 * while asks with an empty RDMA WRITE whether its peer is there, as programs on real adapters do.
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
  struct ibv_cq_ex* extended; /* the same one; NULL: it has the classic interface only */
  struct ibv_qp* qp;
  char* memory; /* what is received, then what is sent */
  int received;
  int sent; /* completed sends */
  int posted;
};

/* Prints the end and ends the process, in good order: what is open is left to the kernel. */
void end(const char* format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Stops here if it was asked for. */
void step(const struct side* side, const char* name);

/* steps_setup.c: each ends the program with "end refused ..." where a verb fails. */
void open_device(struct side* side);
void register_memory(struct side* side);
void make_queues(struct side* side);
void connect_queue_pair(struct side* side);
void destroy_queues(struct side* side);
void close_device(struct side* side);
