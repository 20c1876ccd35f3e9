// SPDX-License-Identifier: BSD-2-Clause
// Helpers for step-by-step tests: a pair with a second connection beside it on the same two
// devices, which must not notice what happens to the first; and lists of expected statuses.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <optional>
#include <vector>

#include "pair.hpp"

namespace verbena::sim {

using queue::AsyncEvent;
using queue::CompletionOpcode;
using queue::Status;
using queue::WorkOpcode;

inline std::vector<Status> statuses(const std::vector<queue::Completion>& list) {
  std::vector<Status> out;
  for (const auto& c : list) out.push_back(c.status);
  return out;
}
inline std::vector<std::uint64_t> ids(const std::vector<queue::Completion>& list) {
  std::vector<std::uint64_t> out;
  for (const auto& c : list) out.push_back(c.id);
  return out;
}

// The first `good` of requests 1..total succeed, the next ends with `status`, the rest is flushed.
inline void expect_sends(const Peer& peer, std::size_t good, Status status, std::size_t total) {
  std::vector<Status> expected(total, Status::kFlushed);
  std::vector<std::uint64_t> in_order(total);
  for (std::size_t i = 0; i < total; ++i) {
    if (i < good) expected[i] = Status::kSuccess;
    if (i == good) expected[i] = status;
    in_order[i] = i + 1;
  }
  EXPECT_EQ(ids(peer.sends), in_order);
  EXPECT_EQ(statuses(peer.sends), expected);
}

// Registers an arena's bytes again, and returns the new key.
inline std::uint32_t register_again(Peer& peer, const Arena& arena, std::uint32_t access) {
  memory::RegionRequest region;
  region.domain = Peer::kDomain;
  region.host_address = region.base = arena.address();
  region.length = Peer::kMemory;
  region.access = access;
  return *peer.node().device().memory().register_region(region);
}
// Registers an arena's bytes again so that only the memory port reaches them.
inline std::uint32_t paged_key(Peer& peer, const Arena& arena, std::uint32_t access) {
  return register_again(peer, arena, access | memory::kOnDemand);
}

class Scene {
 public:
  explicit Scene(const PeerOptions& left_options = {}) : Scene(left_options, left_options) {}
  Scene(const PeerOptions& left_options, const PeerOptions& right_options, std::uint64_t seed = 1)
      : pair(left_options, right_options, seed),
        left(pair.left),
        right(pair.right),
        near_(pair.world, pair.a, {}),
        far_(pair.world, pair.b, {}) {
    near_.bring_up(far_);
    far_.bring_up(near_);
  }

  // The connection beside the pair still works, and no byte outside of a region has changed.
  void expect_unharmed() {
    ASSERT_TRUE(far_.receive(round_ + 1));
    near_.post(near_.send(2 * round_ + 1, 700));
    near_.post(near_.fetch_add(2 * round_ + 2, 1, far_));
    ASSERT_TRUE(pair.run_until([&] {
      near_.reap();
      far_.reap();
      return near_.sends.size() == 2 * (round_ + 1) && far_.receives.size() == round_ + 1;
    }));
    ++round_;
    EXPECT_THAT(statuses(near_.sends), testing::Each(Status::kSuccess));
    EXPECT_THAT(statuses(far_.receives), testing::Each(Status::kSuccess));
    EXPECT_EQ(near_.state(), qp::State::kRts);
    EXPECT_EQ(far_.state(), qp::State::kRts);
    for (const Peer* peer : {&left, &right, &near_, &far_}) {
      for (const Arena* arena : {&peer->source, &peer->result, &peer->inbox, &peer->target}) {
        ASSERT_NO_THROW(arena->expect_guards());
      }
    }
  }
  void forget_far() { far_.forget(); }
  // Whether a packet belongs to the connection beside the pair.
  bool is_beside(std::span<const std::uint8_t> bytes) const {
    const Qpn to((std::uint32_t{bytes[5]} << 16) | (std::uint32_t{bytes[6]} << 8) | bytes[7]);
    return to == near_.qp().number() || to == far_.qp().number();
  }

  // Runs until all `n` requests of the left have completed.
  void run_until_sent(std::size_t n) {
    ASSERT_TRUE(pair.run_until([&] { return left.sends.size() >= n; }, 20'000'000'000));
    pair.run(100'000'000);
    ASSERT_EQ(left.sends.size(), n);
  }

  Pair pair;
  Peer& left;
  Peer& right;

 private:
  Peer near_, far_;
  std::size_t round_ = 0;
};

}  // namespace verbena::sim
