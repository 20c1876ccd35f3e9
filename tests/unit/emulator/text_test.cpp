// SPDX-License-Identifier: BSD-2-Clause
#include "text.hpp"

#include <gtest/gtest.h>

namespace verbena::cli {
namespace {

TEST(Text, Shares) {
  EXPECT_EQ(*parse_share("1%"), 10000u);
  EXPECT_EQ(*parse_share("0.5%"), 5000u);
  EXPECT_EQ(*parse_share("200ppm"), 200u);
  EXPECT_EQ(*parse_share("0.01"), 10000u);
  EXPECT_EQ(*parse_share("100%"), 1000000u);
  EXPECT_EQ(*parse_share("0%"), 0u);
  EXPECT_EQ(*parse_share("0.0001%"), 1u);
  for (const char* wrong :
       {"", "x", "-1%", "101%", "2", "1 %", "nan", "inf%", "1%%", "0.4ppm", "0.0000001%"}) {
    EXPECT_FALSE(parse_share(wrong).ok()) << wrong;
  }
}

TEST(Text, Durations) {
  EXPECT_EQ(*parse_duration_ns("100ns"), 100u);
  EXPECT_EQ(*parse_duration_ns("1.5ms"), 1500000u);
  EXPECT_EQ(*parse_duration_ns("2s"), 2000000000u);
  for (const char* wrong : {"", "5", "1h", "-1s", "100000s"}) {
    EXPECT_FALSE(parse_duration_ns(wrong).ok()) << wrong;
  }
}

TEST(Text, Rates) {
  EXPECT_EQ(*parse_rate("100MB"), 100000000u);
  EXPECT_EQ(*parse_rate("1Gbit"), 125000000u);
  EXPECT_EQ(*parse_rate("0"), 0u);
  EXPECT_FALSE(parse_rate("0MB").ok());
  EXPECT_FALSE(parse_rate("100").ok());
}

TEST(Text, SeedsAreWholeNumbers) {
  EXPECT_EQ(*parse_seed("0"), 0u);
  EXPECT_EQ(*parse_seed("18446744073709551615"), ~std::uint64_t{0});
  for (const char* wrong : {"", "-1", "1.5", "0x10", "18446744073709551616", "seven"}) {
    EXPECT_FALSE(parse_seed(wrong).ok()) << wrong;
  }
}

TEST(Text, QueuePairs) {
  EXPECT_EQ(*parse_qpn("0x004001"), 0x4001u);
  EXPECT_EQ(*parse_qpn("17"), 17u);
  for (const char* wrong : {"", "0", "0x", "0x1000000", "1x", "-1"}) {
    EXPECT_FALSE(parse_qpn(wrong).ok()) << wrong;
  }
}

TEST(Text, ForPeople) {
  EXPECT_EQ(share_text(10000), "1%");
  EXPECT_EQ(duration_text(1500000), "1.5ms");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1500), "1.5 kB");
  EXPECT_EQ(bytes_text(~0ull), "18.4 EB");
}

}  // namespace
}  // namespace verbena::cli
