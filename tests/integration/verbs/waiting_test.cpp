// SPDX-License-Identifier: BSD-2-Clause
// Threads that wait for completions, by polling or blocked for an event, alone or together, and
// what happens around them meanwhile.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongEnough = 30ms;  // for a thread to fall asleep

class Waiting : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    make_channel();
  }

  // Takes an event, as a program that asks for it, and acknowledges it.
  bool next_event() {
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    if (ibv_get_cq_event(channel_, &cq, &cookie) != 0) return false;
    ibv_ack_cq_events(cq, 1);
    return cq == cq_;
  }
  // Polls this many completions, which must all be successes.
  void take(int wanted) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (wanted > 0 && std::chrono::steady_clock::now() < end) {
      ibv_wc wc;
      const int got = ibv_poll_cq(cq_, 1, &wc);
      ASSERT_GE(got, 0);
      if (got == 1) {
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      }
      wanted -= got;
    }
    ASSERT_EQ(wanted, 0);
  }
  void send_one() {
    receive(right_);
    post(left_, request());
  }
  // Waits for an event, while another thread sends.
  void wait_for_one(std::chrono::milliseconds pause = 0ms) {
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    std::thread sender([&] {
      std::this_thread::sleep_for(pause);
      send_one();
    });
    EXPECT_TRUE(next_event());
    sender.join();
    take(2);
  }
};

void* poll_for_ever(void* cq) {
  ibv_wc wc;
  for (;;) {
    ibv_poll_cq(static_cast<ibv_cq*>(cq), 1, &wc);
    pthread_testcancel();
  }
}

TEST_F(Waiting, AThreadThatPollsMayBeCancelled) {
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, &poll_for_ever, cq_), 0);
    usleep(500);
    pthread_cancel(thread);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    ASSERT_EQ(result, PTHREAD_CANCELED);
  }
  connect();
  send_one();
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
}

// errno stays the same whether a poll finds a completion or not.
TEST_F(Waiting, PostsAndPollsLeaveErrnoAlone) {
  connect();
  constexpr int kNobodysErrno = 4711;
  errno = kNobodysErrno;
  ibv_wc wc;
  ibv_poll_cq(cq_, 1, &wc);
  EXPECT_EQ(errno, kNobodysErrno);
  send_one();
  take(2);
  ibv_poll_cq(cq_, 1, &wc);
  EXPECT_EQ(errno, kNobodysErrno);
}

// A post is not a cancellation point, even if it sets something up first.
TEST_F(Waiting, AThreadThatIsCancelledPosts) {
  connect();
  bool has_posted = false;
  std::thread thread([&] {
    pthread_cancel(pthread_self());
    for (int i = 0; i < 100; ++i) {
      send_one();
      take(2);
    }
    has_posted = true;
  });
  thread.join();
  EXPECT_TRUE(has_posted);
}

void* wait_for_ever(void* channel) {
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  ibv_get_cq_event(static_cast<ibv_comp_channel*>(channel), &cq, &cookie);
  return nullptr;
}

TEST_F(Waiting, AThreadThatWaitsMayBeCancelledAndTheNextOneGetsTheEvent) {
  connect();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, &wait_for_ever, channel_), 0);
    usleep(i * 300);
    pthread_cancel(thread);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    ASSERT_EQ(result, PTHREAD_CANCELED);
    send_one();
    ASSERT_TRUE(next_event());
    take(2);
  }
}

TEST_F(Waiting, ManyEventsComeOneAfterTheOther) {
  connect();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    std::thread sender;
    if (i % 100 == 0) {
      sender = std::thread([&] {
        std::this_thread::sleep_for(1ms);
        send_one();
      });
    } else {
      send_one();
    }
    ASSERT_TRUE(next_event());
    if (sender.joinable()) sender.join();
    take(2);
  }
}

