// SPDX-License-Identifier: BSD-2-Clause
// Readers of rings that sleep: a waker or a datagram wakes each of them, once for each sleep.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

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

// A ring from a_ to b_, and a waker handle: the given one, or a copy of b_'s own.
class PeerWaker : public PeerLinkTest {
 protected:
  void join_with(int handle) {
    const int fd = SharedRing::create(1u << 20).value();
    b_.link->add_inbound(a_.self, SharedRing::map(fd).value());
    ASSERT_TRUE(a_.link->add_outbound(b_.self, SharedRing::map(fd).value(), WakerHandle(handle)));
    ::close(fd);
    while (b_.link->receive(sink_, 64) > 0) {
    }
  }
  int handle() const { return ::dup(b_.link->waker_handle()); }
  // b_ sleeps, and a packet comes. Returns the descriptor that wakes b_.
  int woken_by(std::uint32_t psn) {
    b_.link->silence();
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

TEST_F(PeerWaker, WakesASleeperOnceForEachSleep) {
  join_with(handle());
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_EQ(woken_by(i), b_.link->wake_fd());
    ASSERT_TRUE(wait_readable(b_.link->wake_fd(), 0));
    b_.link->silence();
    ASSERT_FALSE(wait_readable(b_.link->wake_fd(), 0));
  }
  expect_psns(sink_, 20);
  EXPECT_EQ(a_.link->statistics().kicks.read(), 20u);
}

TEST_F(PeerWaker, MayBeWokenByManyAndMakesNobodyWait) {
  const WakerHandle other(handle());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(other.wake());
  join_with(handle());
  ASSERT_EQ(woken_by(0), b_.link->wake_fd());
}

// The peer that woke b_ is gone with its ring. Its wake-up must not keep a sleeper awake for ever.
TEST_F(PeerWaker, IsSilencedWhenTheRingIsGone) {
  const WakerHandle other(handle());
  join_with(handle());
  ASSERT_EQ(woken_by(0), b_.link->wake_fd());
  a_.link->remove(b_.self);
  b_.link->remove(a_.self);
  while (b_.link->receive(sink_, 64) > 0) {
  }
  for (int i = 0; i < 2; ++i) {
    b_.link->silence();
    ASSERT_TRUE(b_.link->prepare_wait());
    EXPECT_FALSE(wait_readable(b_.link->wake_fd(), 0));
    b_.link->end_wait();
    ASSERT_TRUE(other.wake());  // a program that kept the handle may still use it
  }
}

// A blocked reader sleeps like this: each wake-up is one edge, and need not be silenced.
TEST_F(PeerWaker, WakesByEdges) {
  join_with(handle());
  const int set = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event edges{};
  edges.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(::epoll_ctl(set, EPOLL_CTL_ADD, b_.link->wake_edges(), &edges), 0);
  const auto rings = [&](int patience_ms) { return ::epoll_wait(set, &edges, 1, patience_ms); };
  while (rings(0) != 0) {
  }
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(b_.link->prepare_wait());
    ASSERT_EQ(rings(0), 0);
    ASSERT_EQ(send(a_, b_, 2 * i, 1), 1u);
    ASSERT_EQ(send(a_, b_, 2 * i + 1, 1), 1u);
    ASSERT_EQ(rings(10'000), 1);
    ASSERT_EQ(rings(0), 0);
    b_.link->end_wait();
    while (b_.link->receive(sink_, 64) > 0) {
    }
  }
  ::close(set);
}

// A peer that misuses the handle causes no false or lost wake-up, and makes no peer wait.
TEST_F(PeerWaker, WakesWhateverAnotherPeerDoesWithIt) {
  join_with(handle());
  ASSERT_EQ(woken_by(0), b_.link->wake_fd());
  const int other = handle();
  std::uint8_t bytes[4096] = {};
  std::uint32_t psn = 1;
  const auto still_rings = [&] {
    b_.link->silence();
    ASSERT_FALSE(wait_readable(b_.link->wake_fd(), 0));
    ASSERT_EQ(woken_by(psn++), b_.link->wake_fd());
  };
  ASSERT_EQ(::fcntl(other, F_SETFL, 0), 0);
  still_rings();
  for (int i = 0; i < 1000; ++i) ::send(other, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  still_rings();
  while (::recv(other, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
  }
  still_rings();
  ASSERT_EQ(::shutdown(other, SHUT_RDWR), 0);
  still_rings();
  ::close(other);
  still_rings();
}

TEST_F(PeerWaker, AHandleThatIsNoneMeansADatagram) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
  std::uint32_t psn = 0;
  for (const int fd : {::open("/dev/null", O_RDWR | O_CLOEXEC), pair[0],
                       ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1}) {
    join_with(fd);
    EXPECT_EQ(woken_by(psn++), b_.link->wait_fd());
    a_.link->remove(b_.self);
    b_.link->remove(a_.self);
  }
  ::close(pair[1]);
}

// The file that a descriptor number means now. Later the number may mean another file.
class Opened {
 public:
  explicit Opened(int fd) : fd_(fd), inode_(inode_of(fd)) {}
  bool is_there() const { return inode_ != 0 && inode_of(fd_) == inode_; }

 private:
  static ino_t inode_of(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
  }
  int fd_;
  ino_t inode_;
};

// The handle goes with the ring, so a process that outlives its peers keeps none of their handles.
TEST_F(PeerWaker, NoDescriptorIsLeftOfARingThatIsGone) {
  const auto join = [this] {
    const int fd = handle();
    const Opened opened(fd);
    join_with(fd);
    EXPECT_TRUE(opened.is_there());
    return opened;
  };
  const Opened removed = join();
  a_.link->remove(b_.self);
  EXPECT_FALSE(removed.is_there());

  const Opened abandoned = join();
  a_.link->abandon_rings();
  EXPECT_FALSE(abandoned.is_there());

  const Opened closed = join();
  b_.link.reset();
  send(a_, b_, 0, 1);
  EXPECT_FALSE(closed.is_there());
}

// A poller that looks `looks` times within `time`, and nudges a peer that does not read.
class PeerNudge : public PeerWaker {
 protected:
  std::uint64_t nudges_after(TimeNs time, int looks) {
    const std::uint64_t before = a_.link->statistics().nudges.read();
    for (int i = 1; i <= looks; ++i) {
      a_.link->nudge(now_ + time * static_cast<TimeNs>(i) / static_cast<TimeNs>(looks));
    }
    now_ += time;
    return a_.link->statistics().nudges.read() - before;
  }
  TimeNs now_ = 1'000'000'000;
};

TEST_F(PeerNudge, IsForAReaderWhoIsAwakeAndDoesNotRead) {
  join_with(handle());
  b_.link->silence();
  for (std::uint32_t i = 0; i < 5; ++i) {
    ASSERT_EQ(send(a_, b_, i, 1), 1u);
    EXPECT_EQ(nudges_after(20'000, 1000), 0u) << "too soon";
    EXPECT_FALSE(wait_readable(b_.link->wake_fd(), 0));
    EXPECT_EQ(nudges_after(20'000, 1000), 1u);
    EXPECT_TRUE(wait_readable(b_.link->wake_fd(), 0));
    b_.link->silence();
    EXPECT_EQ(nudges_after(1'000'000'000, 1000), 0u) << "once";
    while (b_.link->receive(sink_, 64) > 0) {
    }
  }
  expect_psns(sink_, 5);
  EXPECT_EQ(a_.link->statistics().kicks.read(), 0u);
}

TEST_F(PeerNudge, IsForNobodyWhoReadsOrSleeps) {
  join_with(handle());
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  EXPECT_EQ(nudges_after(10'000, 1000), 0u);
  while (b_.link->receive(sink_, 64) > 0) {
  }
  EXPECT_EQ(nudges_after(1'000'000, 1000), 0u);
  ASSERT_TRUE(b_.link->prepare_wait());
  ASSERT_EQ(send(a_, b_, 1, 1), 1u);
  EXPECT_EQ(nudges_after(1'000'000, 1000), 0u) << "it was woken";
  a_.link->remove(b_.self);
  EXPECT_EQ(nudges_after(1'000'000, 1000), 0u);
}

TEST_F(PeerNudge, IsADatagramWhereThereIsNoHandle) {
  join_and_forget(a_, b_);
  while (b_.link->receive(sink_, 64) > 0) {
  }
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  EXPECT_FALSE(wait_readable(b_.link->wait_fd(), 0));
  EXPECT_EQ(nudges_after(1'000'000, 1000), 1u);
  EXPECT_TRUE(wait_readable(b_.link->wait_fd()));
}

// Each reader is checked, even if another one reads at once.
TEST_F(PeerNudge, IsForEachOfManyReaders) {
  join_with(handle());
  join_and_forget(a_, c_);
  Collector others;
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  std::uint64_t nudges = 0;
  for (std::uint32_t i = 0; i < 50; ++i) {
    ASSERT_EQ(send(a_, c_, i, 1), 1u);
    nudges += nudges_after(5'000, 20);
    while (c_.link->receive(others, 64) > 0) {
    }
  }
  EXPECT_EQ(nudges, 1u);
  b_.link->silence();
  EXPECT_EQ(b_.link->receive(sink_, 64), 1u);
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

// The progress thread sleeps, and the application polls and reads the kick first. The next packet
// must still wake the sleeper.
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
