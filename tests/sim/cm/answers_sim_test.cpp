// SPDX-License-Identifier: BSD-2-Clause
// The messages that answer and do not make a connection: REJ and MRA lost; LAP and its APR lost,
// repeated, late, and corrupted in every field. A live connection survives all of this.
#include <gtest/gtest.h>

#include "cm_scene.hpp"

namespace verbena::cm::sim {
namespace {

using enum RdmaEventType;

TEST(LostAnswerTest, ARejectionThatIsLostComesWithTheNextRequest) {
  for (int lost = 1; lost <= 14; ++lost) {
    Scene s(31);
    s.server.rejects = true;
    int left = lost;
    s.world.network = [&](const Flight& f) -> std::vector<Flight> {
      if (attribute_of(f) == Rej::kAttribute && left-- > 0) return {};
      return {f};
    };
    ASSERT_TRUE(s.finish()) << lost;
    EXPECT_EQ(s.client.seen[kRejected], 1) << lost;
    EXPECT_EQ(s.client.last_status, 28) << lost;
    // The attempt before left nothing behind.
    EXPECT_EQ(s.server.seen[kConnectRequest], lost + 1);
    s.expect_nothing_remains();
  }
}

TEST(LostAnswerTest, ARejectionThatNeverArrivesIsATimeout) {
  Scene s(32);
  s.server.rejects = true;
  s.world.network = [](const Flight& f) -> std::vector<Flight> {
    if (attribute_of(f) == Rej::kAttribute) return {};
    return {f};
  };
  ASSERT_TRUE(s.finish());
  EXPECT_EQ(s.client.seen[kUnreachable], 1);
  EXPECT_EQ(s.client.last_status, -ETIMEDOUT);
  s.expect_nothing_remains();
}

TEST(LostAnswerTest, WithoutAnyMraTheClientsOwnPatienceCounts) {
  Scene s(33);
  s.server.accepts = false;
  s.world.network = [](const Flight& f) -> std::vector<Flight> {
    if (attribute_of(f) == Mra::kAttribute) return {};
    return {f};
  };
  const TimeNs start = s.world.now;
  ASSERT_TRUE(s.finish());
  EXPECT_EQ(s.client.seen[kUnreachable], 1);
  EXPECT_LT(s.world.now - start, 20 * kSecond);
  s.expect_nothing_remains();
}

TEST(LostAnswerTest, ThreeLostMrasAreMadeUpForByTheNext) {
  Scene s(34);
  s.server.accepts = false;
  int left = 3;
  s.world.network = [&](const Flight& f) -> std::vector<Flight> {
    if (attribute_of(f) == Mra::kAttribute && left-- > 0) return {};
    return {f};
  };
  while (s.world.now < 60 * kSecond && s.step(60 * kSecond)) {
  }
  s.world.now = 60 * kSecond;
  ASSERT_EQ(s.server.held.size(), 1u);
  s.server.accept(s.world.now, *s.server.held.begin());
  ASSERT_TRUE(s.finish());
  EXPECT_TRUE(s.client.connected);
  s.expect_nothing_remains();
}

// The client has sent an MRA, which gives it up to 69 s to decide. It confirms now.
TEST(LostAnswerTest, AConfirmationThatIsLostAfterAnMraComesWithTheNextResponse) {
  Scene s(35);
  s.client.confirms = s.client.hangs_up = false;
  int mras = 0;
  int rtus_to_lose = 2;
  s.world.network = [&](const Flight& f) -> std::vector<Flight> {
    if (attribute_of(f) == Mra::kAttribute) ++mras;
    if (attribute_of(f) == Rtu::kAttribute && rtus_to_lose-- > 0) return {};
    return {f};
  };
  while (mras == 0) ASSERT_TRUE(s.step(s.world.now + 5 * kSecond));
  ASSERT_EQ(s.a.cm.accept(s.world.now, kChannel, s.client.id, 0, nullptr, Ece{}), 0);
  s.world.collect();
  const TimeNs confirmed = s.world.now;
  while (s.server.seen[kEstablished] == 0) ASSERT_TRUE(s.step(confirmed + 100 * kSecond));
  EXPECT_LT(s.world.now - confirmed, 4 * kSecond);
  s.expect_nothing_remains();
}

// --- LAP and APR --------------------------------------------------------------------------------

// A peer whose programs can ask for an alternate path (Verbena's programs cannot). It speaks for
// the client's host, and repeats its LAP until an APR arrives.
class AlternatePathTest : public testing::Test {
 protected:
  static constexpr int kTries = 16;
  static constexpr std::uint64_t kTransaction = 0x1234;