// Only the peer posts and polls. The waiting thread answers its READs; once that thread has left,
// the device still does.
TEST_F(Waiting, PeersAreServedWhileAThreadWaitsAndWhenItHasLeft) {
  connect();
  ibv_cq* const waited_for = cq_;
  cq_ = ibv_create_cq(context_, 100, nullptr, nullptr, 0);
  ibv_qp* asking = make();
  std::swap(cq_, const_cast<ibv_cq*&>(waited_for));
  ibv_qp* answering = make();
  to_rtr(asking, answering);
  to_rtr(answering, asking);
  to_rts(asking);
  to_rts(answering);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  std::thread waiter([&] { EXPECT_TRUE(next_event()); });
  std::this_thread::sleep_for(kLongEnough);
  const auto read_once = [&] {
    post(asking, request(IBV_WR_RDMA_READ));
    ibv_wc wc;
    int got = 0;
    while ((got = ibv_poll_cq(waited_for, 1, &wc)) == 0) {
    }
    ASSERT_EQ(got, 1);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  };
  for (int i = 0; i < 100; ++i) read_once();
  send_one();
  waiter.join();
  for (int i = 0; i < 100; ++i) read_once();
  take(2);
  for (ibv_qp* qp : {asking, answering}) {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    std::erase(qps_, qp);
  }
  EXPECT_EQ(ibv_destroy_cq(waited_for), 0);
}

// Each of two channels has a reader. A reader that leaves with an event must not leave the other
// one without a thread that drives.
TEST_F(Waiting, TwoThreadsWaitOnTwoChannels) {
  connect();
  ibv_qp* const first[2] = {left_, right_};
  ibv_cq* const first_cq = cq_;
  ibv_comp_channel* const second = ibv_create_comp_channel(context_);
  ASSERT_NE(second, nullptr);
  cq_ = ibv_create_cq(context_, 100, nullptr, second, 0);
  connect();
  ibv_qp* const other[2] = {left_, right_};
  ibv_cq* const second_cq = cq_;
  cq_ = first_cq;
  constexpr int kRounds = 300;
  std::atomic<int> slowest_ms{0};
  const auto play = [&](ibv_comp_channel* channel, ibv_cq* own, ibv_qp* const pair[2]) {
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_EQ(ibv_req_notify_cq(own, 0), 0);
      const auto begin = std::chrono::steady_clock::now();
      receive(pair[1]);
      post(pair[0], request());
      ibv_cq* cq = nullptr;
      void* cookie = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel, &cq, &cookie), 0);
      ASSERT_EQ(cq, own);
      ibv_ack_cq_events(cq, 1);
      ibv_wc wc;
      for (int taken = 0; taken < 2;) {
        const int got = ibv_poll_cq(own, 1, &wc);
        ASSERT_GE(got, 0);
        taken += got;
      }
      const auto took = std::chrono::steady_clock::now() - begin;
      const int ms =
          static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
      if (ms > slowest_ms) slowest_ms = ms;
      if (i % 50 == 0) usleep(2000);
    }
  };
  std::thread one([&] { play(channel_, first_cq, first); });
  std::thread two([&] { play(second, second_cq, other); });
  one.join();
  two.join();
  EXPECT_LT(slowest_ms, kPatienceMs);
  for (ibv_qp* qp : other) {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    std::erase(qps_, qp);
  }
  EXPECT_EQ(ibv_destroy_cq(second_cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(second), 0);
}

void ignore(int) {}

void catch_signal(int number, int flags) {
  struct sigaction action {};
  action.sa_handler = &ignore;
  action.sa_flags = flags;
  sigaction(number, &action, nullptr);
}

TEST_F(Waiting, ASignalThatInterruptsEndsTheWaitAndOneThatDoesNotDoesNot) {
  connect();
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  catch_signal(SIGALRM, 0);
  ualarm(20'000, 0);
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cookie), -1);
  EXPECT_EQ(errno, EINTR);

  // A signal with SA_RESTART does not end the wait, even if the program handles SIGSEGV.
  catch_signal(SIGSEGV, 0);
  catch_signal(SIGALRM, SA_RESTART);
  ualarm(20'000, 0);
  std::thread sender([&] {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
    std::this_thread::sleep_for(100ms);
    send_one();
  });
  EXPECT_TRUE(next_event());
  sender.join();
  take(2);
  signal(SIGALRM, SIG_DFL);
  signal(SIGSEGV, SIG_DFL);
}

// A channel with O_NONBLOCK does not block, at first and after many waits that did.
TEST_F(Waiting, AChannelThatDoesNotBlockDoesNotBlock) {
  connect();
  const int flags = fcntl(channel_->fd, F_GETFL);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), 0);
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cookie), -1);
      EXPECT_EQ(errno, EAGAIN);
    }
    send_one();
    pollfd readable{channel_->fd, POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, kPatienceMs), 1);
    EXPECT_TRUE(next_event());
    take(2);
    ASSERT_EQ(fcntl(channel_->fd, F_SETFL, flags), 0);
    for (int i = 0; i < 50; ++i) wait_for_one();
  }
}

