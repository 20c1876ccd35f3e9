// SPDX-License-Identifier: BSD-2-Clause
// A forked child has a copy of its parent's device, which is dead in the child.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "client.hpp"

namespace client {

// A child of a process with an open device may use its copy in any way and ends cleanly. The parent
// goes on.
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

}  // namespace client
