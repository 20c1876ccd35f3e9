// SPDX-License-Identifier: BSD-2-Clause
#include "time_limit.hpp"

#include <csignal>
#include <utility>

#include "verbena/link/clock.hpp"

namespace verbena::cli {
namespace {

// How often children are killed again, because more may have been started meanwhile.
constexpr TimeNs kKillAgainNs = 50'000'000;

}  // namespace

TimeLimit::TimeLimit(const Children& children, std::optional<TimeNs> after_ns,
                     std::function<void()> is_up)
    : children_(children), is_up_(std::move(is_up)) {
  if (after_ns) next_ = link::monotonic_now_ns() + *after_ns;
}

void TimeLimit::look() {
  const TimeNs now = link::monotonic_now_ns();
  if (now < next_) return;
  if (kill_from_ == kNever) {
    is_exceeded_ = true;
    is_up_();
    return begin_end(link::monotonic_now_ns());
  }
  children_.signal_all(SIGKILL);
  has_given_up_ = now >= kill_from_ + kGraceNs;
  next_ = now + kKillAgainNs;
}

void TimeLimit::end_now() {
  if (kill_from_ == kNever) begin_end(link::monotonic_now_ns());
}

// A process that is stopped ends only when SIGCONT lets it go on.
void TimeLimit::begin_end(TimeNs now) {
  children_.signal_all(SIGTERM);
  children_.signal_all(SIGCONT);
  next_ = kill_from_ = now + kGraceNs;
}

}  // namespace verbena::cli
