// SPDX-License-Identifier: BSD-2-Clause
// Automatic path migration: loading and rearming a path, arming it when both ends want it, and
// migrating on request or after a failure.
#include "steps.hpp"

namespace verbena::sim {
namespace {

using qp::Migration;

constexpr std::uint32_t kLoad = qp::kMaskAlternatePath | qp::kMaskPathMigration;

// The second path leads to the same address with another service level.
void rearm(Peer& peer) {
  qp::Attributes a = peer.qp().attributes();
  a.alternate = a.path;
  a.alternate.service_level = 1;
  a.alternate.port = 1;
  a.alternate_timeout = 12;
  a.migration = Migration::kRearm;
  peer.modify(a, kLoad);
}

Migration migration(const Peer& peer) { return peer.qp().attributes().migration; }

// Arms both ends: each has learned that the other wants to migrate.
void arm(Scene& s) {
  rearm(s.left);
  rearm(s.right);
  s.left.post(s.left.write(1, 100, s.right));
  s.right.post(s.right.write(1, 100, s.left));
  ASSERT_TRUE(
      s.pair.run_until([&] { return s.left.sends.size() == 1 && s.right.sends.size() == 1; }));
  ASSERT_EQ(migration(s.left), Migration::kArmed);
  ASSERT_EQ(migration(s.right), Migration::kArmed);
}

TEST(Migration, StaysRearmedWhileThePeerDoesNotWantTo) {
  Scene s;
  rearm(s.left);
  s.left.post(s.left.write(1, 100, s.right));
  s.right.post(s.right.write(1, 100, s.left));
  ASSERT_TRUE(
      s.pair.run_until([&] { return s.left.sends.size() == 1 && s.right.sends.size() == 1; }));
  EXPECT_EQ(migration(s.left), Migration::kRearm);
  EXPECT_EQ(s.left.count(AsyncEvent::kPathMigrated), 0u);
}

TEST(Migration, MovesWhenTheRetriesAreUsedUpAndThePeerFollows) {
  PeerOptions options;
  options.retry_count = 1;
  Scene s(options);
  arm(s);
  s.pair.world.filter = [](const Node&, std::span<const std::uint8_t>) { return false; };
  s.left.post(s.left.write(2, 3000, s.right));
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.count(AsyncEvent::kPathMigrated) == 1; }));
  s.pair.world.filter = nullptr;
  s.run_until_sent(2);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  EXPECT_EQ(migration(s.left), Migration::kMigrated);
  EXPECT_EQ(migration(s.right), Migration::kMigrated);
  EXPECT_EQ(s.right.count(AsyncEvent::kPathMigrated), 1u);
  EXPECT_EQ(s.left.qp().attributes().path.service_level, 1);
  s.expect_unharmed();
}

// A queue pair that was reset has no second path any more.
TEST(Migration, IsForgottenByAReset) {
  PeerOptions options;
  options.retry_count = 1;
  Scene s(options);
  arm(s);
  s.left.to_state(qp::State::kReset);
  s.right.to_state(qp::State::kReset);
  s.left.sends.clear();
  s.left.bring_up(s.right);
  s.right.bring_up(s.left);
  s.pair.world.filter = [](const Node&, std::span<const std::uint8_t>) { return false; };
  s.left.post(s.left.write(2, 100, s.right));
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 1; }));
  EXPECT_EQ(s.left.sends.back().status, Status::kRetryExceeded);
  EXPECT_EQ(s.left.count(AsyncEvent::kPathMigrated), 0u);
}

TEST(Migration, EndsInErrorWhenTheSecondPathFailsToo) {
  PeerOptions options;
  options.retry_count = 1;
  Scene s(options);
  arm(s);
  s.pair.world.filter = [](const Node&, std::span<const std::uint8_t>) { return false; };
  s.left.post(s.left.write(2, 100, s.right));
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 2; }));
  EXPECT_EQ(s.left.sends.back().status, Status::kRetryExceeded);
  EXPECT_EQ(s.left.count(AsyncEvent::kPathMigrated), 1u);
}

TEST(Migration, MovesAtTheProgramsWishAndThePeerFollows) {
  Scene s;
  arm(s);
  qp::Attributes a = s.left.qp().attributes();
  a.migration = Migration::kMigrated;
  s.left.modify(a, qp::kMaskPathMigration);
  s.left.post(s.left.write(2, 100, s.right));
  s.run_until_sent(2);
  EXPECT_EQ(migration(s.left), Migration::kMigrated);
  EXPECT_EQ(s.left.count(AsyncEvent::kPathMigrated), 1u);
  EXPECT_EQ(s.left.qp().attributes().path.service_level, 1);
  EXPECT_EQ(migration(s.right), Migration::kMigrated);
  EXPECT_EQ(s.right.count(AsyncEvent::kPathMigrated), 1u);
}

}  // namespace
}  // namespace verbena::sim
