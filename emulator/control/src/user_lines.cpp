// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/user_lines.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include "verbena/base/lock.hpp"
#include "verbena/control/printable.hpp"

namespace verbena::control {
namespace {

// A pipe that is writable takes as much as this at once.
constexpr std::size_t kLine = 768;
constexpr std::size_t kNotice = 96;
constexpr long kPatienceMs = 200;
constexpr long kNsPerMs = 1'000'000;

// The C library's functions would be cancellation points. In the preload library they would also be
// its own wrappers. The kernel's signal set is one word.
using Signals = std::uint64_t;
constexpr Signals only(int signal) { return Signals{1} << (signal - 1); }

// Holds back the signals by which a write kills: SIGPIPE, and SIGXFSZ of a file that may not grow.
// Takes those back that the write of this thread has caused.
class DeadlySignals {
 public:
  DeadlySignals() noexcept {
    ::syscall(SYS_rt_sigpending, &pending_, sizeof pending_);
    ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &kOurs, &before_, sizeof kOurs);
  }
  ~DeadlySignals() {
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_);
  }
  DeadlySignals(const DeadlySignals&) = delete;
  DeadlySignals& operator=(const DeadlySignals&) = delete;

  void take_back(int error) const noexcept {
    const Signals caused = (error == EPIPE   ? only(SIGPIPE)
                            : error == EFBIG ? only(SIGXFSZ)
                                             : 0) &
                           ~pending_;
    if (caused == 0) return;
    const timespec at_once{};
    while (::syscall(SYS_rt_sigtimedwait, &caused, nullptr, &at_once, sizeof caused) < 0 &&
           errno == EINTR) {
    }
  }

 private:
  static constexpr Signals kOurs = only(SIGPIPE) | only(SIGXFSZ);
  Signals pending_ = 0;
  Signals before_ = 0;
};

// Waits until the output takes a line, for the time that is left. Returns false if it does not.
// The kernel subtracts from `left` what has passed.
bool await_room(timespec& left) noexcept {
  pollfd output{STDERR_FILENO, POLLOUT, 0};
  long ready = 0;
  do {
    ready = ::syscall(SYS_ppoll, &output, 1, &left, nullptr, 0);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// Writes the bytes in one call. Returns whether all of them were written.
bool write_at_once(const char* bytes, std::size_t size) noexcept {
  const DeadlySignals held_back;
  long written = 0;
  do {
    written = ::syscall(SYS_write, STDERR_FILENO, bytes, size);
  } while (written < 0 && errno == EINTR);
  if (written < 0) held_back.take_back(errno);
  return written == static_cast<long>(size);
}

// What this process knows of its standard error output.
constinit Lock lock;
constinit std::atomic<bool> is_stuck = false;
constinit std::atomic<std::uint64_t> lost = 0;  // lines since the last one that was written
constinit std::atomic<pid_t> owner = 0;         // the process that this is about

// In a forked child, another thread of the parent may hold the lock for ever, and what was lost is
// the parent's. This room may not register a handler of forks.
void begin_anew_in_child() noexcept {
  const pid_t own = ::getpid();
  if (owner.load() == own) return;
  const pid_t before = owner.exchange(own);
  if (before == 0 || before == own) return;
  lock.unlock();
  is_stuck = false;
  lost = 0;
}

// Takes the lock. Another thread holds it for at most the time that it waits for the reader, so
// this gives up after that time: a signal handler may have interrupted the thread that holds the
// lock.
bool lock_in_time() noexcept {
  constexpr timespec kPause{0, kNsPerMs};
  for (long tries = 0; !lock.try_lock(); ++tries) {
    if (tries == kPatienceMs) return false;
    ::syscall(SYS_nanosleep, &kPause, nullptr);
  }
  return true;
}

// Returns whether the line was written. `line` has room behind its text.
bool write_line(std::span<char, kLine + kNotice> line, std::size_t length) noexcept {
  std::transform(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(length), line.begin(),
                 [](char c) { return printable(c); });
  const std::uint64_t before = lost.load();
  if (before != 0) {
    length += static_cast<std::size_t>(std::snprintf(&line[length], kNotice - 1,
                                                     " (%llu lines before it could not be written)",
                                                     static_cast<unsigned long long>(before)));
  }
  line[length++] = '\n';
  timespec left{0, is_stuck ? 0 : kPatienceMs * kNsPerMs};
  is_stuck = !await_room(left);
  if (is_stuck || !write_at_once(line.data(), length)) return false;
  lost -= before;
  return true;
}

void tell(const char* before, const char* format, std::va_list arguments) noexcept {
  const int saved = errno;
  char line[kLine + kNotice];
  auto length = static_cast<std::size_t>(std::snprintf(line, kLine, "%s", before));
  errno = saved;  // for %m
  const int wanted = std::vsnprintf(line + length, kLine - length, format, arguments);
  if (wanted > 0) length = std::min(length + static_cast<std::size_t>(wanted), kLine - 1);
  begin_anew_in_child();
  bool is_written = false;
  if (lock_in_time()) {
    is_written = write_line(line, length);
    lock.unlock();
  }
  if (!is_written) ++lost;
  errno = saved;
}

}  // namespace

void tell_user(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  tell("verbena: ", format, arguments);
  va_end(arguments);
}

void tell_user_plainly(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  tell("", format, arguments);
  va_end(arguments);
}

}  // namespace verbena::control
