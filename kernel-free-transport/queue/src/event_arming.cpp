// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/event_arming.hpp"

#include <algorithm>

namespace verbena::queue {
namespace {

bool is_behind(std::uint64_t position, std::uint64_t other) {
  return static_cast<std::int64_t>(position - other) > 0;
}

}  // namespace

bool EventArming::tells(std::uint64_t end, bool matters) noexcept {
  if (armed_ != ArmedFor::kAny && !matters) return false;
  if (++since_event_ < moderation_) return false;
  armed_ = ArmedFor::kNothing;
  since_event_ = 0;
  told_end_ = end;
  return true;
}

bool EventArming::moderate(std::uint16_t count, std::uint64_t end) noexcept {
  moderation_ = count;
  if (armed_ == ArmedFor::kNothing || since_event_ == 0 || since_event_ < count) return false;
  if (armed_ == ArmedFor::kSolicited && !is_behind(solicited_end_, told_end_)) return false;
  armed_ = ArmedFor::kNothing;
  since_event_ = 0;
  told_end_ = end;
  return true;
}

// Says whether the queue holds completions that an armed queue would have reported and no event
// has.
bool EventArming::holds_news(std::uint64_t head, std::uint64_t end, bool solicited_only) noexcept {
  for (std::uint64_t* mark : {&solicited_end_, &told_end_}) {
    if (is_behind(head, *mark)) *mark = head;
  }
  since_event_ = std::max(since_event_, end - told_end_);
  return is_behind(solicited_only ? solicited_end_ : end, told_end_) && since_event_ >= moderation_;
}

Arming EventArming::arm(std::uint64_t head, std::uint64_t end, bool solicited_only,
                        bool& fires) noexcept {
  const bool waited = armed_ != ArmedFor::kNothing;
  // A request for any completion is not weakened by a later one for solicited ones.
  solicited_only = solicited_only && armed_ != ArmedFor::kAny;
  fires = holds_news(head, end, solicited_only);
  if (fires) {
    armed_ = ArmedFor::kNothing;
    since_event_ = 0;
    ++told_end_;
    return waited ? Arming::kWaitedBefore : Arming::kFired;
  }
  told_end_ = head;
  armed_ = solicited_only ? ArmedFor::kSolicited : ArmedFor::kAny;
  return waited ? Arming::kWaitedBefore : Arming::kWaits;
}

void EventArming::cut(std::uint64_t head, std::uint64_t end) noexcept {
  // The last remaining completion that matters is not known any more.
  if (is_behind(solicited_end_, head)) solicited_end_ = end;
  if (is_behind(told_end_, end)) told_end_ = end;
}

}  // namespace verbena::queue
