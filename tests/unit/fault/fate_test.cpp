// SPDX-License-Identifier: BSD-2-Clause
// A packet's fate follows from the seed and the packet's name, and from nothing else.
#include "verbena/fault/fate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace verbena::fault {
namespace {

constexpr Settings kAll{.drop_ppm = 200'000,
                        .corrupt_ppm = 200'000,
                        .duplicate_ppm = 200'000,
                        .reorder_ppm = 200'000,
                        .delay_ns = 1000,
                        .jitter_ns = 9000,
                        .seed = 42};

PacketName packet(std::uint64_t number) {
  return {.sender = 5, .direction = Direction::kRequest, .says = 0, .number = number};
}

std::set<std::uint64_t> lost(const Settings& settings, PacketName name, std::uint32_t losses = 0) {
  std::set<std::uint64_t> all;
  for (name.number = 0; name.number < 2000; ++name.number) {
    if (decide(settings, name, losses).is_lost) all.insert(name.number);
  }
  return all;
}

TEST(Fate, IsTheSameWheneverItIsAsked) {
  for (std::uint64_t n = 1000; n-- > 0;) {
    EXPECT_EQ(decide(kAll, packet(n), 0), decide(kAll, packet(n), 0)) << n;
  }
}

// A failure that was written down can be repeated by a later version.
TEST(Fate, StaysWhatItWas) {
  const std::set<std::uint64_t> all = lost({.drop_ppm = 5000, .seed = 1}, packet(0));
  EXPECT_EQ(all, (std::set<std::uint64_t>{55, 261, 495, 507, 509, 803, 848, 1115, 1676, 1678, 1705,
                                          1719, 1791, 1877}));
}

TEST(Fate, StrikesAsOftenAsItSays) {
  int corrupted = 0, doubled = 0, reordered = 0, dropped = 0;
  constexpr int kPackets = 20'000;
  for (std::uint64_t n = 0; n < kPackets; ++n) {
    const Fate fate = decide(kAll, packet(n), 0);
    dropped += fate.is_lost ? 1 : 0;
    corrupted += fate.damaged_bit ? 1 : 0;
    doubled += fate.is_doubled ? 1 : 0;
    reordered += fate.is_reordered ? 1 : 0;
    EXPECT_GE(fate.delay_ns, 1000u);
    EXPECT_LE(fate.delay_ns, 10'000u);
  }
  EXPECT_NEAR(dropped, 4000, 400);
  EXPECT_NEAR(corrupted, 3200, 400);  // counts only packets that are not lost
  EXPECT_NEAR(doubled, 4000, 400);
  EXPECT_NEAR(reordered, 4000, 400);
}

TEST(Fate, NoneAndAllAreExact) {
  EXPECT_TRUE(lost({.seed = 9}, packet(0)).empty());
  EXPECT_EQ(lost({.drop_ppm = 1'000'000, .seed = 9}, packet(0)).size(), 2000u);
}

TEST(Fate, EachPartOfTheNameCounts) {
  constexpr Settings kSettings{.drop_ppm = 100'000, .seed = 7};
  const PacketName name = packet(0);
  const auto base = lost(kSettings, name);
  EXPECT_NEAR(static_cast<double>(base.size()), 200.0, 60.0);
  PacketName sender = name, direction = name, says = name;
  sender.sender = 6;
  direction.direction = Direction::kResponse;
  says.says = 1;
  Settings seed = kSettings;
  seed.seed = 8;
  for (const auto& other : {lost(kSettings, sender), lost(kSettings, direction),
                            lost(kSettings, says), lost(seed, name), lost(kSettings, name, 1)}) {
    EXPECT_NE(other, base);
  }
}

TEST(Fate, AFaultThatIsAddedLeavesTheOthers) {
  Settings more{.drop_ppm = 100'000, .seed = 7};
  const auto base = lost(more, packet(0));
  more.corrupt_ppm = more.duplicate_ppm = 300'000;
  more.jitter_ns = 1;
  EXPECT_EQ(lost(more, packet(0)), base);
  const auto fewer = lost({.drop_ppm = 50'000, .seed = 7}, packet(0));
  EXPECT_TRUE(std::includes(base.begin(), base.end(), fewer.begin(), fewer.end()))
      << "who is lost at 5% is lost at 10%";
}

}  // namespace
}  // namespace verbena::fault
