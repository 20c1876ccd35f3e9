// SPDX-License-Identifier: BSD-2-Clause
// The two tables for the five bits of the AETH syndrome, compared with the specification's numbers.
#include "verbena/wire/aeth.hpp"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

// IBTA Vol 1, table "End-to-end flow control credit encoding".
constexpr std::uint32_t kCredits[31] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

// IBTA Vol 1, table "Encoding for RNR NAK timer field", in units of 10 us.
constexpr TimeNs kTimers[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                16,    24,   32,   48,    64,    96,    128,   192,
                                256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

TEST(Aeth, CreditsDecodeAsInTheTable) {
  for (std::uint8_t code = 0; code < 31; ++code) EXPECT_EQ(decode_credits(code), kCredits[code]);
  EXPECT_EQ(decode_credits(kCreditsUnlimited), ~0u);
}

TEST(Aeth, CreditsNeverPromiseMoreThanThereIs) {
  for (std::uint32_t credits = 0; credits < 70'000; ++credits) {
    const std::uint8_t code = encode_credits(credits);
    ASSERT_LT(code, kCreditsUnlimited);
    ASSERT_LE(decode_credits(code), credits);
    if (code < 30) {
      ASSERT_GT(decode_credits(static_cast<std::uint8_t>(code + 1)), credits);
    }
  }
  EXPECT_EQ(encode_credits(~0u), 30);
}

TEST(Aeth, RnrTimersAreThoseOfTheTable) {
  for (std::uint8_t timer = 0; timer < 32; ++timer) {
    EXPECT_EQ(rnr_timer_ns(timer), kTimers[timer] * 10'000) << int{timer};
  }
}

TEST(Aeth, NakCodesHaveWords) {
  for (std::uint8_t code = 0; code < kNakCodes; ++code) {
    EXPECT_NE(to_string(static_cast<NakCode>(code)), "reserved NAK code");
  }
  EXPECT_EQ(to_string(static_cast<NakCode>(kNakCodes)), "reserved NAK code");
}

}  // namespace
}  // namespace verbena::wire
