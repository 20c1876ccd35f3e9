// SPDX-License-Identifier: BSD-2-Clause
/* A sender and a receiver in two processes: COUNT messages of SIZE bytes, numbered in their
   immediate.

       messages uc|rc COUNT SIZE

   Prints which of them did not arrive: "missing 3 17 ...". Initial PSNs are random, as those of
   most programs. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kDepth = 64, kBatch = 32 };

struct address {
  uint32_t lid, qpn, psn;
};

struct side {
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  char* memory;
  size_t size;
};

static void die(const char* what) {
  perror(what);
  exit(1);
}
static void tell(int fd, const void* data, size_t size) {
  if (write(fd, data, size) != (ssize_t)size) die("write");
}
static void hear(int fd, void* data, size_t size) {
  if (read(fd, data, size) != (ssize_t)size) die("read");
}

static void open_side(struct side* s, enum ibv_qp_type type, int fd) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) die("no device");
  struct ibv_context* context = ibv_open_device(list[0]);
  struct ibv_pd* pd = context == NULL ? NULL : ibv_alloc_pd(context);
  if (pd == NULL) die("ibv_alloc_pd");
  s->memory = calloc(kDepth, s->size);
  s->mr = ibv_reg_mr(pd, s->memory, kDepth * s->size, IBV_ACCESS_LOCAL_WRITE);
  s->cq = ibv_create_cq(context, 4 * kDepth, NULL, NULL, 0);
  struct ibv_qp_init_attr init = {.send_cq = s->cq,
                                  .recv_cq = s->cq,
                                  .cap = {kDepth, kDepth, 1, 1, 0},
                                  .qp_type = type,
                                  .sq_sig_all = 1};
  s->qp = ibv_create_qp(pd, &init);
  if (s->mr == NULL || s->qp == NULL) die("ibv_create_qp");
  struct ibv_port_attr port;
  if (ibv_query_port(context, 1, &port) != 0) die("ibv_query_port");
  struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  int flags = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (ibv_modify_qp(s->qp, &a, flags) != 0) die("INIT");
  const struct address own = {port.lid, s->qp->qp_num, (uint32_t)random() & 0xffffff};
  struct address peer;
  tell(fd, &own, sizeof own);
  hear(fd, &peer, sizeof peer);
  memset(&a, 0, sizeof a);
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer.qpn;
  a.rq_psn = peer.psn;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.dlid = (uint16_t)peer.lid;
  a.ah_attr.port_num = 1;
  flags = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (type == IBV_QPT_RC) flags |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(s->qp, &a, flags) != 0) die("RTR");
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  a.sq_psn = own.psn;
  a.max_rd_atomic = 1;
  flags = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (type == IBV_QPT_RC) {
    flags |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  if (ibv_modify_qp(s->qp, &a, flags) != 0) die("RTS");
}

static void post_receive(struct side* s, unsigned place) {
  struct ibv_sge sge = {(uintptr_t)(s->memory + place * s->size), (uint32_t)s->size, s->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = place, .sg_list = &sge, .num_sge = 1}, *bad;
  if (ibv_post_recv(s->qp, &wr, &bad) != 0) die("ibv_post_recv");
}

/* Takes in what comes until the sender says that a batch has left, and nothing more comes. */
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
    post_receive(s, (unsigned)wc.wr_id);
  }
  tell(fd, &word, 1);
}

static void receive(struct side* s, int fd, unsigned count) {
  char* arrived = calloc(count, 1);
  for (unsigned i = 0; i < kDepth; ++i) post_receive(s, i);
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
  const enum ibv_qp_type type = strcmp(argv[1], "uc") == 0 ? IBV_QPT_UC : IBV_QPT_RC;
  const unsigned count = (unsigned)strtoul(argv[2], NULL, 0);
  struct side side = {.size = strtoul(argv[3], NULL, 0)};
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) die("socketpair");
  const int is_sender = fork() == 0;
  srandom((unsigned)(time(NULL) ^ getpid() << 8));
  const int fd = ends[is_sender];
  close(ends[!is_sender]);
  open_side(&side, type, fd);
  if (is_sender) {
    send_all(&side, fd, count);
  } else {
    receive(&side, fd, count);
  }
  return 0;
}
