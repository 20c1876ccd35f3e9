// SPDX-License-Identifier: BSD-2-Clause
// A signal's handler that leaves ibv_get_cq_event by a jump, as programs with a time limit do. The
// channel and its device stay usable.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongEnough = 30ms;  // for a thread to fall asleep

sigjmp_buf way_out;
std::atomic<int> handled;

void leave(int) { ::siglongjmp(way_out, 1); }

void jump_about(int) {
  jmp_buf here;
  if (::setjmp(here) == 0) ::longjmp(here, 1);
  ++handled;
}

class Jumping : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    make_channel();
    connect();
  }
  void TearDown() override {
    signal(SIGUSR1, SIG_DFL);
    Verbs::TearDown();
  }
  static void handle(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
  }
  void wait_and_jump(std::chrono::milliseconds after = kLongEnough) {
    std::thread sender([after, to = pthread_self()] {
      std::this_thread::sleep_for(after);
      EXPECT_EQ(pthread_kill(to, SIGUSR1), 0);
    });
    if (::sigsetjmp(way_out, 1) == 0) {
      ibv_cq* cq = nullptr;
      void* cookie = nullptr;
      ibv_get_cq_event(channel_, &cq, &cookie);
      ADD_FAILURE() << "ibv_get_cq_event returned";
    }
    sender.join();
  }
  // Another thread waits for the event of a message.
  void expect_an_event() {
    std::thread sender([&] {
      std::this_thread::sleep_for(kLongEnough);
      receive(right_);
      post(left_, request());
    });
    std::atomic<bool> has_come{false};
    std::thread waiter([&] {
      ibv_cq* cq = nullptr;
      void* cookie = nullptr;
      EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cookie), 0);
      ibv_ack_cq_events(cq, 1);
      has_come = true;
    });
    sender.join();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (!has_come && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(has_come);
    ibv_wc wc;
    while (!has_come && ibv_poll_cq(cq_, 1, &wc) >= 0) std::this_thread::sleep_for(1ms);
    waiter.join();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  }
};

TEST_F(Jumping, AnotherThreadGetsTheNextEvent) {
  handle(&leave);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    wait_and_jump();
    expect_an_event();
    if (HasFailure()) break;
  }
}

// The device is closed by TearDown.
TEST_F(Jumping, TheDeviceMayBeClosed) {
  handle(&leave);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  wait_and_jump();
}

// The handler interrupts a read in which a handler waits for an event as well.
TEST_F(Jumping, OutOfAWaitWithinAHandler) {
  static ibv_comp_channel* channel;
  channel = channel_;
  handle(&leave);
  struct sigaction action {};
  action.sa_handler = [](int) {
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    ibv_get_cq_event(channel, &cq, &cookie);
  };
  sigaction(SIGUSR2, &action, nullptr);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  std::thread sender([to = pthread_self()] {
    std::this_thread::sleep_for(kLongEnough);
    pthread_kill(to, SIGUSR2);
  });
  wait_and_jump(3 * kLongEnough);
  sender.join();
  signal(SIGUSR2, SIG_DFL);
  expect_an_event();
}

// A jump within the handler leaves the wait as it is.
TEST_F(Jumping, WithinAHandlerTheWaitGoesOn) {
  handle(&jump_about);
  handled = 0;
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  std::thread sender([&, to = pthread_self()] {
    for (int i = 1; i <= 5; ++i) {
      std::this_thread::sleep_for(kLongEnough);
      pthread_kill(to, SIGUSR1);
    }
    std::this_thread::sleep_for(kLongEnough);
    receive(right_);
    post(left_, request());
  });
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cookie), 0);
  ibv_ack_cq_events(cq, 1);
  sender.join();
  EXPECT_EQ(handled, 5);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  expect_an_event();
}

}  // namespace
}  // namespace verbs_test
