// SPDX-License-Identifier: BSD-2-Clause
// A forked child has a copy of its parent's device, which is dead in the child.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include "client.hpp"

namespace client {

// A child of a process with an open device, whose other threads are in no verb, may use its copy in
// any way and ends cleanly. The parent goes on.
void fork_and_go_on() {
  Loop loop;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    EXPECT(child >= 0);
    if (child == 0) {
      EXPECT(ibv_alloc_pd(loop.context) == nullptr && errno == EIO);
      ibv_wc wc;
      if (round % 2 == 0) {
        for (int i = 0; i < 100; ++i) ibv_poll_cq(loop.cq, 1, &wc);
        loop.destroy();
      }
      std::exit(0);
    }
    loop.post_receive(1);
    loop.post_send(2);
    EXPECT(loop.poll().status == IBV_WC_SUCCESS);
    EXPECT(loop.poll().status == IBV_WC_SUCCESS);
    int status = 0;
    EXPECT(::waitpid(child, &status, 0) == child && status == 0);
  }
  loop.destroy();
}

// A child closes its copy of a device although, at the moment of the fork, other threads of the
// parent used queue pairs of it and so may have held their locks.
void fork_beside_busy_threads() {
  constexpr int kForks = 400;
  std::array<Loop, 2> loops;
  std::atomic<bool> has_ended{false};
  std::vector<std::thread> busy;
  for (Loop& loop : loops) {
    busy.emplace_back([&loop, &has_ended] {
      while (!has_ended) {
        loop.post_receive(1);
        loop.post_send(2);
        for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
      }
    });
  }
  for (int round = 0; round < kForks; ++round) {
    const pid_t child = ::fork();
    EXPECT(child >= 0);
    if (child == 0) {
      ::alarm(20);
      for (const Loop& loop : loops) EXPECT(ibv_close_device(loop.context) == 0);
      std::_Exit(0);
    }
    int status = 0;
    EXPECT(::waitpid(child, &status, 0) == child && status == 0);
  }
  has_ended = true;
  for (std::thread& thread : busy) thread.join();
  for (Loop& loop : loops) loop.destroy();
}

// One of two devices whose queue pairs are connected to each other.
class Partner {
 public:
  Partner() : loop_(false), qp(make_qp(loop_.pd, loop_.cq)) {
    ibv_port_attr port;
    EXPECT(ibv_query_port(loop_.context, 1, &port) == 0);
    lid_ = port.lid;
  }
  void join(const Partner& other) { connect(qp, {other.lid_, other.qp->qp_num, 1}, 1); }
  void receive() {
    ibv_sge part{reinterpret_cast<std::uintptr_t>(loop_.memory.data()), 64, loop_.mr->lkey};
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = &part;
    wr.num_sge = 1;
    EXPECT(ibv_post_recv(qp, &wr, &bad) == 0);
  }
  void send() {
    ibv_sge part{reinterpret_cast<std::uintptr_t>(loop_.memory.data()) + 64, 64, loop_.mr->lkey};
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.sg_list = &part;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    EXPECT(ibv_post_send(qp, &wr, &bad) == 0);
  }
  // Answers each message, until there is a word that all is over.
  void answer(const std::atomic<bool>& has_ended) {
    ibv_wc wc;
    while (!has_ended) {
      if (ibv_poll_cq(loop_.cq, 1, &wc) == 0) continue;
      EXPECT(wc.status == IBV_WC_SUCCESS);
      if (wc.opcode != IBV_WC_RECV) continue;
      receive();
      send();
    }
  }
  void close() { EXPECT(ibv_close_device(loop_.context) == 0); }
  void end() {
    EXPECT(ibv_destroy_qp(qp) == 0);
    loop_.destroy();
  }

 private:
  Loop loop_;

 public:
  ibv_qp* qp;

 private:
  std::uint32_t lid_ = 0;
};

// In an exchange nearly every acknowledgement is held until the next message takes it along. The
// child must neither wait for a lock that a post holds for that, nor send what is the parent's.
void fork_beside_an_exchange() {
  constexpr int kForks = 400;
  std::array<Partner, 2> partners;
  partners[0].join(partners[1]);
  partners[1].join(partners[0]);
  for (Partner& partner : partners) partner.receive();
  std::atomic<bool> has_ended{false};
  std::vector<std::thread> busy;
  for (Partner& p : partners) busy.emplace_back([&] { p.answer(has_ended); });
  partners[0].send();
  for (int round = 0; round < kForks; ++round) {
    const pid_t child = ::fork();
    EXPECT(child >= 0);
    if (child == 0) {
      ::alarm(20);
      for (Partner& partner : partners) partner.close();
      std::_Exit(0);
    }
    int status = 0;
    EXPECT(::waitpid(child, &status, 0) == child && status == 0);
  }
  has_ended = true;
  for (std::thread& thread : busy) thread.join();
  for (Partner& partner : partners) partner.end();
}

// The reader goes on sleeping, and gets its event.
void fork_beside_a_blocked_reader() {
  constexpr double kMostSeconds = 0.25;
  Loop loop(true);
  EXPECT(ibv_req_notify_cq(loop.cq, 0) == 0);
  std::thread reader([&loop] {
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    EXPECT(ibv_get_cq_event(loop.channel, &cq, &cookie) == 0);
    ibv_ack_cq_events(cq, 1);
  });
  ::usleep(100'000);
  const pid_t child = ::fork();
  EXPECT(child >= 0);
  if (child == 0) {
    ::alarm(20);
    EXPECT(ibv_close_device(loop.context) == 0);
    std::_Exit(0);
  }
  int status = 0;
  EXPECT(::waitpid(child, &status, 0) == child && status == 0);
  const std::clock_t before = std::clock();
  ::usleep(1'000'000);
  const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  if (used > kMostSeconds) fail("a blocked reader has used %.2f s of a processor in 1 s", used);
  loop.post_receive(1);
  loop.post_send(2);
  reader.join();
  for (int both = 0; both < 2; ++both) EXPECT(loop.poll().status == IBV_WC_SUCCESS);
  loop.destroy();
}

}  // namespace client