  AlternatePathTest() {
    s.client.hangs_up = false;
    s.world.network = [this](const Flight& f) -> std::vector<Flight> {
      const std::optional<Mad> mad = parse_mad(f.mad.bytes);
      if (const auto* rep = std::get_if<Rep>(&mad->message)) {
        lap.local_comm_id = rep->remote_comm_id;
        lap.remote_comm_id = rep->local_comm_id;
        lap.remote_qpn = rep->local_qpn;
      }
      if (const auto* apr = std::get_if<Apr>(&mad->message)) {
        EXPECT_EQ(mad->transaction_id, kTransaction);
        answers.push_back(*apr);
      }
      return {f};
    };
    while (s.server.seen[kEstablished] == 0) EXPECT_TRUE(s.step(s.world.now + kSecond));
    lap.local_lid = 7;
    lap.local_ack_timeout = 14;
    lap.private_data[0] = 0x5a;
  }

  MadBytes bytes() const { return write_mad({kTransaction, 0, lap}); }
  void arrive(const MadBytes& mad) {
    s.b.cm.handle_mad(s.world.now, 1, s.a.ports.default_port_address(), mad);
    s.world.collect();
  }
  bool is_established() const {
    const Connection* far = s.b.cm.agent().connection(lap.remote_comm_id);
    return far != nullptr && far->state() == ConnectionState::kEstablished;
  }
  // The connection is as good as before: both sides can still disconnect in order.
  void expect_a_live_connection() {
    EXPECT_TRUE(is_established());
    s.a.cm.disconnect(s.world.now, kChannel, s.client.id);
    while (s.server.seen[kDisconnected] == 0) ASSERT_TRUE(s.step(s.world.now + kSecond));
    ASSERT_TRUE(s.finish());
    EXPECT_EQ(s.client.seen[kDisconnected], 1);
    s.expect_nothing_remains();
  }

  Scene s{35};
  Lap lap;
  std::vector<Apr> answers;
};

TEST_F(AlternatePathTest, IsAnsweredUnsupportedAndTheConnectionGoesOn) {
  arrive(bytes());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, AlternatePathStatus::kUnsupported);
  EXPECT_EQ(answers[0].local_comm_id, lap.remote_comm_id);
  EXPECT_EQ(answers[0].remote_comm_id, lap.local_comm_id);
  EXPECT_EQ(answers[0].info_length, 0);
  expect_a_live_connection();
}

TEST_F(AlternatePathTest, EachDuplicateIsAnsweredLikeTheFirst) {
  for (int i = 0; i < 3; ++i) arrive(bytes());
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_EQ(answers[2], answers[0]);
  expect_a_live_connection();
}

TEST_F(AlternatePathTest, LossOfEitherIsMadeUpForByTheNextTry) {
  for (const std::uint16_t lost : {Lap::kAttribute, Apr::kAttribute}) {
    for (int losses = 1; losses < kTries; ++losses) {
      answers.clear();
      int tries = 0;
      for (; tries < kTries && answers.size() < (lost == Apr::kAttribute ? losses + 1u : 1u);
           ++tries) {
        if (lost != Lap::kAttribute || tries >= losses) arrive(bytes());
        s.world.now += kSecond;
      }
      EXPECT_EQ(tries, losses + 1);
    }
  }
  expect_a_live_connection();
}

TEST_F(AlternatePathTest, ForAnotherQueuePairOrConnectionIsToldSo) {
  Lap wrong = lap;
  wrong.remote_qpn ^= 1;
  arrive(write_mad({kTransaction, 0, wrong}));
  wrong = lap;
  wrong.local_comm_id ^= 1;
  arrive(write_mad({kTransaction, 0, wrong}));
  wrong = lap;
  wrong.remote_comm_id ^= 1;
  arrive(write_mad({kTransaction, 0, wrong}));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].status, AlternatePathStatus::kInvalidQpn);
  EXPECT_EQ(answers[1].status, AlternatePathStatus::kInvalidCommId);
  EXPECT_EQ(answers[1].remote_comm_id, lap.local_comm_id ^ 1);
  EXPECT_EQ(answers[2].status, AlternatePathStatus::kInvalidCommId);
  expect_a_live_connection();
}

