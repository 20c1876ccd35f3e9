// SPDX-License-Identifier: BSD-2-Clause
// Threads of a program that are cancelled.
#include <pthread.h>
#include <unistd.h>

#include "client.hpp"

namespace client {

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
