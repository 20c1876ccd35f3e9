// SPDX-License-Identifier: BSD-2-Clause
// A forked child has a copy of its parent's device, which is dead in the child.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
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

}  // namespace client
