// SPDX-License-Identifier: BSD-2-Clause
// Tests which calls of which verbs fail, and how each kind of verb reports it.
#include "verbena/report/planned_failures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "verbena/base/failing_calls.hpp"
#include "verbena/control/planned_failures.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

// Verbs that succeed.
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

// Each test uses a verb of its own, because calls are counted for the whole process.
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

TEST(PlannedFailures, OpeningIsAFunctionToo) {
  EXPECT_EQ(planned_failure_of_opening(), 0);
  with("ibv_open_device=EMFILE@2");
  EXPECT_EQ(planned_failure_of_opening(), 0);
  EXPECT_EQ(planned_failure_of_opening(), EMFILE);
  EXPECT_EQ(planned_failure_of_opening(), 0);
}

// `verbena run --fail` takes the names of exactly those of the driver's verbs that can fail.
TEST(PlannedFailures, TheNamesAreThoseOfTheDriversVerbs) {
  abi::Ops ops;
  offer_device_verbs(ops);
  offer_memory_verbs(ops);
  offer_device_memory_verbs(ops);
  offer_import_verbs(ops);
  offer_window_verbs(ops);
  offer_completion_verbs(ops);
  offer_extended_completion_verbs(ops);
  offer_shared_receive_verbs(ops);
  offer_tag_matching_verbs(ops);
  offer_queue_pair_verbs(ops);
  offer_state_verbs(ops);
  offer_post_verbs(ops);
  offer_address_verbs(ops);
  offer_xrc_verbs(ops);
  for (const std::string_view function : functions_that_can_fail()) {
    EXPECT_NO_THROW(plan_failures(ops, (std::string(function) + "=EIO@1000000").c_str()))
        << function;
  }
  const auto named = functions_that_can_fail();
#define VERBENA_CHECK_NAMED(name, result, arguments, since, until)                                \
  if constexpr (std::is_pointer_v<result> || std::is_same_v<result, int>) {                       \
    EXPECT_EQ(std::ranges::count(named, std::string_view("ibv_" #name)),                          \
              ops.name != nullptr && std::string_view(#name) != "query_qp_data_in_order" ? 1 : 0) \
        << #name;                                                                                 \
  }
  VERBENA_VERBS_OPS(VERBENA_CHECK_NAMED)
#undef VERBENA_CHECK_NAMED
}

TEST(PlannedFailures, SaysWhatIsWrongWithTheList) {
  for (const char* const list :
       {"ibv_alloc_pd", "ibv_alloc_pd=", "ibv_alloc_pd=EWHAT", "ibv_alloc_pd=ENOMEM@",
        "ibv_alloc_pd=ENOMEM@0", "ibv_alloc_pd=ENOMEM@x", "ibv_alloc_pd=ENOMEM@2-",
        "ibv_alloc_pd=ENOMEM@99999999999999999999", "ibv_alloc_pdd=ENOMEM", "alloc_pd=ENOMEM",
        "=ENOMEM", "ibv_alloc_pd=ENOMEM,nonsense"}) {
    EXPECT_NE(complaint(list), "") << list;
  }
  EXPECT_EQ(complaint("rdma_connect=ETIMEDOUT@2"), "") << "the preload library's";
  EXPECT_NE(complaint("rdma_getaddrinfo=ENOMEM"), "") << "it asks nobody whom we are";
  EXPECT_NE(complaint("ibv_cq_event=ENOMEM"), "") << "nothing that it returns can say so";
  EXPECT_NE(complaint("ibv_query_qp_data_in_order=ENOMEM"), "");
  EXPECT_NE(complaint("ibv_create_flow=ENOMEM"), "") << "it is not offered";
  EXPECT_EQ(complaint(""), "");
  EXPECT_NE(complaint("ibv_alloc_pd=EWHAT").find("ENOMEM"), std::string::npos) << "names them";
}

}  // namespace
}  // namespace verbena::provider
