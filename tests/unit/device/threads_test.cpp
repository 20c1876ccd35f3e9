// SPDX-License-Identifier: BSD-2-Clause
// The device under several threads at once, like an application and its progress thread: some post
// and poll on several queue pairs, one receives for each device, and one changes states, regions
// and queue pairs. ThreadSanitizer judges most of it. The test itself checks that every request
// completes once.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <thread>

#include "host.hpp"

namespace verbena {
namespace {

constexpr std::size_t kQps = 4;
constexpr std::size_t kThreads = 3;
constexpr std::uint64_t kPerThread = 1500;
constexpr std::uint64_t kLosesEach = 50;

// An atomic's result goes to memory from which nothing is sent, because the test must not race.
bool post(Host& host, qp::QueuePair& qp, Host& peer, std::uint64_t id, std::uint64_t slot) {
  const bool brings = id % 4 == 2;
  const queue::Sge sge{
      reinterpret_cast<std::uint64_t>(host.bytes.data()) + 1024 * slot + (brings ? 512 : 0),
      static_cast<std::uint32_t>(brings ? 8 : 300), host.key};
  queue::SendRequest r;
  r.id = id;
  r.flags = queue::kSignaled;
  r.sges = {&sge, 1};
  r.remote_address = reinterpret_cast<std::uint64_t>(peer.bytes.data()) + 32'768 + 1024 * slot;
  r.remote_key = peer.key;
  constexpr queue::WorkOpcode kinds[] = {queue::WorkOpcode::kWrite, queue::WorkOpcode::kSend,
                                         queue::WorkOpcode::kFetchAdd, queue::WorkOpcode::kWrite};
  r.opcode = kinds[id % 4];
  {
    const Guard guard(qp.lock());
    if (qp.post_send(r) != requester::Posted::kOk) return false;
  }
  host.device.doorbell(qp, host.now);
  return true;
}

class Threads : public testing::Test {
 protected:
  Threads() : a(0, kLosesEach), b(1, kLosesEach) {
    set_lock_waiter(
        {[](std::atomic<std::uint32_t>*, std::uint32_t) noexcept { std::this_thread::yield(); },
         [](std::atomic<std::uint32_t>*) noexcept {}});
    a.peer = &b;
    b.peer = &a;
    for (std::size_t i = 0; i < kQps; ++i) {
      left.push_back(a.create_qp());
      right.push_back(b.create_qp());
      bring_up(a, *left[i], b, *right[i]);
      bring_up(b, *right[i], a, *left[i]);
    }
    for (Host* host : {&a, &b}) {
      receivers.emplace_back([host, this] {
        while (!stop) {
          // The host's clock counts the rounds.
          const TimeNs time = host->now.fetch_add(20'000) + 20'000;
          const auto how = time / 20'000 % 2 == 0 ? device::Acknowledge::kNow
                                                  : device::Acknowledge::kUnlessAnswered;
          if (host->receive(time, how) == 0) std::this_thread::yield();
        }
      });
    }
  }
  ~Threads() override {
    finish();
    for (auto* qp : left) a.device.destroy_qp(qp);
    for (auto* qp : right) b.device.destroy_qp(qp);
  }
  void finish() {
    stop = true;
    for (auto& t : receivers) t.join();
    receivers.clear();
  }
  // Keeps posting receives for the SENDs.
  void keep_receiving() {
    queue::Completion c;
    const queue::Sge sge{reinterpret_cast<std::uint64_t>(b.bytes.data()), 512, b.key};
    for (auto* qp : right) {
      for (int i = 0; i < 64; ++i) (void)qp->post_receive({1, {&sge, 1}});
    }
    while (!stop) {
      if (!b.receive_cq.poll_one(c)) {
        std::this_thread::yield();
        continue;
      }
      for (auto* qp : right) {
        if (qp->number().value() == c.qpn) (void)qp->post_receive({1, {&sge, 1}});
      }
    }
  }

  Host a, b;
  std::vector<qp::QueuePair*> left, right;
  std::atomic<bool> stop{false};
  std::vector<std::thread> receivers;
};

TEST_F(Threads, PostAndPollOnSharedQueuePairs) {
  receivers.emplace_back([this] { keep_receiving(); });
  std::mutex mutex;
  std::map<std::uint64_t, int> completed;
  std::vector<std::thread> workers;
  for (std::size_t t = 0; t < kThreads; ++t) {
    workers.emplace_back([&, t] {
      std::uint64_t posted = 0;
      std::array<queue::Completion, 16> done;
      for (;;) {
        if (posted < kPerThread &&
            post(a, *left[(posted + t) % kQps], b, posted * kThreads + t, t)) {
          ++posted;
        }
        const std::size_t n = a.send_cq.poll(done);
        const std::lock_guard guard(mutex);
        for (std::size_t i = 0; i < n; ++i) {
          if (done[i].status == queue::Status::kSuccess) ++completed[done[i].id];
        }
        if (posted == kPerThread && completed.size() == kThreads * kPerThread) return;
        if (n == 0) std::this_thread::yield();
      }
    });
  }
  for (auto& w : workers) w.join();
  for (const auto& [id, times] : completed) EXPECT_EQ(times, 1) << id;
  EXPECT_EQ(completed.size(), kThreads * kPerThread);
}

// Objects come and go, and a queue pair changes its state, while others work.
TEST_F(Threads, ChangeStatesAndObjectsBesideTraffic) {
  receivers.emplace_back([this] { keep_receiving(); });
  std::atomic<bool> done{false};
  std::thread changer([&] {
    while (!done) {
      qp::QueuePair* x = a.create_qp();
      qp::QueuePair* y = b.create_qp();
      bring_up(a, *x, b, *y);
      bring_up(b, *y, a, *x);
      const std::uint32_t key = a.register_all();
      for (std::uint64_t i = 0; i < 8; ++i) post(a, *x, b, i * 4, 5);
      qp::Attributes to;
      to.state = qp::State::kError;
      (void)a.device.modify_qp(*x, to, qp::kMaskState, a.now);
      (void)a.device.memory().deregister(key);
      a.device.destroy_qp(x);
      b.device.destroy_qp(y);
    }
  });
  // The last pair goes to error and comes back, while a thread posts receives to it.
  std::thread resetter([&] {
    while (!done) {
      for (const qp::State s : {qp::State::kError, qp::State::kReset}) {
        qp::Attributes to;
        to.state = s;
        (void)b.device.modify_qp(*right[3], to, qp::kMaskState, b.now);
        (void)a.device.modify_qp(*left[3], to, qp::kMaskState, a.now);
      }
      bring_up(a, *left[3], b, *right[3]);
      bring_up(b, *right[3], a, *left[3]);
      const queue::Sge sge{reinterpret_cast<std::uint64_t>(b.bytes.data()), 512, b.key};
      (void)right[3]->post_receive({1, {&sge, 1}});
    }
  });
  std::uint64_t posted = 0, completed = 0;
  queue::Completion c;
  while (completed < kPerThread) {
    if (posted < kPerThread && post(a, *left[posted % 3], b, 1'000'000 + posted, 1)) ++posted;
    while (a.send_cq.poll_one(c)) completed += c.id >= 1'000'000 ? 1 : 0;
    EXPECT_TRUE(c.id < 1'000'000 || c.status == queue::Status::kSuccess);
  }
  done = true;
  changer.join();
  resetter.join();
  EXPECT_EQ(completed, kPerThread);
}

}  // namespace
}  // namespace verbena
