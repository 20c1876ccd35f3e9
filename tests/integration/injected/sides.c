// SPDX-License-Identifier: BSD-2-Clause
#include "sides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void die(const char* what) {
  perror(what);
  exit(1);
}
void tell(int fd, const void* data, size_t size) {
  if (write(fd, data, size) != (ssize_t)size) die("write");
}
void hear(int fd, void* data, size_t size) {
  if (read(fd, data, size) != (ssize_t)size) die("read");
}

void open_side(struct side* s, int fd) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) die("no device");
  if (s->context == NULL) s->context = ibv_open_device(list[0]);
  struct ibv_pd* pd = s->context == NULL ? NULL : ibv_alloc_pd(s->context);
  if (pd == NULL) die("ibv_alloc_pd");
  s->memory = calloc(kDepth, s->size);
  s->mr = ibv_reg_mr(pd, s->memory, kDepth * s->size, IBV_ACCESS_LOCAL_WRITE | s->access);
  const unsigned receives = s->receives != 0 ? s->receives : kDepth;
  s->cq = ibv_create_cq(s->context, (int)(4 * kDepth + receives), NULL, NULL, 0);
  struct ibv_qp_init_attr init = {.send_cq = s->cq,
                                  .recv_cq = s->cq,
                                  .cap = {kDepth, receives, 1, 1, 0},
                                  .qp_type = s->type,
                                  .sq_sig_all = 1};
  s->qp = ibv_create_qp(pd, &init);
  if (s->mr == NULL || s->qp == NULL) die("ibv_create_qp");
  struct ibv_port_attr port;
  if (ibv_query_port(s->context, 1, &port) != 0) die("ibv_query_port");
  struct ibv_qp_attr a = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)s->access};
  int flags = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (ibv_modify_qp(s->qp, &a, flags) != 0) die("INIT");
  const struct address own = {port.lid, s->qp->qp_num, (uint32_t)random() & 0xffffff, s->mr->rkey,
                              (uintptr_t)s->memory};
  tell(fd, &own, sizeof own);
  hear(fd, &s->peer, sizeof s->peer);
  memset(&a, 0, sizeof a);
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = s->peer.qpn;
  a.rq_psn = s->peer.psn;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.dlid = (uint16_t)s->peer.lid;
  a.ah_attr.port_num = 1;
  flags = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (s->type == IBV_QPT_RC) flags |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(s->qp, &a, flags) != 0) die("RTR");
  a.qp_state = IBV_QPS_RTS;
  a.timeout = s->timeout;
  a.retry_cnt = s->retries;
  a.rnr_retry = s->rnr_retries;
  a.sq_psn = own.psn;
  a.max_rd_atomic = 1;
  flags = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (s->type == IBV_QPT_RC) {
    flags |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  if (ibv_modify_qp(s->qp, &a, flags) != 0) die("RTS");
}

int post_receive(struct side* s, unsigned place) {
  struct ibv_sge sge = {(uintptr_t)(s->memory + place * s->size), (uint32_t)s->size, s->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = place, .sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(s->qp, &wr, &bad);
}

int fork_sides(int* is_second) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) die("socketpair");
  *is_second = fork() == 0;
  srandom((unsigned)(time(NULL) ^ getpid() << 8));
  close(ends[!*is_second]);
  return ends[*is_second];
}
