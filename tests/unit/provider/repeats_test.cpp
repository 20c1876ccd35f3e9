// SPDX-License-Identifier: BSD-2-Clause
// What is printed of explanations that repeat.
#include "verbena/report/repeats.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace verbena::provider {
namespace {

std::vector<std::uint64_t> said_of(Repeats& repeats, const std::string& line, int times) {
  std::vector<std::uint64_t> counts;
  for (int i = 0; i < times; ++i) {
    const Repeats::Verdict verdict = repeats.note(line);
    if (verdict.says) counts.push_back(verdict.count);
  }
  return counts;
}

std::vector<std::pair<std::string, std::uint64_t>> left_out(Repeats& repeats, bool mixed = false) {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  repeats.for_each_left_out([&](std::string_view line, std::uint64_t count, bool is_mixed) {
    EXPECT_EQ(is_mixed, mixed) << line;
    all.emplace_back(line, count);
  });
  return all;
}

TEST(Repeats, SaysTheSameAtPowersOfTen) {
  Repeats repeats;
  EXPECT_EQ(said_of(repeats, "no Q_Key 0x12", 20'000),
            (std::vector<std::uint64_t>{1, 10, 100, 1000, 10'000}));
  EXPECT_EQ(left_out(repeats).size(), 1u);
  EXPECT_TRUE(left_out(repeats).empty()) << "told once";
}

TEST(Repeats, TellsInTheEndHowManyWereLeftOut) {
  Repeats repeats;
  said_of(repeats, "length 64 is wrong", 7);
  said_of(repeats, "another", 1);
  const auto rest = left_out(repeats);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].first, "length 64 is wrong");
  EXPECT_EQ(rest[0].second, 6u);
}

TEST(Repeats, LinesThatDifferInNumbersAreOfOneKind) {
  Repeats repeats;
  std::size_t said = 0;
  for (unsigned i = 0; i < 60; ++i) {
    said += repeats
                .note("cap.max_inline_data = " + std::to_string(i * 1000) + " at 0x" +
                      std::string(1, static_cast<char>('a' + i % 6)) + "f is more than 1024")
                .says;
  }
  EXPECT_EQ(said, Repeats::kDifferentOnes + 1) << "the first ones and the tenth";
}

TEST(Repeats, OtherWordsAreAnotherKind) {
  Repeats repeats;
  EXPECT_EQ(said_of(repeats, "ibv_reg_mr: length is 0", 2).size(), 1u);
  EXPECT_EQ(said_of(repeats, "ibv_alloc_dm: length is 0", 2).size(), 1u);
}

TEST(Repeats, ForgetsAll) {
  Repeats repeats;
  said_of(repeats, "ibv_reg_mr: length is 0", 25);
  repeats.forget();
  EXPECT_TRUE(left_out(repeats).empty());
  EXPECT_EQ(said_of(repeats, "ibv_reg_mr: length is 0", 10), (std::vector<std::uint64_t>{1, 10}));
}

TEST(Repeats, ManyKinds) {
  Repeats repeats;
  const auto line = [](std::size_t i) {
    std::string words;
    for (; i != 0; i /= 26) words += static_cast<char>('a' + i % 26);
    return "reason " + words;
  };
  for (std::size_t i = 0; i < Repeats::kKinds; ++i) EXPECT_TRUE(repeats.note(line(i)).says) << i;
  std::size_t said = 0;
  for (std::size_t i = 0; i < 5000; ++i) said += repeats.note(line(1000 + i)).says;
  EXPECT_LT(said, 10u);
  EXPECT_TRUE(repeats.note(line(500)).is_mixed);
  EXPECT_EQ(left_out(repeats, true).size(), 1u);
  EXPECT_FALSE(repeats.note(line(0)).is_mixed) << "those that came first are told as before";
}

}  // namespace
}  // namespace verbena::provider
