// SPDX-License-Identifier: BSD-2-Clause
// How many retries are left, which silence costs one, and what the program is told about it.
#include "verbena/requester/retries.hpp"

#include <memory>
#include <optional>
#include <string>

#include "../queue/endpoint_fixture.hpp"

namespace verbena::requester {
namespace {

using Standing = PeerReport::Standing;

// A path that knows about its peer.
class KnownPath final : public wire::Path {
 public:
  std::uint32_t capacity_packets(std::size_t) noexcept override { return 64; }
  std::optional<Reading> reading() noexcept override { return read; }
  TimeNs wait_of_line(Qpn, TimeNs) noexcept override { return line; }
  void inquire(TimeNs) noexcept override { ++inquiries; }
  PeerReport report(TimeNs since) noexcept override {
    asked_since = since;
    return inquiries == 0 ? PeerReport{} : answer;
  }

  std::optional<Reading> read;
  TimeNs line = 0;    // how long slow lines still take
  PeerReport answer;  // what the peer's process is said to do
  int inquiries = 0;
  TimeNs asked_since = 0;
};

class RetriesTest : public queue::testing::EndpointTest {
 protected:
  static constexpr TimeNs kInterval = 100'000'000;

  RetriesTest() {
    auto path = std::make_unique<KnownPath>();
    path_ = path.get();
    endpoint_.path = std::move(path);
    timer_.set_timeout(14);
    timer_.heard(now_ - kInterval);
    retries_.set_count(2);
    retries_.start();
    psns_.give(5);
    psns_.send(5);
  }
  PeerReport report() { return retries_.report_on_peer(timer_, now_); }
  std::optional<TimeNs> excuse() { return retries_.excuse(report(), timer_, now_); }
  void tell_of_silence() { retries_.tell_of_silence(psns_, timer_, report(), now_); }
  bool says(const char* words) const { return sink_.said.find(words) != std::string::npos; }

