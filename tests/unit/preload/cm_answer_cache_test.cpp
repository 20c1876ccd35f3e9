// SPDX-License-Identifier: BSD-2-Clause
// Kept answers: a question gets one only with the same ID, channel and version. Many threads may
// ask at once, and each answer is whole.
#include "verbena/preload/cm_answer_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace verbena::preload {
namespace {

constexpr control::CmQuestion kAddress{19, 0};
constexpr control::CmQuestion kToInit{11, 1};

class CmAnswerCacheTest : public ::testing::Test {
 protected:
  using About = CmAnswerCache::About;

  // Returns two answers that consist of this byte.
  static std::vector<std::uint8_t> answers(std::uint8_t byte, std::size_t size = 100) {
    std::vector<std::uint8_t> bytes;
    control::append_answer(bytes, kAddress, std::vector<std::uint8_t>(size, byte));
    control::append_answer(bytes, kToInit, std::vector<std::uint8_t>(3, byte));
    return bytes;
  }
  // Returns the answer's first byte and its size; {0, 0}: not known.
  std::pair<unsigned, std::size_t> find(const About& about, std::uint32_t version,
                                        const control::CmQuestion& question = kAddress,
                                        std::size_t room = 512) {
    CmAnswer answer;
    if (!cache.find(about, version, question, room, answer)) return {0, 0};
    return {answer.bytes[0], answer.size};
  }
  void TearDown() override {
    // Empties the cache, so that the next test finds nothing of this one.
    for (std::uint32_t id = 0; id < control::kCmVersions; ++id) {
      cache.keep({0, id}, 0, {});
      cache.forget({0, id});
    }
  }

  static inline constinit CmAnswerCache cache;
  const std::pair<unsigned, std::size_t> kUnknown{0, 0};
};

TEST_F(CmAnswerCacheTest, GivesWhatWasKept) {
  EXPECT_EQ(find({5, 1}, 7), kUnknown);
  cache.keep({5, 1}, 7, answers(9));
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(find({5, 1}, 7), std::pair(9u, std::size_t{100}));
    EXPECT_EQ(find({5, 1}, 7, kToInit), std::pair(9u, std::size_t{3}));
  }
  EXPECT_EQ(find({5, 1}, 7, {11, 2}), kUnknown);
}

TEST_F(CmAnswerCacheTest, AnotherVersionIsNotTrueAndNeverAgain) {
  cache.keep({5, 1}, 7, answers(9));
  EXPECT_EQ(find({5, 1}, 8), kUnknown);
  EXPECT_EQ(find({5, 1}, 7), kUnknown);
  cache.keep({5, 1}, 8, answers(4));
  EXPECT_EQ(find({5, 1}, 8).first, 4u);
}

// IDs and channels that share a place do not get each other's answers.
TEST_F(CmAnswerCacheTest, AnotherIdOrChannelInTheSamePlaceIsUnknown) {
  constexpr std::uint32_t kPlaces = control::kCmVersions;
  cache.keep({5, 1}, 7, answers(9));
  EXPECT_EQ(find({5, 1 + kPlaces}, 7), kUnknown);
  EXPECT_EQ(find({5 + kPlaces, 1}, 7), kUnknown);
  EXPECT_EQ(find({4, 2}, 7), kUnknown);
  cache.forget({5, 1 + kPlaces});
  EXPECT_EQ(find({5, 1}, 7).first, 9u);
  cache.keep({5, 1 + kPlaces}, 7, answers(3));
  EXPECT_EQ(find({5, 1 + kPlaces}, 7).first, 3u);
  EXPECT_EQ(find({5, 1}, 7), kUnknown);
}

TEST_F(CmAnswerCacheTest, WhatIsForgottenIsUnknown) {
  cache.keep({5, 1}, 7, answers(9));
  cache.keep({5, 2}, 7, answers(3));
  cache.forget({5, 1});
  cache.forget({5, 1});
  EXPECT_EQ(find({5, 1}, 7), kUnknown);
  EXPECT_EQ(find({5, 2}, 7).first, 3u);
}

// A program may resolve the routes of all its connections before it connects them.
TEST_F(CmAnswerCacheTest, KnowsThousandsAtATime) {
  constexpr std::uint32_t kIds = 10'000;
  for (std::uint32_t id = 1; id <= kIds; ++id) {
    cache.keep({5, id}, id, answers(static_cast<std::uint8_t>(id)));
  }
  for (std::uint32_t id = 1; id <= kIds; ++id) {
    ASSERT_EQ(find({5, id}, id).first, static_cast<std::uint8_t>(id));
    cache.forget({5, id});
  }
}

TEST_F(CmAnswerCacheTest, ALittleRoomIsTheEmulatorsToRefuse) {
  cache.keep({5, 1}, 7, answers(9));
  EXPECT_EQ(find({5, 1}, 7, kAddress, 99), kUnknown);
  EXPECT_EQ(find({5, 1}, 7, kAddress, 100).first, 9u);
  cache.keep({5, 2}, 7, answers(9, 513));
  EXPECT_EQ(find({5, 2}, 7, kAddress, 1000), kUnknown);
}

TEST_F(CmAnswerCacheTest, ManyThreadsGetWholeAnswersOfTheirVersion) {
  std::atomic<std::uint32_t> version{1};
  std::atomic<bool> done{false};
  std::atomic<int> found{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 3; ++i) {
    askers.emplace_back([&] {
      while (!done) {
        const std::uint32_t now = version;
        CmAnswer answer;
        if (!cache.find({5, 1}, now, kAddress, 512, answer)) continue;
        ++found;
        for (std::size_t at = 0; at < answer.size; ++at) {
          if (answer.bytes[at] != static_cast<std::uint8_t>(now)) std::abort();
        }
      }
    });
  }
  for (std::uint32_t next = 1; next < 1000 || found < 10; ++next) {
    cache.keep({5, 1}, next, answers(static_cast<std::uint8_t>(next)));
    version = next;
    std::this_thread::yield();
  }
  done = true;
  for (std::thread& asker : askers) asker.join();
}

}  // namespace
}  // namespace verbena::preload
