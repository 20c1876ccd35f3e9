// SPDX-License-Identifier: BSD-2-Clause
// A thread that is blocked for an event while packets come all the time, which it handles itself.
// Signals and cancellation reach it as they reach one that sleeps.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

using namespace std::chrono_literals;

// The peer writes all the time, which brings packets and no event.
class WaitingUnderAStream : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    make_channel();
    right_ = make();
    left_ = peer_.make();
    to_rtr(right_, left_);
    peer_.to_rtr(left_, right_);
    to_rts(right_);
    peer_.to_rts(left_);
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    sender_ = std::thread([this] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      ibv_send_wr write = peer_.request(IBV_WR_RDMA_WRITE);
      write.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(bytes_);
      write.wr.rdma.rkey = mr_->rkey;
      while (!is_over_) {
        for (int i = 0; i < 16; ++i) peer_.post(left_, write);
        for (int i = 0; i < 16; ++i) ASSERT_EQ(peer_.poll().status, IBV_WC_SUCCESS);
      }
    });
  }
  void TearDown() override {
    is_over_ = true;
    sender_.join();
    peer_.destroy(left_);
    Verbs::TearDown();
  }

  Device peer_;
  std::thread sender_;
  std::atomic<bool> is_over_{false};
};

// Waits until a thread, which does nothing but drive, has worked for some milliseconds.
void await_work_of(pthread_t thread) {
  clockid_t clock{};
  ASSERT_EQ(pthread_getcpuclockid(thread, &clock), 0);
  timespec used{};
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (used.tv_sec == 0 && used.tv_nsec < 5'000'000) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "it does not drive";
    std::this_thread::sleep_for(1ms);
    ASSERT_EQ(clock_gettime(clock, &used), 0);
  }
}

TEST_F(WaitingUnderAStream, ASignalEndsTheWait) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> has_ended{false};
    std::thread waiter([&] {
      ibv_cq* cq = nullptr;
      void* cookie = nullptr;
      EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cookie), -1);
      EXPECT_EQ(errno, EINTR);
      has_ended = true;
    });
    await_work_of(waiter.native_handle());
    EXPECT_EQ(pthread_kill(waiter.native_handle(), SIGUSR1), 0);
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (!has_ended && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(has_ended) << i;
    // If it was lost, others are not, once the stream is over.
    is_over_ = !has_ended;
    while (!has_ended) {
      pthread_kill(waiter.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(30ms);
    }
    waiter.join();
    if (is_over_) break;
  }
  signal(SIGUSR1, SIG_DFL);
}

// The handler runs, and the wait goes on.
TEST_F(WaitingUnderAStream, ASignalThatDoesNotInterruptIsHandled) {
  static std::atomic<int> handled;
  handled = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { ++handled; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  std::thread waiter([&] {
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cookie), 0);
    ibv_ack_cq_events(cq, 1);
  });
  for (int i = 1; i <= 10; ++i) {
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(pthread_kill(waiter.native_handle(), SIGUSR1), 0);
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (handled < i && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    ASSERT_EQ(handled, i);
  }
  receive(right_);
  peer_.post(left_, peer_.request());
  waiter.join();
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  signal(SIGUSR1, SIG_DFL);
}

void* get_an_event(void* channel) {
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  ibv_get_cq_event(static_cast<ibv_comp_channel*>(channel), &cq, &cookie);
  return nullptr;
}

TEST_F(WaitingUnderAStream, TheThreadMayBeCancelled) {
  for (int i = 0; i < 20; ++i) {
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, &get_an_event, channel_), 0);
    usleep(i * 1000);
    pthread_cancel(thread);
    timespec end{};
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 5;
    const int late = pthread_timedjoin_np(thread, nullptr, &end);
    EXPECT_EQ(late, 0) << i;
    if (late != 0) {
      is_over_ = true;
      pthread_join(thread, nullptr);
      break;
    }
  }
}

}  // namespace
}  // namespace verbs_test
