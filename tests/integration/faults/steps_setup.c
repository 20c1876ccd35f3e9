// SPDX-License-Identifier: BSD-2-Clause
/* Opens and connects a queue pair, and closes everything. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

enum { kPsn = 77, kTimeout = 10, kRetries = 3 }; /* 4 ms, so a dead peer shows soon */

static void refused(const char* verb, int code) { end("refused %s %d", verb, code); }

void open_device(struct side* side) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) refused("ibv_get_device_list", ENODEV);
  side->context = ibv_open_device(list[0]);
  if (side->context == NULL) refused("ibv_open_device", errno);
  ibv_free_device_list(list);
}

void register_memory(struct side* side) {
  side->pd = ibv_alloc_pd(side->context);
  if (side->pd == NULL) refused("ibv_alloc_pd", errno);
  side->memory = calloc(2, kMessage);
  side->mr = ibv_reg_mr(side->pd, side->memory, 2 * kMessage, IBV_ACCESS_LOCAL_WRITE);
  if (side->mr == NULL) refused("ibv_reg_mr", errno);
}

void make_queues(struct side* side) {
  if (side->asked.events) {
    side->channel = ibv_create_comp_channel(side->context);
    if (side->channel == NULL) refused("ibv_create_comp_channel", errno);
  }
  if (side->asked.extended) {
    struct ibv_cq_init_attr_ex attr = {.cqe = 4 * kDepth, .channel = side->channel};
    side->extended = ibv_create_cq_ex(side->context, &attr);
    side->cq = side->extended == NULL ? NULL : ibv_cq_ex_to_cq(side->extended);
  } else {
    side->cq = ibv_create_cq(side->context, 4 * kDepth, NULL, side->channel, 0);
  }
  if (side->cq == NULL) refused("ibv_create_cq", errno);
  struct ibv_qp_init_attr init;
  memset(&init, 0, sizeof init);
  init.send_cq = init.recv_cq = side->cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = init.cap.max_recv_wr = kDepth;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.sq_sig_all = 1;
  side->qp = ibv_create_qp(side->pd, &init);
  if (side->qp == NULL) refused("ibv_create_qp", errno);
  struct ibv_qp_attr a;
  memset(&a, 0, sizeof a);
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int code = ibv_modify_qp(
      side->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (code != 0) refused("ibv_modify_qp", code);
}

void connect_queue_pair(struct side* side) {
  struct ibv_port_attr port;
  memset(&port, 0, sizeof port);
  if (ibv_query_port(side->context, 1, &port) != 0) refused("ibv_query_port", errno);
  printf("address %u %u\n", port.lid, side->qp->qp_num);
  fflush(stdout);
  unsigned lid = 0;
  unsigned qpn = 0;
  char line[64];
  if (fgets(line, sizeof line, stdin) == NULL || sscanf(line, "%u %u", &lid, &qpn) != 2) {
    end("refused address %d", EPIPE);
  }
  struct ibv_qp_attr a;
  memset(&a, 0, sizeof a);
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = qpn;
  a.rq_psn = kPsn;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.dlid = (uint16_t)lid;
  a.ah_attr.port_num = 1;
  int code = ibv_modify_qp(side->qp, &a,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (code != 0) refused("ibv_modify_qp", code);
  step(side, "ready_to_receive");
  memset(&a, 0, sizeof a);
  a.qp_state = IBV_QPS_RTS;
  a.timeout = kTimeout;
  a.retry_cnt = kRetries;
  a.rnr_retry = 7;
  a.sq_psn = kPsn;
  a.max_rd_atomic = 1;
  code = ibv_modify_qp(side->qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (code != 0) refused("ibv_modify_qp", code);
}

void destroy_queues(struct side* side) {
  int code = ibv_destroy_qp(side->qp);
  if (code != 0) refused("ibv_destroy_qp", code);
  code = ibv_destroy_cq(side->cq);
  if (code != 0) refused("ibv_destroy_cq", code);
  if (side->channel != NULL && (code = ibv_destroy_comp_channel(side->channel)) != 0) {
    refused("ibv_destroy_comp_channel", code);
  }
}

void close_device(struct side* side) {
  int code = ibv_dereg_mr(side->mr);
  if (code != 0) refused("ibv_dereg_mr", code);
  code = ibv_dealloc_pd(side->pd);
  if (code != 0) refused("ibv_dealloc_pd", code);
  code = ibv_close_device(side->context);
  if (code != 0) refused("ibv_close_device", code);
  free(side->memory);
}
