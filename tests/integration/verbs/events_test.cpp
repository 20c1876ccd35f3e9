// SPDX-License-Identifier: BSD-2-Clause
// What a device reports and counts, through the real libibverbs: asynchronous events, moderation,
// rate limits.
#include <utility>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

class Events : public Verbs {};

TEST_F(Events, ThePacketThatComesBeforeRtsEstablishesCommunication) {
  left_ = make();
  right_ = make();
  to_rtr(left_, right_);
  to_rtr(right_, left_);
  to_rts(left_);
  receive(right_);
  post(left_, request());
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  expect_event(IBV_EVENT_COMM_EST, right_);
  to_rts(right_);
  receive(right_);
  post(left_, request());
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  expect_no_event();
}

TEST_F(Events, ASendQueueThatHasDrainedSaysSoWhenAsked) {
  connect();
  receive(right_);
  post(left_, request());
  ASSERT_EQ(to_state(left_, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  expect_event(IBV_EVENT_SQ_DRAINED, left_);
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(left_, &a, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(a.qp_state, IBV_QPS_SQD);
  EXPECT_EQ(a.sq_draining, 0);
  // A request that is posted in SQD waits, and raises no second event.
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  post(left_, request());
  receive(right_);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  expect_no_event();
  ASSERT_EQ(to_state(left_, IBV_QPS_RTS), 0);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
}

TEST_F(Events, AQueuePairInErrorTellsWhenItHasTakenItsLastSharedReceive) {
  connect({IBV_QPT_RC, make_srq(0), 1});
  ASSERT_EQ(to_state(right_, IBV_QPS_ERR), 0);
  expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, right_);
}

TEST_F(Events, ASharedQueueTellsThatItsLimitIsReached) {
  connect({IBV_QPT_RC, make_srq(4), 1});
  post(left_, request());
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq_);
  ibv_srq_attr a{};
  ASSERT_EQ(ibv_query_srq(srq_, &a), 0);
  EXPECT_EQ(a.srq_limit, 0u);  // the event has disarmed the limit
}

TEST_F(Events, AConnectionMovesToItsOtherPathAtTheProgramsWish) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0u);
  connect();
  ibv_qp_attr a{};
  a.alt_ah_attr = to_self(false);
  a.alt_port_num = 1;
  a.alt_timeout = 14;
  a.path_mig_state = IBV_MIG_REARM;
  for (ibv_qp* qp : {left_, right_}) {
    ASSERT_EQ(ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
  }
  // Each side is armed once it knows that the other wants to be.
  for (const auto& [from, to] : {std::pair(left_, right_), std::pair(right_, left_)}) {
    receive(to);
    post(from, request());
    EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  }
  ibv_qp_init_attr init{};
  for (ibv_qp* qp : {left_, right_}) {
    ASSERT_EQ(ibv_query_qp(qp, &a, IBV_QP_PATH_MIG_STATE, &init), 0);
    EXPECT_EQ(a.path_mig_state, IBV_MIG_ARMED);
  }
  expect_no_event();
  a.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(ibv_modify_qp(left_, &a, IBV_QP_PATH_MIG_STATE), 0);
  expect_event(IBV_EVENT_PATH_MIG, left_);
  receive(right_);
  post(left_, request());
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  expect_event(IBV_EVENT_PATH_MIG, right_);
}

TEST_F(Events, AConnectionWithoutAnotherPathStaysWhereItIs) {
  connect();
  ibv_qp_attr a{};
  a.path_mig_state = IBV_MIG_REARM;
  for (ibv_qp* qp : {left_, right_}) ASSERT_EQ(ibv_modify_qp(qp, &a, IBV_QP_PATH_MIG_STATE), 0);
  const auto exchange = [&] {
    for (const auto& [from, to] : {std::pair(left_, right_), std::pair(right_, left_)}) {
      receive(to);
      post(from, request());
      EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
      EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
    }
  };
  exchange();
  a.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(ibv_modify_qp(left_, &a, IBV_QP_PATH_MIG_STATE), 0);
  expect_no_event();
  exchange();
}

TEST_F(Events, AWriteWithoutAKeyIsAnAccessErrorAtTheResponder) {
  connect();
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE);
  wr.wr.rdma.rkey ^= 0xff00;
  post(left_, wr);
  EXPECT_EQ(poll().status, IBV_WC_REM_ACCESS_ERR);
  expect_event(IBV_EVENT_QP_ACCESS_ERR, right_);
}

TEST_F(Events, AReadThatNobodyMayAskForIsARequestErrorAtTheResponder) {
  connect({IBV_QPT_RC, nullptr, 0});
  post(left_, request(IBV_WR_RDMA_READ));
  EXPECT_EQ(poll().status, IBV_WC_REM_INV_REQ_ERR);
  expect_event(IBV_EVENT_QP_REQ_ERR, right_);
}

