// SPDX-License-Identifier: BSD-2-Clause
// Ends children that do not end by themselves: with TERM, and after a grace with KILL, again and
// again until none is left. It begins when the time is up (--timeout), or when it is asked for.
#pragma once

#include <functional>
#include <optional>

#include "children.hpp"
#include "verbena/base/types.hpp"

namespace verbena::cli {

class TimeLimit {
 public:
  static constexpr TimeNs kGraceNs = 5'000'000'000;

  // `after_ns` counts from now on; nothing: no limit. `is_up` is called once when the time is up,
  // before any child is ended.
  TimeLimit(const Children& children, std::optional<TimeNs> after_ns, std::function<void()> is_up);

  // Must be called after each wait, which may last until next().
  void look();
  TimeNs next() const { return next_; }
  void end_now();

  bool is_exceeded() const { return is_exceeded_; }
  // Some children take no signal of ours, because they belong to another user by now.
  bool has_given_up() const { return has_given_up_; }

 private:
  void begin_end(TimeNs now);

  const Children& children_;
  std::function<void()> is_up_;
  TimeNs next_ = kNever;
  TimeNs kill_from_ = kNever;
  bool is_exceeded_ = false;
  bool has_given_up_ = false;
};

}  // namespace verbena::cli
