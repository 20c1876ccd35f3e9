// SPDX-License-Identifier: BSD-2-Clause
// The generator of numbers that must not be guessed.
#include "verbena/base/unpredictable.hpp"

#include <gtest/gtest.h>

#include <set>

namespace verbena {
namespace {

// RFC 8439, appendix A.1, test vector 1: key, counter and nonce are zero.
TEST(UnpredictableTest, ItsFirstBlockIsThatOfChaCha20) {
  UnpredictableRandom random(UnpredictableRandom::Key{});
  EXPECT_EQ(random.next32(), 0xade0b876u);
  EXPECT_EQ(random.next32(), 0x903df1a0u);
  EXPECT_EQ(random.next(), 0x28bd8653'e56a5d40u);
  for (int i = 4; i < 15; ++i) random.next32();
  EXPECT_EQ(random.next32(), 0x8665eeb2u);
}

// Appendix A.1, test vector 2: key and nonce are zero, the counter is 1.
TEST(UnpredictableTest, ItGoesOnWithTheNextBlock) {
  UnpredictableRandom random(UnpredictableRandom::Key{});
  for (int i = 0; i < 16; ++i) random.next32();
  EXPECT_EQ(random.next32(), 0xbee7079fu);
}

TEST(UnpredictableTest, ASeedRepeatsARun) {
  UnpredictableRandom a(7);
  UnpredictableRandom b(7);
  UnpredictableRandom c(8);
  const std::uint64_t first = a.next();
  EXPECT_EQ(b.next(), first);
  EXPECT_NE(c.next(), first);
}

TEST(UnpredictableTest, StaysBelowItsBoundAndReachesAll) {
  UnpredictableRandom random(1);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(10));
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(*seen.rbegin(), 9u);
}

}  // namespace
}  // namespace verbena
