// SPDX-License-Identifier: BSD-2-Clause
// When an emulator that was started on demand ends, and what keeps it running.
#include "lifetime.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

class LifetimeTest : public ClientsTest {
 protected:
  // Starts a process that runs until it is killed, or until this one ends.
  static pid_t start_process() {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::pause();
      ::_exit(0);
    }
    return pid;
  }
  // Kills a process. Its parent reaps it only after the event loop has run.
  void kill_process(pid_t pid) {
    ::kill(pid, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
    reactor_.run();
    ::waitpid(pid, nullptr, 0);
  }
  void leave(const Client& client) {
    disconnect(client);
    lifetime_.consider();
  }

  int ends_ = 0;
  Lifetime lifetime_{reactor_, clients_, shares_.descriptors, true, [this] { ++ends_; }};
};

TEST_F(LifetimeTest, EndsAMomentAfterTheLastClient) {
  const Client first = connect();
  const Client second = connect();
  leave(first);
  reactor_.advance(Lifetime::kLingerNs);
  EXPECT_EQ(ends_, 0);
  leave(second);
  reactor_.advance(Lifetime::kLingerNs - 1);
  EXPECT_EQ(ends_, 0);
  reactor_.advance(1);
  EXPECT_EQ(ends_, 1);
}

TEST_F(LifetimeTest, TheNextUserKeepsIt) {
  lifetime_.consider();
  lifetime_.on_client_came();
  const Client client = connect();
  reactor_.advance(10 * Lifetime::kLingerNs);
  EXPECT_EQ(ends_, 0);
  leave(client);
  reactor_.advance(Lifetime::kLingerNs);
  EXPECT_EQ(ends_, 1);
}

TEST_F(LifetimeTest, EachUserIsWaitedForAnew) {
  lifetime_.consider();
  reactor_.advance(Lifetime::kLingerNs / 2);
  lifetime_.on_client_came();
  leave(connect());
  reactor_.advance(Lifetime::kLingerNs - 1);
  EXPECT_EQ(ends_, 0);
  reactor_.advance(1);
  EXPECT_EQ(ends_, 1);
}

TEST_F(LifetimeTest, OneThatStaysDoesNotEndUnlessItsDirectoryIsLost) {
  lifetime_.stay();
  lifetime_.consider();
  reactor_.advance(10 * Lifetime::kLingerNs);
  EXPECT_EQ(ends_, 0);
  lifetime_.end_when_idle();
  EXPECT_TRUE(lifetime_.ends_when_idle());
  reactor_.advance(Lifetime::kLingerNs);
  EXPECT_EQ(ends_, 1);
}

TEST_F(LifetimeTest, AProcessHoldsItOnceUntilItEnds) {
  const pid_t pid = start_process();
  const auto holder = static_cast<std::uint32_t>(pid);
  {
    const Client client = connect(holder);
    lifetime_.on_hold(*client.session, incoming(control::Hold{}, 1));
    EXPECT_EQ(heard<control::Ack>(client).second, 1u);
    lifetime_.on_hold(*client.session, incoming(control::Hold{}, 2));
    EXPECT_EQ(heard<control::Ack>(client).second, 2u);
    leave(client);
  }
  EXPECT_EQ(shares_.descriptors.held_by(holder), 1u);
  reactor_.advance(10 * Lifetime::kLingerNs);
  EXPECT_EQ(ends_, 0);
  kill_process(pid);
  EXPECT_EQ(shares_.descriptors.held_by(holder), 0u);
  reactor_.advance(Lifetime::kLingerNs);
  EXPECT_EQ(ends_, 1);
}

TEST_F(LifetimeTest, WhoHasItsShareOfDescriptorsIsRefused) {
  const Client client = connect();
  while (shares_.descriptors.try_take(kPid)) {
  }
  lifetime_.on_hold(*client.session, incoming(control::Hold{}, 1));
  EXPECT_EQ(refusal(client, 1), EMFILE);
}

}  // namespace
}  // namespace verbena::daemon
