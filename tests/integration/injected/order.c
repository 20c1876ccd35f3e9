// SPDX-License-Identifier: BSD-2-Clause
/* One process sends to another one by several UC queue pairs of one device, as quickly as it can.

       order QUEUE_PAIRS COUNT SIZE

   Each queue pair sends COUNT messages of SIZE bytes with their numbers as immediate data; all
   receives are posted before. Prints how many messages did not arrive, and how many came after a
   later one: "lost 0 reordered 0". */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sides.h"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Receives until all is there, or until nothing has come for two seconds. */
static void receive_all(struct side* sides, int queue_pairs, unsigned count) {
  unsigned* next = calloc((size_t)queue_pairs, sizeof *next);
  unsigned long arrived = 0, reordered = 0;
  const unsigned long all = (unsigned long)queue_pairs * count;
  for (double last = now_s(); arrived < all && now_s() - last < 2;) {
    for (int i = 0; i < queue_pairs; ++i) {
      struct ibv_wc wc[32];
      const int n = ibv_poll_cq(sides[i].cq, 32, wc);
      if (n < 0) die("ibv_poll_cq");
      for (int k = 0; k < n; ++k) {
        if (wc[k].status != IBV_WC_SUCCESS) die("a receive failed");
        const unsigned number = ntohl(wc[k].imm_data);
        reordered += number < next[i];
        next[i] = number + 1;
        ++arrived;
        last = now_s();
      }
    }
  }
  printf("lost %lu reordered %lu\n", all - arrived, reordered);
  free(next);
}

static void send_all(struct side* sides, int queue_pairs, unsigned count) {
  unsigned long left = (unsigned long)queue_pairs * count;
  unsigned* posted = calloc((size_t)queue_pairs, sizeof *posted);
  unsigned* done = calloc((size_t)queue_pairs, sizeof *done);
  while (left > 0) {
    for (int i = 0; i < queue_pairs; ++i) {
      struct side* s = &sides[i];
      for (; posted[i] < count && posted[i] - done[i] < kDepth; ++posted[i]) {
        struct ibv_sge sge = {(uintptr_t)s->memory, (uint32_t)s->size, s->mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND_WITH_IMM,
                                 .imm_data = htonl(posted[i])},
                           *bad;
        if (ibv_post_send(s->qp, &wr, &bad) != 0) die("ibv_post_send");
      }
      struct ibv_wc wc[32];
      const int n = ibv_poll_cq(s->cq, 32, wc);
      for (int k = 0; k < n; ++k) {
        if (wc[k].status != IBV_WC_SUCCESS) die("a send failed");
      }
      done[i] += (unsigned)n;
      left -= (unsigned)n;
    }
  }
  free(posted);
  free(done);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int queue_pairs = atoi(argv[1]);
  const unsigned count = (unsigned)strtoul(argv[2], NULL, 0);
  struct side* sides = calloc((size_t)queue_pairs, sizeof *sides);
  int is_sender;
  char word = 0;
  const int fd = fork_sides(&is_sender);
  for (int i = 0; i < queue_pairs; ++i) {
    sides[i] = (struct side){.type = IBV_QPT_UC,
                             .size = strtoul(argv[3], NULL, 0),
                             .receives = count,
                             .context = sides[0].context};
    open_side(&sides[i], fd);
    for (unsigned k = 0; !is_sender && k < count; ++k) {
      if (post_receive(&sides[i], k % kDepth) != 0) die("ibv_post_recv");
    }
  }
  if (is_sender) {
    hear(fd, &word, 1);
    send_all(sides, queue_pairs, count);
    hear(fd, &word, 1);
  } else {
    tell(fd, &word, 1);
    receive_all(sides, queue_pairs, count);
    tell(fd, &word, 1);
  }
  return 0;
}
