// SPDX-License-Identifier: BSD-2-Clause
// A peer that does not answer: when the retries are used up, and when they do not count, because
// the peer is kept from answering (IBTA Vol 1, 9.9).
#include "steps.hpp"
#include "verbena/wire/aeth.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::sim {
namespace {

PeerOptions three_retries() {
  PeerOptions options;
  options.retry_count = 3;
  return options;
}
void lose_what_left_sends(Scene& s, const bool* meanwhile = nullptr) {
  s.pair.world.filter = [&s, meanwhile](const Node& from, std::span<const std::uint8_t>) {
    return &from != &s.pair.a || (meanwhile != nullptr && !*meanwhile);
  };
}

TEST(Silence, TheRetryCounterEndsAMessageToADeadPeer) {
  Scene s(three_retries());
  s.left.post(s.left.write(1, 300, s.right));
  s.run_until_sent(1);
  s.forget_far();
  s.right.forget();
  s.pair.b.restart();
  const TimeNs began = s.pair.world.now();
  s.left.post(s.left.write(2, 300, s.right));
  s.left.post(s.left.send(3, 300));
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 3; }, 20'000'000'000));
  expect_sends(s.left, 1, Status::kRetryExceeded, 3);
  EXPECT_EQ(s.left.qp().endpoint().port->ack_timeouts.read(),
            4u);  // the first one and three retries
  // Each timeout is 4.096 us * 2^14.
  EXPECT_GE(s.pair.world.now() - began, 4 * 67'000'000u);
  EXPECT_LE(s.pair.world.now() - began, 4 * 68'000'000u);
  EXPECT_EQ(s.left.state(), qp::State::kError);
}

// The peer is never silent, so no timeout would end the message.
TEST(Silence, TheRetryCounterEndsAMessageWhoseGapIsReportedForEver) {
  Scene s(three_retries());
  int sent = 0;
  lose_what_left_sends(s);
  const auto lose = s.pair.world.filter;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    sent += &from == &s.pair.a ? 1 : 0;
    return lose(from, bytes);
  };
  s.left.post(s.left.write(1, 300, s.right));
  s.left.post(s.left.send(2, 300));
  std::vector<std::uint8_t> nak(wire::Bth::kSize + wire::Aeth::kSize);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Opcode::kRcAcknowledge);
  bth.migreq = true;
  bth.dest_qp = s.left.qp().number();
  bth.psn = three_retries().psn;
  bth.write_to(nak.data());
  wire::Aeth::nak(wire::NakCode::kPsnSequence, 0).write_to(nak.data() + wire::Bth::kSize);
  int reports = 0;
  while (s.left.sends.empty() && reports < 1000) {
    s.pair.run(3'000'000);
    s.pair.world.inject(0, s.pair.b.address(), nak);
    ++reports;
    s.left.reap();
  }
  s.run_until_sent(2);
  expect_sends(s.left, 0, Status::kRetryExceeded, 2);
  EXPECT_EQ(s.left.state(), qp::State::kError);
  // Each retry sends the message again. Not every report counts as a retry.
  EXPECT_GE(sent, 8);
  EXPECT_GE(reports, 12);
  EXPECT_LE(reports, 40);
}

