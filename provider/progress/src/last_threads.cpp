// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/progress/last_threads.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "verbena/base/lock.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider::last_threads {
namespace {

using Wake = void() noexcept;

constinit Published<bool> is_gone;
constinit Published<bool> is_ending;
constinit Published<TimeNs> next_look;
constinit Counter begun;
constinit Counter ended;

// Called at the end of the first thread, but not in exit().
void on_end(void* wake) {
  is_gone.publish(true);
  reinterpret_cast<Wake*>(wake)();
}

// The state and the number of threads in /proc/PID/stat, where the state is that of the first
// thread. The name is in brackets and may hold anything.
struct Threads {
  char state = 0;
  unsigned count = 0;
};
Threads threads_of_process() noexcept {
  Threads threads;
  std::array<char, 1024> text{};
  const int fd = link::open_file("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return threads;
  const ssize_t size = link::read_bytes(fd, text.data(), text.size() - 1);
  ::close(fd);
  const char* const name_end = size > 0 ? std::strrchr(text.data(), ')') : nullptr;
  if (name_end == nullptr) return threads;
  std::sscanf(name_end, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u",
              &threads.state, &threads.count);
  return threads;
}

// Our threads block all signals, but a program's handlers at exit() may need them.
void* end_process(void*) {
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  std::exit(0);
}

// Returns whether the first thread has ended and all others are ours. A thread of ours that has
// begun or ended meanwhile makes the answer no.
bool is_alone() noexcept {
  const std::uint64_t begun_before = begun.read();
  const std::uint64_t ended_before = ended.read();
  const Threads threads = threads_of_process();
  return threads.state == 'Z' && threads.count == begun_before - ended_before + 1 &&
         begun.read() == begun_before && ended.read() == ended_before;
}

}  // namespace

// A thread_local object would not do: the C library destroys those of the first thread in exit()
// only.
void note_program(Wake* wake) noexcept {
  static const std::optional<pthread_key_t> key = []() -> std::optional<pthread_key_t> {
    pthread_key_t made;
    if (::pthread_key_create(&made, &on_end) != 0) return std::nullopt;
    return made;
  }();
  if (!key || ::gettid() != ::getpid()) return;
  (void)::pthread_setspecific(*key, reinterpret_cast<void*>(wake));
}

bool is_first_gone() noexcept { return is_gone.read(); }

// Ends the process by a further thread: what exit() calls may close a device, and so wait for ours.
void end_process_if_alone() noexcept {
  const TimeNs now = link::monotonic_now_ns();
  if (now < next_look.read()) return;
  next_look.publish(now + times::kLastThreadsLook);
  if (!is_alone() || is_ending.take(true)) return;
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, &end_process, nullptr) == 0) {
    ::pthread_detach(thread);
  } else {
    is_ending.publish(false);
  }
}

void begin_anew() noexcept {
  is_gone.publish(false);
  is_ending.publish(false);
  ended.add(begun.read() - ended.read());
}

void note_begun() noexcept { begun.add(1); }
void note_ended() noexcept { ended.add(1); }

}  // namespace verbena::provider::last_threads
