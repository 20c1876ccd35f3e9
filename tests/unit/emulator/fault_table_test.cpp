// SPDX-License-Identifier: BSD-2-Clause
// What `verbena fault` changes, and what it leaves.
#include "verbena/fabric/fault_table.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace verbena::fabric {
namespace {

using control::ChangeFault;
using control::FaultSpec;

constexpr std::uint32_t kQp = 3u << 14 | 5;
constexpr std::uint64_t kFresh = 4711;

ChangeFault change(std::uint32_t named, control::FaultValues values, std::uint32_t qpn = 0) {
  ChangeFault c;
  c.named = named;
  c.values = values;
  c.qpn = qpn;
  return c;
}

ChangeFault clear(bool data, bool cm, std::uint32_t qpn = 0) {
  ChangeFault c;
  c.clear = true;
  c.data = data;
  c.cm = cm;
  c.qpn = qpn;
  return c;
}

class FaultTableTest : public ::testing::Test {
 protected:
  // Returns the seed, which must be the same of all that was changed.
  std::optional<std::uint64_t> set(const ChangeFault& c) {
    const auto seeds = table_.change(c, kFresh);
    EXPECT_TRUE(seeds.ok());
    EXPECT_LE(seeds->size(), 1u);
    return seeds->empty() ? std::nullopt : std::optional(*seeds->begin());
  }
  std::optional<FaultSpec> in_force(std::uint32_t qpn) {
    for (const FaultSpec& spec : table_.in_force()) {
      if (spec.qpn == qpn) return spec;
    }
    return std::nullopt;
  }

  FaultTable table_;
};

TEST_F(FaultTableTest, AChangeLeavesWhatItDoesNotName) {
  EXPECT_EQ(set(change(control::kFaultLoss, {.loss_ppm = 5})), kFresh);
  const std::uint64_t id = in_force(0)->id;
  EXPECT_EQ(*table_.change(change(control::kFaultDelay, {.delay_ns = 7}), 1), Seeds{kFresh})
      << "kept";
  ASSERT_NE(in_force(0), std::nullopt);
  EXPECT_EQ(in_force(0)->values, (control::FaultValues{.loss_ppm = 5, .delay_ns = 7}));
  EXPECT_EQ(in_force(0)->id, id) << "it counts on";
  EXPECT_TRUE(set(change(control::kFaultLoss, {})));
  EXPECT_EQ(in_force(0)->values, control::FaultValues{.delay_ns = 7});
  EXPECT_EQ(set(change(control::kFaultDelay, {})), std::nullopt);
  EXPECT_TRUE(table_.all().empty());
}

TEST_F(FaultTableTest, DataAndConnectionManagementAreTwo) {
  ChangeFault both = change(control::kFaultLoss, {.loss_ppm = 5});
  both.cm = true;
  set(both);
  EXPECT_EQ(table_.all().size(), 2u);
  EXPECT_NE(in_force(0)->place, in_force(FaultSpec::kCm)->place);
  EXPECT_EQ(in_force(FaultSpec::kCm)->seed, kFresh);
  set(clear(true, false));
  EXPECT_EQ(in_force(0), std::nullopt);
  EXPECT_NE(in_force(FaultSpec::kCm), std::nullopt);
  set(clear(true, true));
  EXPECT_TRUE(table_.all().empty());
}

TEST_F(FaultTableTest, AChangeTellsEachSeedThatIsInForce) {
  ChangeFault both = change(control::kFaultLoss | control::kFaultSeed, {.loss_ppm = 5});
  both.seed = 3;
  set(both);
  both.seed = 4;
  both.data = false;
  both.cm = true;
  set(both);
  both = change(control::kFaultDelay, {.delay_ns = 7});
  both.cm = true;
  EXPECT_EQ(*table_.change(both, kFresh), (Seeds{3, 4}));
}

TEST_F(FaultTableTest, AQueuePairHasWhatItDoesNotNameFromAll) {
  ChangeFault all = change(control::kFaultLoss | control::kFaultDelay | control::kFaultSeed,
                           {.loss_ppm = 5, .delay_ns = 7});
  all.seed = 12;
  EXPECT_EQ(set(all), 12u);
  EXPECT_EQ(set(change(control::kFaultLoss, {}, kQp)), 12u);
  EXPECT_EQ(in_force(kQp)->values, control::FaultValues{.delay_ns = 7}) << "spared from loss";
  set(change(control::kFaultDelay, {.delay_ns = 8}));
  EXPECT_EQ(in_force(kQp)->values, control::FaultValues{.delay_ns = 8});
  set(change(control::kFaultLoss, {}));
  EXPECT_EQ(in_force(kQp), std::nullopt) << "nothing is left from which it would be spared";
  set(change(control::kFaultCorrupt, {.corrupt_ppm = 1}, kQp));
  set(clear(true, true));
  EXPECT_TRUE(table_.all().empty()) << "clear takes those of single queue pairs away, too";
}

TEST_F(FaultTableTest, ClearOfAQueuePairLeavesTheOthers) {
  set(change(control::kFaultLoss, {.loss_ppm = 5}));
  set(change(control::kFaultLoss, {.loss_ppm = 9}, kQp));
  set(change(control::kFaultLoss, {.loss_ppm = 8}, kQp + 1));
  set(clear(true, false, kQp));
  EXPECT_EQ(in_force(kQp), std::nullopt);
  EXPECT_EQ(in_force(kQp + 1)->values.loss_ppm, 8u);
  EXPECT_EQ(in_force(0)->values.loss_ppm, 5u);
}

TEST_F(FaultTableTest, ASeedAloneIsForWhatIsSet) {
  ChangeFault seed = change(control::kFaultSeed, {});
  seed.seed = 0;
  const auto refused = table_.change(seed, kFresh);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ENOENT);
  set(change(control::kFaultLoss, {.loss_ppm = 5}));
  EXPECT_EQ(set(seed), 0u);
  EXPECT_EQ(in_force(0)->seed, 0u);
}

