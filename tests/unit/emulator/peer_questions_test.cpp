// SPDX-License-Identifier: BSD-2-Clause
// What a context is told of a peer that does not answer.
#include "peer_questions.hpp"

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

using control::PeerNews;
using control::PeerStanding;

class PeerQuestionsTest : public ClientsTest {
 protected:
  void SetUp() override {
    ClientsTest::SetUp();
    peers_.emplace(*fabric_, clients_);
  }
  // Returns what the asker learns about the queue pair of this slot at device "b".
  PeerNews ask(const Client& asker, std::uint32_t slot) {
    const IpAddress address = fabric_->find("b")->info().address;
    const std::uint32_t qpn = Qpn::from(slot, 3).value();
    peers_->on_question(*asker.session, incoming(control::PeerQuestion{address, qpn}));
    const PeerNews news = heard<PeerNews>(asker).first;
    EXPECT_EQ(news.address, address);
    EXPECT_EQ(news.qpn, qpn);
    return news;
  }
  void disconnect(const Client& client) {
    peers_->on_context_closed(*client.session);
    ClientsTest::disconnect(client);
  }

  static constexpr std::uint32_t kExtra = 77;
  std::optional<PeerQuestions> peers_;
};

TEST_F(PeerQuestionsTest, OnePeerRunsAndIsAskedForItsQueuePair) {
  const Client asker = connect_context("a");
  const Client peer = connect_context("b", static_cast<std::uint32_t>(::getpid()));
  const PeerNews news = ask(asker, peer.session->context->slot);
  EXPECT_EQ(news.standing, PeerStanding::kRuns);
  EXPECT_EQ(news.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(news.comm, "tulip");
  EXPECT_FALSE(news.has_unread);
  const auto question = heard<control::QpQuestion>(peer).first;
  control::QpAnswer answer;
  answer.question = question;
  answer.queue_pair = control::PeerQp::kReady;
  answer.connected_to = 0x4005;
  peers_->on_answer(*peer.session, incoming(answer));
  const PeerNews second = heard<PeerNews>(asker).first;
  EXPECT_EQ(second.address, news.address);
  EXPECT_EQ(second.qpn, news.qpn);
  EXPECT_EQ(second.queue_pair, control::PeerQp::kReady);
  EXPECT_EQ(second.connected_to, 0x4005u);
}

TEST_F(PeerQuestionsTest, NobodyAnswersForThePeersOfOthers) {
  const Client asker = connect_context("a");
  const Client peer = connect_context("b", static_cast<std::uint32_t>(::getpid()));
  ask(asker, peer.session->context->slot);
  control::QpAnswer answer{heard<control::QpQuestion>(peer).first, control::PeerQp::kError};
  peers_->on_answer(*asker.session, incoming(answer));
  EXPECT_TRUE(hears_nothing(asker));
}

TEST_F(PeerQuestionsTest, ASlotOfNobodyIsElsewhere) {
  const Client asker = connect_context("a");
  EXPECT_EQ(ask(asker, 5).standing, PeerStanding::kElsewhere);
}

TEST_F(PeerQuestionsTest, WhoseSlotItWasIsRememberedUntilAnotherHasIt) {
  const Client asker = connect_context("a");
  const Client peer = connect_context("b", 12);
  const std::uint32_t slot = peer.session->context->slot;
  peer.session->context->extra_slots = {kExtra};
  disconnect(peer);
  for (const std::uint32_t was : {slot, kExtra}) {
    const PeerNews news = ask(asker, was);
    EXPECT_EQ(news.standing, PeerStanding::kEnded);
    EXPECT_EQ(news.pid, 12u);
  }
  const Client next = connect_context("b", static_cast<std::uint32_t>(::getpid()));
  next.session->context->extra_slots = {kExtra};
  EXPECT_EQ(ask(asker, kExtra).standing, PeerStanding::kRuns);
}

}  // namespace
}  // namespace verbena::daemon
