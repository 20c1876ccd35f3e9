// SPDX-License-Identifier: BSD-2-Clause
// Where the kernel keeps a bundle's bytes: as it was measured.
#include "verbena/link/pieces.hpp"

#include <gtest/gtest.h>

namespace verbena::link {
namespace {

TEST(Pieces, AreOneUpToTenKiBWherePagesAreNotFaster) {
  EXPECT_EQ(in_one_piece_most(2'000, 2'200), kInOnePieceMost);
  EXPECT_EQ(in_one_piece_most(2'000, 2'000), kInOnePieceMost);
  EXPECT_EQ(in_one_piece_most(2'000, 1'990), kInOnePieceMost) << "by too little";
}

TEST(Pieces, AreOneOnlyOfFewBytesWherePagesAreFaster) {
  EXPECT_EQ(in_one_piece_most(2'000, 1'900), kInOnePieceLeast);
  EXPECT_EQ(in_one_piece_most(20'000, 1), kInOnePieceLeast);
}

TEST(Pieces, AreOneWhereOneOfTheTwoCouldNotBeMeasured) {
  EXPECT_EQ(in_one_piece_most(2'000, 0), kInOnePieceMost);
  EXPECT_EQ(in_one_piece_most(0, 2'000), kInOnePieceMost);
  EXPECT_EQ(in_one_piece_most(0, 0), kInOnePieceMost);
}

TEST(Pieces, AreMeasured) {
  const std::size_t most = in_one_piece_most();
  EXPECT_TRUE(most == kInOnePieceLeast || most == kInOnePieceMost) << most;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(in_one_piece_most(), most);
}

}  // namespace
}  // namespace verbena::link