  KnownPath* path_;
  SendPsns psns_{Psn(0x100)};
  AnswerTimer timer_;
  Retries retries_{endpoint_};
  TimeNs now_ = 10'000'000'000;
};

TEST_F(RetriesTest, AreUsedUpUntilThereIsProgress) {
  EXPECT_TRUE(retries_.use_one());
  EXPECT_TRUE(retries_.use_one());
  EXPECT_FALSE(retries_.use_one());
  EXPECT_FALSE(retries_.use_one());
  retries_.renew();
  EXPECT_TRUE(retries_.use_one());
}

TEST_F(RetriesTest, ANewCountIsOfTheNextRenewal) {
  retries_.set_count(0);
  EXPECT_TRUE(retries_.use_one());
  retries_.renew();
  EXPECT_FALSE(retries_.use_one());
}

TEST_F(RetriesTest, TheEmulatorIsAskedOnlyIfNothingIsKnown) {
  EXPECT_EQ(path_->answer.standing, Standing::kUnknown);
  path_->answer.standing = Standing::kRuns;
  EXPECT_EQ(report().standing, Standing::kRuns);
  EXPECT_EQ(path_->inquiries, 1);
  EXPECT_EQ(path_->asked_since, now_ - kInterval) << "since it was heard of";
  EXPECT_EQ(report().standing, Standing::kRuns);
  EXPECT_EQ(path_->inquiries, 1);
}

TEST_F(RetriesTest, ASilenceCountsWhereNothingIsKnown) { EXPECT_EQ(excuse(), std::nullopt); }

TEST_F(RetriesTest, WhoHasNotReadYetIsExcusedUntilNow) {
  path_->read = {100, 100};
  EXPECT_EQ(excuse(), std::nullopt);
  path_->read = {200, 99};
  now_ += kInterval;
  EXPECT_EQ(excuse(), TimeNs{0});
}

TEST_F(RetriesTest, OnlyPacketsThatWereRefusedMeanwhileAreBlamed) {
  const auto tell = [this](std::uint64_t refused_before, std::uint64_t meanwhile) {
    sink_.said.clear();
    retries_.renew();
    endpoint_.port->send_failures.add(refused_before);
    retries_.use_one();
    endpoint_.port->send_failures.add(meanwhile);
    EXPECT_EQ(excuse(), std::nullopt);
    retries_.use_one();
    tell_of_silence();
  };
  tell(5, 0);
  EXPECT_TRUE(says("is it alive")) << sink_.said;
  tell(5, 2);
  EXPECT_TRUE(says("meanwhile the system has refused to send 2 packets")) << sink_.said;
}

TEST_F(RetriesTest, NoAnswerIsExpectedToWhatWaitsForALine) {
  path_->line = 30'000'000;
  EXPECT_EQ(excuse(), path_->line);
  path_->line = 60'000'000'000;
  EXPECT_EQ(excuse(), Retries::kPauseOfLine);
  path_->line = 0;
  EXPECT_EQ(excuse(), std::nullopt);
}

TEST_F(RetriesTest, WhoIsStoppedIsExcusedForAWhileAndHasAllRetries) {
  retries_.use_one();
  retries_.use_one();
  path_->answer.standing = Standing::kStopped;
  EXPECT_EQ(excuse(), Retries::kPauseOfStopped);
  EXPECT_TRUE(says("is stopped; this queue pair waits until it goes on"));
  EXPECT_TRUE(retries_.use_one());
  sink_.said.clear();
  now_ += kInterval;
  EXPECT_EQ(excuse(), Retries::kPauseOfStopped);
  EXPECT_EQ(sink_.said, "") << "told once since it was heard of";
}

TEST_F(RetriesTest, AnEndlessSilenceIsToldOnceAndOnlyIfItsCauseIsKnown) {
  retries_.tell_of_endless_silence(psns_.una(), timer_, now_);
  EXPECT_EQ(sink_.said, "");
  path_->inquiries = 1;
  path_->answer.standing = Standing::kEnded;
  retries_.tell_of_endless_silence(psns_.una(), timer_, now_);
  EXPECT_TRUE(says("no answer from the peer (QPN 0x008002) to PSN 0x000100"));
  EXPECT_TRUE(says("with timeout 0 this queue pair waits for ever"));
  sink_.said.clear();
  retries_.tell_of_endless_silence(psns_.una(), timer_, now_ + kInterval);
  EXPECT_EQ(sink_.said, "");
}

TEST_F(RetriesTest, TheLastSilenceIsToldWithItsRetries) {
  EXPECT_EQ(excuse(), std::nullopt);
  tell_of_silence();
  EXPECT_TRUE(says("to PSN 0x000100 after 2 retries of 67 ms: is it alive")) << sink_.said;
  EXPECT_NE(std::string(endpoint_.reason.text()), "");
}

TEST_F(RetriesTest, TheLastSilenceIsToldWithItsCause) {
  using QueuePair = PeerReport::QueuePair;
  endpoint_.peer_lid = 77;
  const auto told = [&](Standing standing, QueuePair queue_pair = QueuePair::kUnknown) {
    path_->answer.standing = standing;
    path_->answer.queue_pair = queue_pair;
    sink_.said.clear();
    tell_of_silence();
    return sink_.said.substr(sink_.said.find("ms: ") + 4);
  };
  path_->answer.pid = 12;
  path_->answer.name = {"tulip"};
  EXPECT_EQ(told(Standing::kEnded), "process 12 (tulip) has ended");
  EXPECT_EQ(told(Standing::kClosed), "process 12 (tulip) has closed its device");
  EXPECT_EQ(told(Standing::kNowhere), "no device of this emulator has LID 77");
  endpoint_.destination.has_grh = true;
  EXPECT_EQ(told(Standing::kNowhere), "no device of this emulator has that address");
  EXPECT_EQ(told(Standing::kRuns, QueuePair::kNone),
            "process 12 (tulip) has no queue pair of that number");
  const std::string hint =
      "; if the peer is another program, both must use one emulator (verbena run --pair, or "
      "verbena up and then verbena run for both)";
  EXPECT_EQ(told(Standing::kNobody),
            "no process of this emulator has a queue pair of that number" + hint);
  path_->answer.is_own_process = true;
  EXPECT_EQ(told(Standing::kRuns, QueuePair::kNone),
            "this leads to this process itself, which has no queue pair of that number" + hint);
}

TEST_F(RetriesTest, WhatWasAnsweredInsteadIsToldWhereNothingWasAcknowledged) {
  EXPECT_EQ(excuse(), std::nullopt);
  retries_.note_foreign_answer(Psn(0x777));
  tell_of_silence();
  EXPECT_TRUE(says("but answers with PSN 0x000777")) << sink_.said;
  sink_.said.clear();
  psns_.acknowledge(Psn(0x101));
  tell_of_silence();
  EXPECT_FALSE(says("0x000777")) << "it counts as this end does";
}

TEST_F(RetriesTest, ANewConnectionHasNothingOfTheOldOne) {
  retries_.use_one();
  retries_.use_one();
  retries_.note_foreign_answer(Psn(0x777));
  retries_.start();
  EXPECT_TRUE(retries_.use_one());
  EXPECT_EQ(excuse(), std::nullopt);
  tell_of_silence();
  EXPECT_FALSE(says("0x000777"));
}

TEST_F(RetriesTest, AReaderWhoseTimeIsUpIsToldToHaveTakenNothing) {
  path_->read = {100, 100};
  EXPECT_EQ(excuse(), std::nullopt);
  path_->read = {200, 99};
  now_ += SilentPeer::kReaderPatience;
  EXPECT_EQ(excuse(), std::nullopt);
  tell_of_silence();
  EXPECT_TRUE(says("has taken nothing of what was sent to it for 5000 ms")) << sink_.said;
}

TEST_F(RetriesTest, AGapIsToldWithWhatIsMissing) {
  retries_.tell_of_gap(Psn(0x103));
  EXPECT_TRUE(says("still reports that PSN 0x000103 is missing")) << sink_.said;
  EXPECT_TRUE(says("in each of 2 retries"));
}

}  // namespace
}  // namespace verbena::requester
