// SPDX-License-Identifier: BSD-2-Clause
// The history of events: numbered, bounded, and read in pages.
#include "journal.hpp"

#include <gtest/gtest.h>

namespace verbena::daemon {
namespace {

std::string object(std::uint64_t i) { return "{\"n\":" + std::to_string(i) + "}"; }
std::string line(std::uint64_t i) {
  return "{\"seq\":" + std::to_string(i) + ",\"n\":" + std::to_string(i) + "}\n";
}

TEST(Journal, NumbersFromOneOn) {
  Journal journal;
  std::uint64_t after = 0;
  EXPECT_EQ(journal.newest(), 0u);
  EXPECT_EQ(journal.read(after, 100), "");
  for (std::uint64_t i = 1; i <= 3; ++i) journal.add(object(i));
  EXPECT_EQ(journal.newest(), 3u);
  EXPECT_EQ(journal.read(after, 1000), line(1) + line(2) + line(3));
  EXPECT_EQ(after, 3u);
  EXPECT_EQ(journal.read(after, 1000), "");
  after = 2;
  EXPECT_EQ(journal.read(after, 1000), line(3));
}

TEST(Journal, ReadInPages) {
  Journal journal;
  for (std::uint64_t i = 1; i <= 100; ++i) journal.add(object(i));
  std::uint64_t after = 0;
  std::string all;
  std::string wanted;
  for (std::uint64_t i = 1; i <= 100; ++i) wanted += line(i);
  for (std::string page; !(page = journal.read(after, 50)).empty(); all += page) {
    EXPECT_LE(page.size(), 50u);
  }
  EXPECT_EQ(all, wanted);
  // A line that is longer than a page is a page of its own.
  after = 7;
  EXPECT_EQ(journal.read(after, 1), line(8));
}

TEST(Journal, WhatIsKeptNoMoreIsTold) {
  Journal journal;
  for (std::uint64_t i = 1; i <= Journal::kKept + 10; ++i) journal.add(object(i));
  std::uint64_t after = 4;
  const std::string page = journal.read(after, 400);
  EXPECT_EQ(page.find("{\"seq\":10,"), 0u);
  EXPECT_NE(page.find("\"kind\":\"lost\""), std::string::npos);
  EXPECT_NE(page.find("\"count\":6}\n" + line(11)), std::string::npos) << page;
  after = 10;
  EXPECT_EQ(journal.read(after, 1), line(11));
}

// The longest event: 64 rules of 400 characters.
TEST(Journal, AFaultOfManyRulesIsAPageOfItsOwn) {
  Journal journal;
  journal.add(object(1));
  const std::string rules = "{\"rules\":\"" + std::string(64 * 403, 'x') + "\"}";
  journal.add(rules);
  EXPECT_EQ(journal.newest(), 2u);
  std::uint64_t after = 0;
  EXPECT_EQ(journal.read(after, 1000), line(1));
  EXPECT_EQ(journal.read(after, 1000), "{\"seq\":2," + rules.substr(1) + "\n");
  // An event that fits into no message is counted as lost.
  journal.add("{\"rules\":\"" + std::string(64 * 1024, 'x') + "\"}");
  EXPECT_NE(journal.read(after, 1000).find("\"kind\":\"lost\""), std::string::npos);
}

}  // namespace
}  // namespace verbena::daemon
