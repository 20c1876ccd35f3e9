// SPDX-License-Identifier: BSD-2-Clause
// Threads of a program that end early, or are cancelled. The plugin has threads of its own, which
// an adapter has not.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "client.hpp"

namespace client {

// main() ends by pthread_exit(). The process ends with its last thread, as if it had called exit().
void leave_main_thread() {
  std::atexit([] {
    sigset_t blocked;
    ::sigemptyset(&blocked);
    EXPECT(::pthread_sigmask(SIG_SETMASK, nullptr, &blocked) == 0);
    say("exit, SIGTERM blocked: %d", ::sigismember(&blocked, SIGTERM));
  });
  auto* const loop = new Loop;  // the program never closes its device
  std::thread([loop] {
    loop->post_receive(1);
    loop->post_send(2);
    for (int both = 0; both < 2; ++both) EXPECT(loop->poll().status == IBV_WC_SUCCESS);
    // Threads of the plugin come and go while this one works.
    for (int round = 0; round < 200; ++round) {
      Loop another;
      another.destroy();
    }
    constexpr useconds_t kLongerThanTwoLooks = 500'000;
    ::usleep(kLongerThanTwoLooks);
    say("worked");
  }).detach();
  ::pthread_exit(nullptr);
}

// A thread that is cancelled while it closes a device ends; its process does not.
void cancel_a_close() {
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    pthread_t thread;
    EXPECT(::pthread_create(
               &thread, nullptr,
               [](void* context) -> void* {
                 ibv_close_device(static_cast<ibv_context*>(context));
                 return nullptr;
               },
               open_first()) == 0);
    ::usleep(static_cast<useconds_t>(round) * 10);
    ::pthread_cancel(thread);
    EXPECT(::pthread_join(thread, nullptr) == 0);
  }
}

}  // namespace client
