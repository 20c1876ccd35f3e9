// SPDX-License-Identifier: BSD-2-Clause
/* One process writes to another one by several queue pairs of one device, each with a completion
   queue of its own, so that they may belong to different engines.

       lines QUEUE_PAIRS COUNT SIZE

   Posts COUNT RDMA WRITEs of SIZE bytes to each queue pair at once. Prints how many milliseconds
   pass until the last one completes. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sides.h"

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void post(struct side* s) {
  struct ibv_sge sge = {(uintptr_t)s->memory, (uint32_t)s->size, s->mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
  wr.wr.rdma.remote_addr = s->peer.memory;
  wr.wr.rdma.rkey = s->peer.rkey;
  if (ibv_post_send(s->qp, &wr, &bad) != 0) die("ibv_post_send");
}

static void await_one(struct side* s) {
  struct ibv_wc wc;
  int n;
  while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0) {
  }
  if (n < 0 || wc.status != IBV_WC_SUCCESS) die("a WRITE failed");
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int queue_pairs = atoi(argv[1]), count = atoi(argv[2]);
  struct side* sides = calloc((size_t)queue_pairs, sizeof *sides);
  int is_sender;
  char word = 0;
  const int fd = fork_sides(&is_sender);
  for (int i = 0; i < queue_pairs; ++i) {
    sides[i] = (struct side){.type = IBV_QPT_RC,
                             .size = strtoul(argv[3], NULL, 0),
                             .timeout = 18,
                             .retries = 7,
                             .rnr_retries = 7,
                             .access = IBV_ACCESS_REMOTE_WRITE,
                             .context = sides[0].context};
    open_side(&sides[i], fd);
  }
  if (!is_sender) {
    hear(fd, &word, 1);
    return 0;
  }
  const double begin = now_ms();
  for (int n = 0; n < count; ++n) {
    for (int i = 0; i < queue_pairs; ++i) post(&sides[i]);
  }
  for (int i = 0; i < queue_pairs; ++i) {
    for (int n = 0; n < count; ++n) await_one(&sides[i]);
  }
  printf("%.1f\n", now_ms() - begin);
  tell(fd, &word, 1);
  return 0;
}