// A ring tells that the peer has not read. An adapter would have answered for its busy host.
TEST(Silence, NoRetryCountsWhileThePeerIsKeptFromReading) {
  Scene s(three_retries());
  bool is_kept = true;
  lose_what_left_sends(s, &is_kept);
  s.pair.a.reading = {1000, 999};
  s.left.post(s.left.write(1, 300, s.right));
  s.pair.run(4'900'000'000);
  EXPECT_TRUE(s.left.sends.empty());
  EXPECT_EQ(s.left.qp().endpoint().port->ack_timeouts.read(), 1u);
  is_kept = false;
  s.pair.a.reading = {1000, 1000};
  s.run_until_sent(1);
  expect_sends(s.left, 1, Status::kSuccess, 1);
  s.expect_unharmed();
}

TEST(Silence, WhoReadsAndDoesNotAnswerUsesUpTheRetries) {
  Scene s(three_retries());
  lose_what_left_sends(s);
  // The peer need not have read what was sent after the last retry that counted.
  s.pair.a.reading = {1000, 999};
  s.left.post(s.left.write(1, 300, s.right));
  const TimeNs began = s.pair.world.now();
  s.pair.run(1'000'000'000);
  s.pair.a.reading = {2000, 1000};
  ASSERT_TRUE(s.pair.run_until(
      [&] {
        s.pair.a.reading->given += 1000;
        s.pair.a.reading->taken = s.pair.a.reading->given - 1;
        return !s.left.sends.empty();
      },
      20'000'000'000));
  expect_sends(s.left, 0, Status::kRetryExceeded, 1);
  EXPECT_LE(s.pair.world.now() - began, 1'000'000'000 + 4 * 68'000'000u);
}

// The peer's process may be stopped, and the requester cannot know whether it will go on.
TEST(Silence, APeerThatReadsNoMoreIsGivenUpInTheEnd) {
  Scene s(three_retries());
  lose_what_left_sends(s);
  s.pair.a.reading = {1000, 999};
  const TimeNs began = s.pair.world.now();
  s.left.post(s.left.write(1, 300, s.right));
  ASSERT_TRUE(s.pair.run_until([&] { return !s.left.sends.empty(); }, 20'000'000'000));
  expect_sends(s.left, 0, Status::kRetryExceeded, 1);
  EXPECT_GE(s.pair.world.now() - began, 5'000'000'000u);
  EXPECT_LE(s.pair.world.now() - began, 5'500'000'000u);
}

// A debugger stops a process for as long as it likes. An adapter would answer for the process.
TEST(Silence, NoRetryCountsWhileTheProcessOfThePeerIsStopped) {
  Scene s(three_retries());
  bool is_stopped = true;
  lose_what_left_sends(s, &is_stopped);
  s.pair.a.report.standing = PeerReport::Standing::kStopped;
  s.left.post(s.left.write(1, 300, s.right));
  s.pair.run(60'000'000'000);
  EXPECT_TRUE(s.left.sends.empty());
  EXPECT_EQ(s.left.qp().endpoint().port->ack_timeouts.read(), 0u);
  is_stopped = false;
  s.pair.a.report.standing = PeerReport::Standing::kRuns;
  s.run_until_sent(1);
  expect_sends(s.left, 1, Status::kSuccess, 1);
  s.expect_unharmed();
}

TEST(Silence, WhatOneConnectionHadGivenIsNotAskedOfTheNext) {
  Scene s(three_retries());
  lose_what_left_sends(s);
  s.pair.a.reading = {1000, 1000};
  s.left.post(s.left.write(1, 300, s.right));
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kRetryExceeded);
  s.left.to_state(qp::State::kReset);
  s.right.to_state(qp::State::kReset);
  s.pair.connect();
  const auto timeouts = [&] { return s.left.qp().endpoint().port->ack_timeouts.read(); };
  const std::uint64_t before = timeouts();
  s.pair.a.reading = {2000, 500};
  s.left.post(s.left.write(2, 300, s.right));
  s.pair.run(100'000'000);
  EXPECT_EQ(timeouts(), before + 1) << "the first one counts";
}

TEST(Silence, AProcessThatCameBackDoesNotAnswerForItsPredecessor) {
  Scene s;
  s.forget_far();
  s.right.forget();
  s.pair.b.restart();
  Peer reborn(s.pair.world, s.pair.b, {});
  EXPECT_EQ(reborn.qp().number(), s.left.qp().attributes().dest_qpn);  // the same number again
  s.left.post(s.left.write(1, 8, s.right));
  ASSERT_TRUE(s.pair.run_until([&] { return !s.left.sends.empty(); }, 20'000'000'000));
  expect_sends(s.left, 0, Status::kRetryExceeded, 1);
  EXPECT_EQ(reborn.state(), qp::State::kReset);
}

}  // namespace
}  // namespace verbena::sim
