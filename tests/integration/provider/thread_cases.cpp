// SPDX-License-Identifier: BSD-2-Clause
// Threads of a program that end early, or are cancelled. The plugin has threads of its own, which
// an adapter has not.
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "client.hpp"

namespace client {

// main() ends by pthread_exit(). The process ends with its last thread, as if it had called exit().
void leave_main_thread() {
  std::atexit([] { say("exit"); });
  auto* const loop = new Loop;  // the program never closes its device
  std::thread([loop] {
    loop->post_receive(1);
    loop->post_send(2);
    for (int both = 0; both < 2; ++both) EXPECT(loop->poll().status == IBV_WC_SUCCESS);
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
