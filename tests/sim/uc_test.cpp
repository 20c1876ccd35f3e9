// SPDX-License-Identifier: BSD-2-Clause
// UC packets whose PSNs are not the expected ones (IBTA Vol 1, 9.8.2.2).
#include "steps.hpp"

namespace verbena::sim {
namespace {

PeerOptions uc() {
  PeerOptions options;
  options.transport = Transport::kUc;
  return options;
}

struct UnreliableConnection : testing::Test {
  UnreliableConnection() {
    for (std::uint64_t id = 1; id <= 40; ++id) EXPECT_TRUE(s.right.receive(id));
  }
  // Sends messages of three packets each. Returns how many arrive.
  std::size_t send(std::size_t messages) {
    const std::size_t sent = s.left.sends.size(), received = s.right.receives.size();
    for (std::size_t i = 1; i <= messages; ++i) s.left.post(s.left.send(sent + i, 700));
    s.run_until_sent(sent + messages);
    return s.right.receives.size() - received;
  }
  // The next packet of the left goes with a PSN that is so far ahead.
  void send_next_ahead(std::int32_t by) {
    s.pair.world.filter = [this, by](const Node& from, std::span<const std::uint8_t> bytes) {
      if (&from != &s.pair.a) return true;
      std::vector<std::uint8_t> changed(bytes.begin(), bytes.end());
      wire::Bth bth = wire::Bth::read_from(bytes.data());
      bth.psn = bth.psn + static_cast<std::uint32_t>(by);
      bth.write_to(changed.data());
      s.pair.world.filter = nullptr;
      s.pair.world.inject(1, s.pair.a.address(), changed);
      return false;
    };
  }
  // The sender begins anew, and the receiver does not hear of it.
  void restart_at(Psn psn) {
    s.left.to_state(qp::State::kReset);
    PeerOptions options = uc();
    options.psn = psn;
    s.left.set_options(options);
    s.left.bring_up(s.right);
  }

  Scene s{uc()};
};

TEST_F(UnreliableConnection, GoesOnBehindOnePsnThatIsFarAhead) {
  EXPECT_EQ(send(3), 3u);
  for (const std::int32_t far : {1 << 22, (1 << 23) - 8, 5000}) {
    send_next_ahead(far);
    EXPECT_EQ(send(1), 0u) << "the message has lost its first packet";
    EXPECT_EQ(send(10), 10u) << far;
  }
  s.expect_unharmed();
}

TEST_F(UnreliableConnection, TakesTheMessagesOfASenderThatBeginsAnew) {
  EXPECT_EQ(send(3), 3u);
  for (const std::uint32_t psn : {0x800010u, 0x100000u, 0xf00000u, 0u}) {
    restart_at(Psn(psn));
    EXPECT_EQ(send(5), 5u) << psn;
  }
  s.expect_unharmed();
}

TEST_F(UnreliableConnection, SaysThatASenderHasPerhapsBegunAnewWithItsFirstPsn) {
  EXPECT_EQ(send(5), 5u);
  restart_at(PeerOptions{}.psn);
  s.pair.world.set_trace(true);
  testing::internal::CaptureStderr();
  EXPECT_EQ(send(5), 0u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("must go through RESET as well"));
  s.pair.world.set_trace(false);
  s.expect_unharmed();
}

TEST_F(UnreliableConnection, DropsWhatComesCloseBehindItsSuccessors) {
  std::vector<std::vector<std::uint8_t>> packets;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    if (&from == &s.pair.a) packets.emplace_back(bytes.begin(), bytes.end());
    return true;
  };
  EXPECT_EQ(send(8), 8u);
  s.pair.world.filter = nullptr;
  for (const auto& packet : packets) s.pair.world.inject(1, s.pair.a.address(), packet);
  s.pair.run(1'000'000);
  EXPECT_EQ(s.right.receives.size(), 8u);
  EXPECT_EQ(send(3), 3u);
  s.expect_unharmed();
}

}  // namespace
}  // namespace verbena::sim