TEST_F(AlternatePathTest, FromAStrangerIsDropped) {
  s.b.cm.handle_mad(s.world.now, 1, *IpAddress::parse("10.0.0.77"), bytes());
  s.world.collect();
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(s.b.cm.agent().drops(MadDrop::kNotFromPeer), 1u);
  expect_a_live_connection();
}

TEST_F(AlternatePathTest, EachFieldCorruptedIsAnsweredAndHarmsNothing) {
  for (const Field& f : fields_of<Lap>()) {
    for (const Turned turned : kEachTurn) {
      answers.clear();
      MadBytes mad = bytes();
      corrupt(mad, f, turned);
      arrive(mad);
      EXPECT_EQ(answers.size(), 1u) << f.name;
      EXPECT_TRUE(is_established()) << f.name;
      EXPECT_TRUE(s.world.is_consistent()) << f.name;
    }
  }
  expect_a_live_connection();
}

TEST_F(AlternatePathTest, LateItIsNotForAConnectionThatEnds) {
  s.b.cm.disconnect(s.world.now, kChannel, s.server.last_request.id);
  arrive(bytes());
  EXPECT_TRUE(answers.empty());
  while (s.step(s.world.now + 100 * kSecond)) {
  }
  arrive(bytes());
  ASSERT_EQ(answers.size(), 1u) << "nobody knows the connection any more";
  EXPECT_EQ(answers[0].status, AlternatePathStatus::kInvalidCommId);
  s.expect_nothing_remains();
}

// An APR without a LAP: in any state, for a known or unknown connection, corrupted in every field.
TEST_F(AlternatePathTest, AnAnswerThatNobodyAskedForChangesNothing) {
  Apr apr{.local_comm_id = lap.local_comm_id, .remote_comm_id = lap.remote_comm_id};
  for (const Field& f : fields_of<Apr>()) {
    for (const Turned turned : kEachTurn) {
      MadBytes mad = write_mad({kTransaction, 0, apr});
      arrive(mad);
      corrupt(mad, f, turned);
      arrive(mad);
      EXPECT_TRUE(is_established()) << f.name;
      EXPECT_TRUE(s.world.is_consistent()) << f.name;
    }
  }
  EXPECT_TRUE(answers.empty());
  expect_a_live_connection();
}

TEST(FailoverTest, ARequestThatNamesAnAlternatePathIsToldThatItIsNotLoaded) {
  for (const bool asks : {false, true}) {
    Scene s(36);
    std::optional<Rep> rep;
    s.world.network = [&](const Flight& f) -> std::vector<Flight> {
      std::optional<Mad> mad = parse_mad(f.mad.bytes);
      Flight copy = f;
      if (auto* req = std::get_if<Req>(&mad->message); req != nullptr && asks) {
        req->alternate.local_lid = 9;
        copy.mad.bytes = write_mad(*mad);
      }
      if (const auto* answer = std::get_if<Rep>(&mad->message)) rep = *answer;
      return {copy};
    };
    ASSERT_TRUE(s.finish());
    EXPECT_TRUE(s.client.connected);
    ASSERT_TRUE(rep.has_value());
    EXPECT_EQ(rep->failover_accepted, asks ? kFailoverUnsupported : 0);
    s.expect_nothing_remains();
  }
}

}  // namespace
}  // namespace verbena::cm::sim
