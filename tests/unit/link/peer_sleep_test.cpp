// Readers of rings that sleep: each is woken, once for a sleep, by its bell or by a datagram.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "peer_link_fixture.hpp"

namespace verbena::link::test {
namespace {

class PeerSleep : public PeerLinkTest {};

TEST_F(PeerSleep, ASleeperIsWoken) {
  join_and_forget(a_, b_);
  Collector sink;
  while (b_.link->receive(sink, 64) > 0) {
  }
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(b_.link->prepare_wait());
    ASSERT_FALSE(wait_readable(b_.link->wait_fd(), 0));
    ASSERT_EQ(send(a_, b_, 3 * i, 1), 1u);
    ASSERT_EQ(send(a_, b_, 3 * i + 1, 2), 2u);
    ASSERT_TRUE(wait_readable(b_.link->wait_fd()));
    b_.link->end_wait();
    while (b_.link->receive(sink, 64) > 0) {
    }
    EXPECT_EQ(a_.link->statistics().kicks.read(), i + 1) << "one sleep, one kick";
  }
  expect_psns(sink, 60);
  EXPECT_EQ(b_.node.drops.total(), 0u);
}

// A ring from a_ to b_, and a rope: this one, or a copy of b_'s own.
class PeerBell : public PeerLinkTest {
 protected:
  void join_with(int rope) {
    const int fd = SharedRing::create(1u << 20).value();
    b_.link->add_inbound(a_.self, SharedRing::map(fd).value());
    ASSERT_TRUE(a_.link->add_outbound(b_.self, SharedRing::map(fd).value(), BellRope(rope)));
    ::close(fd);
    while (b_.link->receive(sink_, 64) > 0) {
    }
  }
  int rope() const { return ::dup(b_.link->bell_rope()); }
  // b_ sleeps, a packet comes: by what b_ is woken.
  int woken_by(std::uint32_t psn) {
    EXPECT_TRUE(b_.link->prepare_wait());
    EXPECT_EQ(send(a_, b_, psn, 1), 1u);
    pollfd fds[2] = {{b_.link->wake_fd(), POLLIN, 0}, {b_.link->wait_fd(), POLLIN, 0}};
    EXPECT_EQ(::poll(fds, 2, 10'000), 1);
    b_.link->end_wait();
    while (b_.link->receive(sink_, 64) > 0) {
    }
    return fds[0].revents != 0 ? fds[0].fd : fds[1].fd;
  }
  Collector sink_;
};

TEST_F(PeerBell, WakesASleeperOnceForEachSleep) {
  join_with(rope());
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_EQ(woken_by(i), b_.link->wake_fd());
    ASSERT_FALSE(wait_readable(b_.link->wake_fd(), 0));
  }
  expect_psns(sink_, 20);
  EXPECT_EQ(a_.link->statistics().kicks.read(), 20u);
}

TEST_F(PeerBell, MayBeRungByManyAndMakesNobodyWait) {
  const BellRope other(rope());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(other.pull());
  join_with(rope());
  ASSERT_EQ(woken_by(0), b_.link->wake_fd());
}

TEST_F(PeerBell, ACutRopeMeansADatagram) {
  join_with(rope());
  ASSERT_EQ(woken_by(0), b_.link->wake_fd());
  ASSERT_EQ(::shutdown(b_.link->bell_rope(), SHUT_RDWR), 0);
  ASSERT_TRUE(b_.link->prepare_wait());
  ASSERT_FALSE(wait_readable(b_.link->wake_fd(), 0)) << "that would be a sleeper without sleep";
  ASSERT_EQ(send(a_, b_, 1, 1), 1u);
  EXPECT_TRUE(wait_readable(b_.link->wait_fd()));
  b_.link->end_wait();
}

TEST_F(PeerBell, ARopeThatIsNoneMeansADatagram) {
  join_with(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(woken_by(0), b_.link->wait_fd());
}

// The rope goes with the ring: a process that outlives many peers keeps no descriptor of them.
TEST_F(PeerBell, NoDescriptorIsLeftOfARingThatIsGone) {
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
  const int removed = rope();
  join_with(removed);
  ASSERT_TRUE(is_open(removed));
  a_.link->remove(b_.self);
  EXPECT_FALSE(is_open(removed));

  const int abandoned = rope();
  join_with(abandoned);
  ASSERT_TRUE(is_open(abandoned));
  a_.link->abandon_rings();
  EXPECT_FALSE(is_open(abandoned));

  const int closed = rope();
  join_with(closed);
  ASSERT_TRUE(is_open(closed));
  b_.link.reset();
  send(a_, b_, 0, 1);
  EXPECT_FALSE(is_open(closed));
}

TEST_F(PeerSleep, NobodySleepsOverAPacket) {
  join_and_forget(a_, b_);
  Collector sink;
  while (b_.link->receive(sink, 64) > 0) {
  }
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  EXPECT_FALSE(b_.link->prepare_wait());
  EXPECT_EQ(a_.link->statistics().kicks.read(), 0u);
}

// The progress thread sleeps, the application polls and reads the kick first: the next packet must
// wake the sleeper all the same.
TEST_F(PeerSleep, AKickThatAnotherThreadReadIsRepeated) {
  join_and_forget(a_, b_);
  Collector sink;
  while (b_.link->receive(sink, 64) > 0) {
  }
  ASSERT_TRUE(b_.link->prepare_wait());
  for (std::uint32_t i = 0; i < 5; ++i) {
    ASSERT_EQ(send(a_, b_, i, 1), 1u);
    ASSERT_TRUE(wait_readable(b_.link->wait_fd()));
    for (int poll = 0; poll < 200; ++poll) b_.link->receive(sink, 64);
    ASSERT_FALSE(wait_readable(b_.link->wait_fd(), 0));
  }
  b_.link->end_wait();
  expect_psns(sink, 5);
  EXPECT_EQ(a_.link->statistics().kicks.read(), 5u);
}

TEST_F(PeerSleep, ANewRingWakesASleeper) {
  ASSERT_TRUE(b_.link->prepare_wait());
  join_and_forget(a_, b_);
  EXPECT_TRUE(wait_readable(b_.link->wait_fd()));
  b_.link->end_wait();
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  Collector sink;
  receive(b_, sink, 1);
}

}  // namespace
}  // namespace verbena::link::test