// A waiting thread lets others run on the processor, and polls before it sleeps.
TEST_F(Waiting, OnOneProcessorTheOthersHaveTheirTurn) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  connect();
  std::atomic<int> wanted{0};
  std::thread sender([&] {
    for (int sent = 0; sent < 500;) {
      if (wanted == sent) {
        sched_yield();
        continue;
      }
      send_one();
      ++sent;
    }
  });
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    ++wanted;
    ASSERT_TRUE(next_event());
    take(2);
  }
  sender.join();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

// The plugin recognises a read of a channel by flags of its file. Programs see these flags, and may
// clear them.
TEST_F(Waiting, AChannelIsOneWithItsFlagsAndWithout) {
  constexpr int kLargeFile = 0100000;
  connect();
  for (const int flags : {O_RDWR | O_APPEND | O_NOATIME, O_RDWR}) {
    if (flags == O_RDWR) {
      ASSERT_EQ(fcntl(channel_->fd, F_SETFL, 0), 0);
    }
    EXPECT_EQ(fcntl(channel_->fd, F_GETFL) & ~kLargeFile, flags);
    for (int i = 0; i < 10; ++i) wait_for_one(1ms);
  }
}

// The channel's descriptor has a high number. Files that the device's threads open, such as rings,
// get the lowest free number, so they never take the channel's.
class WaitingAtAHighNumber : public Waiting {
 protected:
  void SetUp() override {
    std::array<int, 64> low;
    for (int& fd : low) fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    Waiting::SetUp();
    for (const int fd : low) EXPECT_EQ(close(fd), 0);
  }
};

// System calls that no wrapper sees give the channel's number to another file, also after many
// waits. The event is there before: an event that the reader itself finds is handed over without a
// look at the number. In the end the number is always the channel's again, because destroying the
// queue waits for its events.
TEST_F(WaitingAtAHighNumber, ANumberThatIsAnotherFileNowIsReadAsThatOne) {
  connect();
  for (int i = 0; i < 50; ++i) wait_for_one();
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  send_one();
  pollfd event{channel_->fd, POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, kPatienceMs), 1);
  const int channel = static_cast<int>(syscall(SYS_dup, channel_->fd));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  char word[16] = {};
  for (const int flags : {0, O_APPEND, O_NOATIME}) {
    EXPECT_EQ(fcntl(ends[0], F_SETFL, flags), 0);
    EXPECT_EQ(syscall(SYS_dup2, ends[0], channel_->fd), channel_->fd);
    EXPECT_EQ(write(ends[1], "nothing of ours", sizeof word), static_cast<ssize_t>(sizeof word));
    EXPECT_EQ(read(channel_->fd, word, sizeof word), static_cast<ssize_t>(sizeof word));
    EXPECT_STREQ(word, "nothing of ours");
    EXPECT_EQ(syscall(SYS_close, channel_->fd), 0);
    EXPECT_EQ(read(channel_->fd, word, sizeof word), -1);
    EXPECT_EQ(errno, EBADF);
    ASSERT_EQ(syscall(SYS_dup2, channel, channel_->fd), channel_->fd);
  }
  for (const int fd : {channel, ends[0], ends[1]}) close(fd);
  EXPECT_TRUE(next_event());
  take(2);
}

// A thread that is blocked when everything is destroyed stays blocked, as on a kernel's channel.
TEST_F(Waiting, TheDeviceMayBeClosedUnderAThreadThatWaits) {
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, &wait_for_ever, channel_), 0);
  std::this_thread::sleep_for(kLongEnough);
  ASSERT_EQ(ibv_destroy_cq(cq_), 0);
  ASSERT_EQ(ibv_dereg_mr(mr_), 0);
  ASSERT_EQ(ibv_dealloc_pd(pd_), 0);
  ASSERT_EQ(ibv_close_device(context_), 0);
  std::this_thread::sleep_for(kLongEnough);
  pthread_cancel(thread);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  Verbs::SetUp();  // TearDown() needs these objects
}

}  // namespace
}  // namespace verbs_test
