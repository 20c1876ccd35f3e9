// SPDX-License-Identifier: BSD-2-Clause
/* Two processes of one program with a queue pair each. They exchange addresses over a socket pair.
   Initial PSNs are random, as in most programs. */
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum { kDepth = 64 };

struct address {
  uint32_t lid, qpn, psn, rkey;
  uint64_t memory;
};

struct side {
  /* The caller sets these before open_side(). */
  struct ibv_context* context; /* NULL: open_side() opens the device */
  enum ibv_qp_type type;
  size_t size; /* of each of the kDepth places in memory */
  uint8_t timeout, retries, rnr_retries;
  int access;
  unsigned receives; /* that may be posted; 0: kDepth */
  /* open_side() sets these. */
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  char* memory;
  struct address peer;
};

void die(const char* what) __attribute__((noreturn));
void tell(int fd, const void* data, size_t size);
void hear(int fd, void* data, size_t size);
void open_side(struct side* side, int fd);
/* Returns 0 or an errno. */
int post_receive(struct side* side, unsigned place);
/* Forks. Returns each process's end of the socket pair. */
int fork_sides(int* is_second);
