// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/report/explain.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "verbena/base/lock.hpp"
#include "verbena/control/user_lines.hpp"
#include "verbena/report/repeats.hpp"
#include "verbena/report/setting.hpp"

namespace verbena::provider {
namespace {

constexpr std::size_t kLine = 768;
// A thread that holds the lock is done soon, unless it waits for this one, whose signal handler
// came in between.
constexpr int kTriesToLock = 1000;

bool log_has(const char* word) {
  const char* log = setting("VERBENA_LOG");
  return log != nullptr && std::strstr(log, word) != nullptr;
}

// Returns whether to print repeated lines as well.
bool explains_all() noexcept {
  static const bool wanted = log_has("explain-all");
  return wanted;
}

constinit Lock lock_of_repeats;
constinit Repeats repeats;

// The lines that were left out are the parent's, and one of its threads may hold the lock for ever.
void begin_anew_in_child() noexcept {
  std::construct_at(&lock_of_repeats);
  repeats.forget();
}
[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, &begin_anew_in_child);

// Runs `f` under the lock. Returns false if it did not get the lock.
template <typename F>
bool with_repeats(F&& f) noexcept {
  int tries = kTriesToLock;
  while (!lock_of_repeats.try_lock()) {
    if (--tries == 0) return false;
    ::sched_yield();
  }
  f(repeats);
  lock_of_repeats.unlock();
  return true;
}

void write_line(std::string_view text, const char* behind) noexcept {
  control::tell_user("%s[%d]: %.*s%s", program_invocation_short_name, static_cast<int>(::getpid()),
                     static_cast<int>(text.size()), text.data(), behind);
}

void say(const char* format, std::va_list arguments) noexcept {
  const int saved = errno;
  char text[kLine];
  const int wanted = std::vsnprintf(text, sizeof text, format, arguments);
  const std::string_view line(
      text, std::min<std::size_t>(wanted < 0 ? 0 : static_cast<std::size_t>(wanted), kLine - 1));
  Repeats::Verdict verdict;
  if (!explains_all()) with_repeats([&](Repeats& all) { verdict = all.note(line); });
  char count[64] = "";
  if (verdict.count >= 10) {
    std::snprintf(count, sizeof count,
                  verdict.is_mixed ? " (%llu lines of further kinds so far)"
                                   : " (such a line for the %lluth time)",
                  static_cast<unsigned long long>(verdict.count));
  }
  if (verdict.says) write_line(line, count);
  errno = saved;
}

__attribute__((destructor)) void tell_what_was_left_out() {
  if (!explains()) return;
  with_repeats([](Repeats& all) {
    all.for_each_left_out([](std::string_view line, std::uint64_t count, bool is_mixed) {
      char behind[96];
      std::snprintf(behind, sizeof behind, " (and %llu more %s that were left out)",
                    static_cast<unsigned long long>(count - 1),
                    is_mixed ? "lines of further kinds" : "such lines");
      write_line(line, count > 1 ? behind : "");
    });
  });
}

}  // namespace

bool explains() noexcept {
  static const bool wanted = log_has("explain");
  return wanted;
}

void explain(const char* format, ...) noexcept {
  if (!explains()) return;
  std::va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

int refusal(int error, const char* format, ...) noexcept {
  if (explains()) {
    std::va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
  }
  errno = error;
  return error;
}

void refuse(int error, const char* format, ...) {
  if (explains()) {
    std::va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
  }
  throw VerbRefused{error};
}

}  // namespace verbena::provider