TEST_F(Events, WhatTheQueuePairForbidsIsARequestErrorAtTheResponder) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
    connect();
    ibv_qp_attr a{};
    a.qp_access_flags =
        opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
    ASSERT_EQ(ibv_modify_qp(right_, &a, IBV_QP_ACCESS_FLAGS), 0);
    post(left_, request(opcode));
    EXPECT_EQ(poll().status, IBV_WC_REM_INV_REQ_ERR);
    expect_event(IBV_EVENT_QP_REQ_ERR, right_);
    expect_no_event();
  }
}

TEST_F(Events, ACompletionQueueThatOverflowsIsFatalToItsQueuePair) {
  connect();
  ibv_cq* small = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
  ASSERT_NE(small, nullptr);
  std::swap(cq_, small);
  ibv_qp* sender = make();
  std::swap(cq_, small);
  ibv_qp* receiver = make();
  to_rtr(sender, receiver);
  to_rtr(receiver, sender);
  to_rts(sender);
  to_rts(receiver);
  for (int i = 0; i <= small->cqe; ++i) {
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE);
    ibv_sge sge = at(0, 8);
    ibv_send_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    while (ibv_post_send(sender, &wr, &bad) == ENOMEM) {
    }
  }
  expect_event(IBV_EVENT_CQ_ERR, small);
  expect_event(IBV_EVENT_QP_FATAL, sender);
  qps_.erase(qps_.end() - 2);
  EXPECT_EQ(ibv_destroy_qp(sender), 0);
  EXPECT_EQ(ibv_destroy_cq(small), 0);
}

TEST_F(Events, APortThatGoesDownAndUpSaysSoAndTrafficGoesOn) {
  connect();
  const std::string device = ibv_get_device_name(context_->device);
  command("port " + device + " down");
  expect_event(IBV_EVENT_PORT_ERR, nullptr);
  EXPECT_EQ(port().state, IBV_PORT_DOWN);
  receive(right_);
  post(left_, request());
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  command("port " + device + " up");
  expect_event(IBV_EVENT_PORT_ACTIVE, nullptr);
  EXPECT_EQ(port().state, IBV_PORT_ACTIVE);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
}

TEST_F(Events, ChangesOfAddressesAreTold) {
  const std::string device = ibv_get_device_name(context_->device);
  constexpr std::pair<const char*, ibv_event_type> kAll[] = {
      {"lid-change", IBV_EVENT_LID_CHANGE},
      {"gid-change", IBV_EVENT_GID_CHANGE},
      {"pkey-change", IBV_EVENT_PKEY_CHANGE},
      {"sm-change", IBV_EVENT_SM_CHANGE},
  };
  for (const auto& [word, type] : kAll) {
    command("port " + device + " " + word);
    expect_event(type, nullptr);
  }
  expect_no_event();
}

class Moderation : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    channel_ = ibv_create_comp_channel(context_);
    ibv_cq* plain = cq_;
    cq_ = ibv_create_cq(context_, 100, nullptr, channel_, 0);
    ASSERT_EQ(ibv_destroy_cq(plain), 0);
    connect();
  }
  void moderate(std::uint16_t count, std::uint16_t period) {
    ibv_modify_cq_attr a{};
    a.attr_mask = IBV_CQ_ATTR_MODERATE;
    a.moderate = {count, period};
    ASSERT_EQ(ibv_modify_cq(cq_, &a), 0);
  }
  // Waits for an event, because a completion may be visible before its event.
  bool has_event(int patience_ms = kPatienceMs) {
    pollfd p{channel_->fd, POLLIN, 0};
    return ::poll(&p, 1, patience_ms) == 1;
  }
  void write_once() {
    post(left_, request(IBV_WR_RDMA_WRITE));
    EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  }
  void take_event() {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &user), 0);
    ibv_ack_cq_events(cq, 1);
  }
};

TEST_F(Moderation, TellsOncePerSoManyCompletions) {
  moderate(3, 0);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  write_once();
  write_once();
  EXPECT_FALSE(has_event(0));
  write_once();
  EXPECT_TRUE(has_event());
  take_event();
}

// With a period, an event may be late by the period. This device does not delay it at all.
TEST_F(Moderation, WithAPeriodDelaysNothing) {
  moderate(3, 1000);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  write_once();
  EXPECT_TRUE(has_event());
  take_event();
}

TEST_F(Moderation, IsLoweredForWhoWaitsAlready) {
  moderate(10, 0);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  for (int i = 0; i < 3; ++i) write_once();
  EXPECT_FALSE(has_event(0));
  moderate(4, 0);
  EXPECT_FALSE(has_event(0));
  moderate(3, 0);
  EXPECT_TRUE(has_event());
  take_event();
}

TEST_F(Moderation, EndsWithZero) {
  moderate(3, 0);
  moderate(0, 0);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  write_once();
  EXPECT_TRUE(has_event());
  take_event();
}

TEST_F(Verbs, RateLimitsAreTakenInRts) {
  connect();
  ibv_qp_rate_limit_attr a{};
  a.rate_limit = 1000;
  a.max_burst_sz = 4096;
  a.typical_pkt_sz = 1024;
  EXPECT_EQ(ibv_modify_qp_rate_limit(left_, &a), 0);
  post(left_, request(IBV_WR_RDMA_WRITE));
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbs_test
