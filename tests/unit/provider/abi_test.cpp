// SPDX-License-Identifier: BSD-2-Clause
// The list of operations, compared with what is known of each generation of libibverbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "verbena/abi/ops.hpp"

namespace verbena::abi {
namespace {

using testing::Contains;
using testing::Not;
using testing::StrEq;

class EveryGeneration : public testing::TestWithParam<int> {
 protected:
  Generation generation() const { return static_cast<Generation>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Abi, EveryGeneration, testing::Range(0, static_cast<int>(kGenerations)),
                         [](const auto& parameter) {
                           const auto g = static_cast<Generation>(parameter.param);
                           return std::string(layout(g).releases).substr(0, 3);
                         });

TEST_P(EveryGeneration, HasTheSlotsThatItsHeaderCounts) {
  EXPECT_EQ(slot_names(generation()).size(), layout(generation()).slots);
  EXPECT_EQ(pack(Ops{}, generation()).size(), layout(generation()).slots);
}

TEST_P(EveryGeneration, IsInAlphabeticalOrder) {
  const auto names = slot_names(generation());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end(),
                             [](const char* a, const char* b) { return std::strcmp(a, b) < 0; }));
}

TEST_P(EveryGeneration, IsRecognisedByItsTwoNumbers) {
  const Layout& l = layout(generation());
  EXPECT_EQ(l.generation, generation());
  EXPECT_EQ(recognise(l.pabi, l.minor), generation());
}

TEST_P(EveryGeneration, PutsAnOperationInItsPlaceAndLeavesTheOthersEmpty) {
  Ops ops;
  ops.poll_cq = [](ibv_cq*, int, ibv_wc*) noexcept { return 7; };
  const auto slots = pack(ops, generation());
  const auto names = slot_names(generation());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (std::strcmp(names[i], "poll_cq") == 0) {
      EXPECT_EQ(slots[i], reinterpret_cast<AnyFunction>(ops.poll_cq));
    } else {
      EXPECT_EQ(slots[i], nullptr) << names[i];
    }
  }
}

TEST(Abi, UnknownPairsAreNotRecognised) {
  EXPECT_EQ(recognise(34, 11), std::nullopt);
  EXPECT_EQ(recognise(66, 19), std::nullopt);
  EXPECT_EQ(recognise(0, 0), std::nullopt);
}

// Operations that were added or removed, one by one.
TEST(Abi, OperationsComeAndGoWithTheirReleases) {
  EXPECT_THAT(slot_names(k32), Contains(StrEq("query_device")));
  EXPECT_THAT(slot_names(k33), Not(Contains(StrEq("query_device"))));
  EXPECT_THAT(slot_names(k33), Not(Contains(StrEq("reg_dmabuf_mr"))));
  EXPECT_THAT(slot_names(k34), Contains(StrEq("reg_dmabuf_mr")));
  EXPECT_THAT(slot_names(k30), Not(Contains(StrEq("import_pd"))));
  EXPECT_THAT(slot_names(k31), Contains(StrEq("import_pd")));
  EXPECT_THAT(slot_names(k35), Not(Contains(StrEq("query_qp_data_in_order"))));
  EXPECT_THAT(slot_names(k36), Contains(StrEq("query_qp_data_in_order")));
  EXPECT_THAT(slot_names(k59), Contains(StrEq("reg_mr_ex")));
  EXPECT_THAT(slot_names(k62), Contains(StrEq("query_port_speed")));
  EXPECT_THAT(slot_names(k64), Contains(StrEq("alloc_buf")));
  EXPECT_THAT(slot_names(k65), Contains(StrEq("create_comp_cntr")));
}

}  // namespace
}  // namespace verbena::abi
