// SPDX-License-Identifier: BSD-2-Clause
// What a context is told of a peer that does not answer.
#include "peer_questions.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "client_fixture.hpp"
#include "process_stat.hpp"

namespace verbena::daemon {
namespace {

using control::PeerNews;
using QueuePair = PeerReport::QueuePair;
using Standing = PeerReport::Standing;

class PeerQuestionsTest : public ClientsTest {
 protected:
  void SetUp() override {
    ClientsTest::SetUp();
    peers_.emplace(*fabric_, clients_);
  }
  // Returns what the asker learns about the queue pair of this slot at device "b".
  PeerReport ask(const Client& asker, std::uint32_t slot) {
    const IpAddress address = fabric_->find("b")->info().address;
    const std::uint32_t qpn = Qpn::from(slot, 3).value();
    peers_->on_question(*asker.session, incoming(control::PeerQuestion{address, qpn}));
    const PeerNews news = heard<PeerNews>(asker).first;
    EXPECT_EQ(news.address, address);
    EXPECT_EQ(news.qpn, qpn);
    return news.report;
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
  const PeerReport report = ask(asker, peer.session->context->slot);
  EXPECT_EQ(report.standing, Standing::kRuns);
  EXPECT_EQ(report.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(report.name, "tulip");
  EXPECT_FALSE(report.has_unread);
  const auto question = heard<control::QpQuestion>(peer).first;
  control::QpAnswer answer;
  answer.question = question;
  answer.queue_pair = QueuePair::kReady;
  answer.connected_to = 0x4005;
  peers_->on_answer(*peer.session, incoming(answer));
  const PeerNews second = heard<PeerNews>(asker).first;
  EXPECT_EQ(second.address, question.address);
  EXPECT_EQ(second.qpn, question.qpn);
  EXPECT_EQ(second.report.queue_pair, QueuePair::kReady);
  EXPECT_EQ(second.report.connected_to, 0x4005u);
}

TEST_F(PeerQuestionsTest, NobodyAnswersForThePeersOfOthers) {
  const Client asker = connect_context("a");
  const Client peer = connect_context("b", static_cast<std::uint32_t>(::getpid()));
  ask(asker, peer.session->context->slot);
  control::QpAnswer answer{heard<control::QpQuestion>(peer).first, QueuePair::kError};
  peers_->on_answer(*asker.session, incoming(answer));
  EXPECT_TRUE(hears_nothing(asker));
}

TEST_F(PeerQuestionsTest, AFabricThatIsAllHereHasNoOtherDevicesAndProcesses) {
  const Client asker = connect_context("a");
  EXPECT_EQ(ask(asker, 5).standing, Standing::kNobody);
  const IpAddress address = IpAddress::v4(fabric_->find("b")->info().address.v4_host_order() + 9);
  peers_->on_question(*asker.session, incoming(control::PeerQuestion{address, 0x4001}));
  EXPECT_EQ(heard<PeerNews>(asker).first.report.standing, Standing::kNowhere);
}

TEST_F(PeerQuestionsTest, WhoAsksAboutItsOwnProcessIsToldSo) {
  const Client asker = connect_context("a");
  const Client other = connect_context("b", kPid + 1);
  const Client own = connect_context("b");
  EXPECT_FALSE(ask(asker, other.session->context->slot).is_own_process);
  EXPECT_TRUE(ask(asker, own.session->context->slot).is_own_process);
  const auto question = heard<control::QpQuestion>(own).first;
  peers_->on_answer(*own.session, incoming(control::QpAnswer{question, QueuePair::kNone}));
  EXPECT_TRUE(heard<PeerNews>(asker).first.report.is_own_process);
}

TEST_F(PeerQuestionsTest, AProcessMayCloseItsDeviceAndLive) {
  const Client asker = connect_context("a");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const Client peer = connect_context("b", static_cast<std::uint32_t>(child));
  const std::uint32_t slot = peer.session->context->slot;
  disconnect(peer);
  EXPECT_EQ(ask(asker, slot).standing, Standing::kClosed);
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t ended;
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ask(asker, slot).standing, Standing::kEnded) << "its parent has not waited for it";
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ask(asker, slot).standing, Standing::kEnded);
}

// The kernel calls such a process a zombie.
TEST_F(PeerQuestionsTest, AProcessLivesOnAfterItsFirstThread) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::thread(&::pause).detach();
    ::syscall(SYS_exit, 0);
  }
  const auto is_first_gone = [child] {
    const std::vector<std::string> fields = fields_of_process(static_cast<std::uint32_t>(child));
    return !fields.empty() && fields[0] == "Z";
  };
  while (!is_first_gone()) std::this_thread::yield();
  const Client asker = connect_context("a");
  const Client peer = connect_context("b", static_cast<std::uint32_t>(child));
  const std::uint32_t slot = peer.session->context->slot;
  EXPECT_EQ(ask(asker, slot).standing, Standing::kRuns);
  EXPECT_EQ(::kill(child, SIGSTOP), 0);
  siginfo_t stopped;
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(child), &stopped, WSTOPPED | WNOWAIT), 0);
  EXPECT_EQ(ask(asker, slot).standing, Standing::kStopped);
  disconnect(peer);
  EXPECT_EQ(ask(asker, slot).standing, Standing::kClosed);
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ask(asker, slot).standing, Standing::kEnded);
}

TEST_F(PeerQuestionsTest, AProcessWhoseNumberIsNotKnownIsBelieved) {
  const Client asker = connect_context("a");
  for (const bool has_said_so : {true, false}) {
    const Client peer = connect_context("b", 0);
    const std::uint32_t slot = peer.session->context->slot;
    if (has_said_so) peer.session->last_words = control::JournalKind::kClosed;
    disconnect(peer);
    EXPECT_EQ(ask(asker, slot).standing, has_said_so ? Standing::kClosed : Standing::kEnded);
  }
}

TEST_F(PeerQuestionsTest, WhoseSlotItWasIsRememberedUntilAnotherHasIt) {
  const Client asker = connect_context("a");
  constexpr std::uint32_t kNoProcess = 0x7ffffffe;  // greater than the kernel's greatest number
  const Client peer = connect_context("b", kNoProcess);
  const std::uint32_t slot = peer.session->context->slot;
  peer.session->context->extra_slots = {kExtra};
  disconnect(peer);
  for (const std::uint32_t was : {slot, kExtra}) {
    const PeerReport report = ask(asker, was);
    EXPECT_EQ(report.standing, Standing::kEnded);
    EXPECT_EQ(report.pid, kNoProcess);
  }
  const Client next = connect_context("b", static_cast<std::uint32_t>(::getpid()));
  next.session->context->extra_slots = {kExtra};
  EXPECT_EQ(ask(asker, kExtra).standing, Standing::kRuns);
}

}  // namespace
}  // namespace verbena::daemon
