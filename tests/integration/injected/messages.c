// SPDX-License-Identifier: BSD-2-Clause
/* A sender and a receiver in two processes: COUNT messages of SIZE bytes, with their numbers as
   immediate data.

       messages uc|rc COUNT SIZE

   Prints which messages did not arrive: "missing 3 17 ...". Initial PSNs are random, as in most
   programs. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sides.h"

enum { kBatch = 32 };

/* Receives until the sender says that a batch has left, and no more comes. */
static void receive_batch(struct side* s, int fd, char* arrived) {
  const struct timespec pause = {0, 1000000};
  char word;
  hear(fd, &word, 1);
  for (int quiet = 0; quiet < 5;) {
    struct ibv_wc wc;
    const int n = ibv_poll_cq(s->cq, 1, &wc);
    if (n < 0 || (n == 1 && wc.status != IBV_WC_SUCCESS)) die("ibv_poll_cq");
    if (n == 0) {
      ++quiet;
      nanosleep(&pause, NULL);
      continue;
    }
    quiet = 0;
    arrived[ntohl(wc.imm_data)] = 1;
    if (post_receive(s, (unsigned)wc.wr_id) != 0) die("ibv_post_recv");
  }
  tell(fd, &word, 1);
}

static void receive(struct side* s, int fd, unsigned count) {
  char* arrived = calloc(count, 1);
  for (unsigned i = 0; i < kDepth; ++i) {
    if (post_receive(s, i) != 0) die("ibv_post_recv");
  }
  tell(fd, "r", 1);
  for (unsigned done = 0; done < count; done += kBatch) receive_batch(s, fd, arrived);
  printf("missing");
  for (unsigned i = 0; i < count; ++i) {
    if (!arrived[i]) printf(" %u", i);
  }
  printf("\n");
  free(arrived);
}

static void send_all(struct side* s, int fd, unsigned count) {
  char word;
  hear(fd, &word, 1);
  for (unsigned i = 0; i < count;) {
    unsigned posted = 0;
    for (; posted < kBatch && i < count; ++posted, ++i) {
      struct ibv_sge sge = {(uintptr_t)s->memory, (uint32_t)s->size, s->mr->lkey};
      struct ibv_send_wr wr = {.sg_list = &sge,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND_WITH_IMM,
                               .imm_data = htonl(i)},
                         *bad;
      if (ibv_post_send(s->qp, &wr, &bad) != 0) die("ibv_post_send");
    }
    while (posted > 0) {
      struct ibv_wc wc;
      const int n = ibv_poll_cq(s->cq, 1, &wc);
      if (n < 0 || (n == 1 && wc.status != IBV_WC_SUCCESS)) die("a send failed");
      posted -= (unsigned)n;
    }
    tell(fd, "b", 1);
    hear(fd, &word, 1);
  }
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const unsigned count = (unsigned)strtoul(argv[2], NULL, 0);
  struct side side = {.type = strcmp(argv[1], "uc") == 0 ? IBV_QPT_UC : IBV_QPT_RC,
                      .size = strtoul(argv[3], NULL, 0),
                      .timeout = 14,
                      .retries = 7,
                      .rnr_retries = 7};
  int is_sender;
  const int fd = fork_sides(&is_sender);
  open_side(&side, fd);
  if (is_sender) {
    send_all(&side, fd, count);
  } else {
    receive(&side, fd, count);
  }
  return 0;
}