TEST_F(FaultTableTest, ASeedAloneIsForSingleQueuePairsAsWell) {
  set(change(control::kFaultLoss, {.loss_ppm = 5}, kQp));
  ChangeFault seed = change(control::kFaultSeed, {});
  seed.cm = true;
  seed.seed = 9;
  EXPECT_EQ(set(seed), 9u);
  EXPECT_EQ(in_force(kQp)->seed, 9u);
  set(change(control::kFaultLoss, {.loss_ppm = 5}));
  seed.seed = 10;
  EXPECT_EQ(set(seed), 10u);
  EXPECT_EQ(in_force(kQp)->seed, 10u);
  EXPECT_EQ(in_force(0)->seed, 10u);
  seed.data = false;
  EXPECT_FALSE(table_.change(seed, kFresh).ok()) << "--cm leaves the queue pairs of programs alone";
  table_.end_queue_pairs_of(3);
  seed.data = true;
  seed.seed = 11;
  EXPECT_EQ(set(seed), 11u);
  EXPECT_EQ(table_.all()[0].spec.seed, 10u) << "what has ended keeps the seed that it had";
}

TEST_F(FaultTableTest, HasNoMorePlacesThanAPage) {
  for (std::uint32_t i = 0; i < control::kFaultsMost; ++i) {
    set(change(control::kFaultLoss, {.loss_ppm = 5}, kQp + i));
  }
  const auto refused = table_.change(change(control::kFaultLoss, {.loss_ppm = 5}), kFresh);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ENOSPC);
  table_.end_queue_pairs_of(3);
  set(change(control::kFaultLoss, {.loss_ppm = 5}));
  EXPECT_EQ(table_.all().size(), 1u) << "who has ended makes room";
}

TEST_F(FaultTableTest, ARefusedChangeChangesNothing) {
  for (std::uint32_t i = 0; i + 1 < control::kFaultsMost; ++i) {
    set(change(control::kFaultLoss, {.loss_ppm = 5}, kQp + i));
  }
  ChangeFault both = change(control::kFaultLoss, {.loss_ppm = 6});
  both.cm = true;
  const auto refused = table_.change(both, kFresh);
  ASSERT_FALSE(refused.ok()) << "one place is left, for two faults";
  EXPECT_EQ(refused.error().code, ENOSPC);
  EXPECT_EQ(in_force(0), std::nullopt);
  EXPECT_EQ(table_.all().size(), control::kFaultsMost - 1);
}

TEST_F(FaultTableTest, WhatWasCountedStays) {
  auto page = std::make_unique<control::StatsPage>();
  set(change(control::kFaultLoss, {.loss_ppm = 5}, kQp));
  const FaultSpec spec = *in_force(kQp);
  page->faults[spec.place].counters.count(FaultCounter::kLost);
  FaultTotals totals{};
  add_counted(*page, spec, totals);
  EXPECT_EQ(totals, FaultTotals{}) << "of another fault, in the same place before";
  page->faults[spec.place].id.set(spec.id);
  table_.retire(*page);
  table_.end_queue_pairs_of(3);
  ASSERT_EQ(table_.all().size(), 1u);
  EXPECT_TRUE(table_.all()[0].ended);
  EXPECT_EQ(table_.all()[0].retired[static_cast<std::size_t>(FaultCounter::kLost)], 1u);
  EXPECT_TRUE(table_.in_force().empty());
  set(change(control::kFaultLoss, {.loss_ppm = 6}, kQp));
  EXPECT_EQ(table_.all().size(), 2u) << "a queue pair that got the number has a fault of its own";
}

}  // namespace
}  // namespace verbena::fabric
