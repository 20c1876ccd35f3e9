// SPDX-License-Identifier: BSD-2-Clause
// Tests which queue pairs ask for a ring: the first one to a peer, and ever fewer of those that
// follow, until the ring exists or the peer has gone; and what is known of the answer.
#include "verbena/context/asked_peers.hpp"

#include <gtest/gtest.h>

namespace verbena::provider {
namespace {

constexpr std::uint32_t kSlot = 3;
const link::Peer kPeer{IpAddress::v4(0x7f010001), kSlot};

TEST(AskedPeersTest, EverFewerAsk) {
  AskedPeers asked;
  int asks = 0;
  for (int qp = 0; qp < 1000; ++qp) asks += asked.must_ask(kPeer, 1) ? 1 : 0;
  EXPECT_EQ(asks, 10);
}

TEST(AskedPeersTest, EachPeerIsAskedForItself) {
  AskedPeers asked;
  EXPECT_TRUE(asked.must_ask(kPeer, 1));
  EXPECT_TRUE(asked.must_ask(kPeer, 1));
  EXPECT_FALSE(asked.must_ask(kPeer, 1));
  EXPECT_TRUE(asked.must_ask({kPeer.address, kSlot + 1}, 1));
  EXPECT_TRUE(asked.must_ask({IpAddress::v4(0x7f010002), kSlot}, 1));
}

TEST(AskedPeersTest, WaitsUntilTheRequestIsAnswered) {
  AskedPeers asked;
  EXPECT_FALSE(asked.is_waiting(kPeer, 1));
  asked.must_ask(kPeer, 1);
  EXPECT_TRUE(asked.is_waiting(kPeer, 1));
  asked.note_refusal({kPeer.address, kSlot + 32});  // shares the peer's place
  EXPECT_TRUE(asked.is_waiting(kPeer, 1));
  asked.note_refusal(kPeer);
  EXPECT_FALSE(asked.is_waiting(kPeer, 1));
  asked.must_ask(kPeer, 2);  // the second asks again
  EXPECT_TRUE(asked.is_waiting(kPeer, 2));
  asked.forget(kPeer);
  EXPECT_FALSE(asked.is_waiting(kPeer, 2));
}

TEST(AskedPeersTest, WaitsForAPeerThatDoesNotAnswerOnce) {
  AskedPeers asked;
  asked.must_ask(kPeer, 1);
  EXPECT_TRUE(asked.is_waiting(kPeer, times::kRingAwaited));
  EXPECT_FALSE(asked.is_waiting(kPeer, 1 + times::kRingAwaited));
  for (int qp = 0; qp < 3; ++qp) asked.must_ask(kPeer, times::kRingAwaited);
  EXPECT_FALSE(asked.is_waiting(kPeer, 1 + times::kRingAwaited));
}

TEST(AskedPeersTest, WhoIsGoneIsAskedAnew) {
  AskedPeers asked;
  for (int qp = 0; qp < 3; ++qp) asked.must_ask(kPeer, 1);
  asked.forget({kPeer.address, kSlot + 32});  // shares the peer's place
  EXPECT_TRUE(asked.must_ask(kPeer, 1));      // the fourth
  EXPECT_FALSE(asked.must_ask(kPeer, 1));
  asked.forget(kPeer);
  EXPECT_TRUE(asked.must_ask(kPeer, 1));
}

}  // namespace
}  // namespace verbena::provider
