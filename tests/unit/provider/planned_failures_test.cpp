// Which calls of which verbs fail, and how each kind of verb says so.
#include "planned_failures.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace verbena::provider {
namespace {

// Verbs that work.
abi::Ops working() {
  abi::Ops ops;
  ops.alloc_pd = [](ibv_context*) noexcept { return reinterpret_cast<ibv_pd*>(8); };
  ops.dealloc_pd = [](ibv_pd*) noexcept { return 0; };
  ops.destroy_qp = [](ibv_qp*) noexcept { return 0; };
  ops.destroy_cq = [](ibv_cq*) noexcept { return 0; };
  ops.poll_cq = [](ibv_cq*, int, ibv_wc*) noexcept { return 1; };
  ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) noexcept { return 0; };
  ops.query_qp_data_in_order = [](ibv_qp*, ibv_wr_opcode, std::uint32_t) noexcept { return 1; };
  ops.cq_event = [](ibv_cq*) noexcept {};
  return ops;
}

abi::Ops with(const char* list) {
  abi::Ops ops = working();
  plan_failures(ops, list);
  return ops;
}

std::string complaint(const char* list) {
  try {
    with(list);
  } catch (const std::invalid_argument& wrong) {
    return wrong.what();
  }
  return "";
}

// Each test has a verb of its own: calls are counted for the whole process.
TEST(PlannedFailures, OneCallFailsAndNoOther) {
  const abi::Ops ops = with("ibv_dealloc_pd=EBUSY@2");
  std::vector<int> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(ops.dealloc_pd(nullptr));
  EXPECT_EQ(answers, (std::vector<int>{0, EBUSY, 0, 0}));
}

TEST(PlannedFailures, FromACallOn) {
  const abi::Ops ops = with("ibv_destroy_qp=EIO@2+");
  std::vector<int> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(ops.destroy_qp(nullptr));
  EXPECT_EQ(answers, (std::vector<int>{0, EIO, EIO, EIO}));
}

TEST(PlannedFailures, APointerIsNullAndErrnoSaysWhy) {
  const abi::Ops ops = with("ibv_alloc_pd=ENOMEM");
  errno = 0;
  EXPECT_EQ(ops.alloc_pd(nullptr), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(PlannedFailures, WhatPostsNamesTheRequest) {
  const abi::Ops ops = with("ibv_post_send=ENOMEM");
  ibv_send_wr request{};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ops.post_send(nullptr, &request, &bad), ENOMEM);
  EXPECT_EQ(bad, &request);
}

TEST(PlannedFailures, WhatCountsIsNegative) {
  const abi::Ops ops = with("ibv_poll_cq=EIO");
  ibv_wc completion;
  EXPECT_LT(ops.poll_cq(nullptr, 1, &completion), 0);
}

TEST(PlannedFailures, OthersAreTouchedInNoWay) {
  const abi::Ops before = working();
  const abi::Ops ops = with(",ibv_destroy_cq=EBUSY,");
  EXPECT_EQ(ops.post_send, before.post_send);
  EXPECT_EQ(ops.poll_cq, before.poll_cq);
  EXPECT_NE(ops.destroy_cq, before.destroy_cq);
}

TEST(PlannedFailures, SaysWhatIsWrongWithTheList) {
  for (const char* const list :
       {"ibv_alloc_pd", "ibv_alloc_pd=", "ibv_alloc_pd=EWHAT", "ibv_alloc_pd=ENOMEM@",
        "ibv_alloc_pd=ENOMEM@0", "ibv_alloc_pd=ENOMEM@x", "ibv_alloc_pd=ENOMEM@2-",
        "ibv_alloc_pd=ENOMEM@99999999999999999999", "ibv_alloc_pdd=ENOMEM", "alloc_pd=ENOMEM",
        "=ENOMEM", "ibv_alloc_pd=ENOMEM,nonsense"}) {
    EXPECT_NE(complaint(list), "") << list;
  }
  EXPECT_NE(complaint("ibv_cq_event=ENOMEM"), "") << "nothing that it returns can say so";
  EXPECT_NE(complaint("ibv_query_qp_data_in_order=ENOMEM"), "");
  EXPECT_NE(complaint("ibv_create_flow=ENOMEM"), "") << "it is not offered";
  EXPECT_EQ(complaint(""), "");
  EXPECT_NE(complaint("ibv_alloc_pd=EWHAT").find("ENOMEM"), std::string::npos) << "names them";
}

}  // namespace
}  // namespace verbena::provider
