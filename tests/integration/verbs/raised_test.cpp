// SPDX-License-Identifier: BSD-2-Clause
// Events that `verbena event` raises, and requests that it refuses.
#include <cstdio>
#include <fstream>
#include <string>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

class Raised : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    device_ = ibv_get_device_name(context_->device);
  }
  void raise(const std::string& words) { command("event " + device_ + " " + words); }
  // Returns what a command prints that fails.
  std::string refusal(const std::string& words) {
    const std::string line =
        std::string(std::getenv("VERBENA_COMMAND")) + " event " + words + " 2>&1";
    std::FILE* output = ::popen(line.c_str(), "r");
    std::string text;
    char part[256];
    while (std::fgets(part, sizeof part, output) != nullptr) text += part;
    EXPECT_NE(::pclose(output), 0) << line;
    return text;
  }
  static std::string hex(std::uint32_t number) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%06x", number);
    return text;
  }
  ibv_qp_state state(ibv_qp* qp) {
    ibv_qp_attr a{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
    return a.qp_state;
  }

  std::string device_;
};

TEST_F(Raised, AClientIsAskedToRegisterAgain) {
  raise("client-reregister");
  expect_event(IBV_EVENT_CLIENT_REREGISTER, nullptr);
  expect_no_event();
}

TEST_F(Raised, AFatalQueuePairIsInItsErrorState) {
  connect();
  receive(right_, 5);
  raise("qp-fatal --qp " + hex(right_->qp_num));
  expect_event(IBV_EVENT_QP_FATAL, right_);
  EXPECT_EQ(state(right_), IBV_QPS_ERR);
  EXPECT_EQ(state(left_), IBV_QPS_RTS);
  const ibv_wc wc = poll();
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Raised, AMigrationThatFailsLeavesTheQueuePairAsItWas) {
  connect();
  raise("path-mig-err --qp " + hex(left_->qp_num));
  expect_event(IBV_EVENT_PATH_MIG_ERR, left_);
  receive(right_);
  post(left_, request());
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
}

TEST_F(Raised, ASharedReceiveQueueIsNamedByItsHandle) {
  make_srq(0);
  raise("srq-err --srq " + hex(srq_->handle));
  expect_event(IBV_EVENT_SRQ_ERR, srq_);
  expect_no_event();
}

// Rules of scripted faults name a queue by its number among those of the program.
TEST_F(Raised, ARuleRaisesTheEventOfAQueue) {
  make_srq(0);
  connect();
  std::ifstream comm("/proc/self/comm");
  std::string name;
  std::getline(comm, name);
  command("fault --inject 'raise=srq-err srq=" + name + ":1'");
  expect_event(IBV_EVENT_SRQ_ERR, srq_);
  command("fault --inject 'raise=path-mig-err qp=" + hex(left_->qp_num) + "'");
  expect_event(IBV_EVENT_PATH_MIG_ERR, left_);
  command("fault --clear");
  expect_no_event();
}

TEST_F(Raised, AWorkQueueStandsForThoseThatTheDeviceDoesNotMake) {
  raise("wq-fatal");
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_WQ_FATAL);
  ASSERT_NE(event.element.wq, nullptr);
  EXPECT_EQ(event.element.wq->context, context_);
  ibv_ack_async_event(&event);
  EXPECT_EQ(event.element.wq->events_completed, 1u);
}

TEST_F(Raised, StatusShowsWhatCanBeNamed) {
  make_srq(0);
  make({IBV_QPT_RC, srq_});
  const std::string status = std::string(std::getenv("VERBENA_COMMAND")) + " status";
  for (const std::string& line :
       {status + " | grep -q 'SRQ " + hex(srq_->handle) + " BASIC, 4 receives posted'",
        status + " | grep -q 'no peer, CQ 1, SRQ " + hex(srq_->handle) + "$'",
        status + R"( --json | tr -d ' \n' | grep -q '"srq":")" + hex(srq_->handle) +
            R"(","send_psn"')",
        status + R"( --json | tr -d ' \n' | grep -q '"srqs":\[{"srq":")" + hex(srq_->handle) +
            R"(","type":"BASIC","receive_outstanding":4}\]')"}) {
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
  }
}

TEST_F(Raised, WhatCannotBeIsSaid) {
  ibv_qp* datagrams = make({IBV_QPT_UD, nullptr, 0});
  const std::string qp = hex(datagrams->qp_num);
  const std::pair<std::string, const char*> refused[] = {
      {"nobody client-reregister", "no device \"nobody\""},
      {device_ + " qp-fatal --qp 0x3ffffe", "has no queue pair 0x3ffffe; `verbena status`"},
      {device_ + " qp-fatal --qp " + hex(datagrams->qp_num + 1000), "has no queue pair 0x"},
      {device_ + " qp-fatal", "name it with --qp"},
      {device_ + " qp-fatal --qp many", "the number of a queue pair"},
      {device_ + " path-mig-err --qp " + qp, "no path that could migrate"},
      {device_ + " srq-err --qp " + qp, "no event of a queue pair"},
      {device_ + " srq-err", "name it with --srq"},
      {device_ + " srq-err --srq 0xbfffffff", "has no shared receive queue 0xbfffffff"},
      {device_ + " srq-err --srq none", "the number of a shared receive queue"},
      {device_ + " client-reregister --srq 0x1", "no event of a shared receive queue"},
      {device_ + " flood", "flood"},
  };
  for (const auto& [words, reason] : refused) {
    const std::string text = refusal(words);
    EXPECT_EQ(text.rfind("verbena: ", 0), 0u) << text;
    EXPECT_NE(text.find(reason), std::string::npos) << words << ": " << text;
  }
  expect_no_event();
}

}  // namespace
}  // namespace verbs_test
