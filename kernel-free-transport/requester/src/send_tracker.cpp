// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/requester/send_tracker.hpp"

namespace verbena::requester {

void SendTracker::skip_all() {
  psns_.skip_all();
  cursor_ = queue_.head();
  responses_pending_ = reads_in_flight_ = 0;
  resume();
}

void SendTracker::reset() {
  queue_.clear();
  psns_ = {};
  cursor_ = 0;
  responses_pending_ = reads_in_flight_ = 0;
  resume();
}

std::uint64_t SendTracker::unsent_bytes(std::uint32_t mtu) const {
  if (!has_unsent()) return 0;
  const SendEntry& first = queue_.at(cursor_);
  const std::uint64_t sent =
      first.numbered
          ? std::uint64_t{static_cast<std::uint32_t>(psns_.cursor().distance_from(first.first))} *
                mtu
          : 0;
  const std::uint64_t rest = first.length - std::min<std::uint64_t>(sent, first.length);
  return rest + std::uint64_t{unsent() - 1} * queue_.at(queue_.tail() - 1).length;
}

std::uint32_t SendTracker::place_of(Psn psn) const {
  std::uint32_t position = queue_.head();
  for (; position != queue_.tail(); ++position) {
    const SendEntry& entry = queue_.at(position);
    if (entry.is_local()) {
      if (!entry.done) break;
      continue;
    }
    if (!entry.numbered || psn.is_at_or_before(entry.last())) break;
  }
  return position;
}

void SendTracker::go_back_to(Psn psn) {
  reads_in_flight_ = 0;
  resume();
  cursor_ = place_of(psn);
  psns_.move_cursor(psn);
}

SendTracker::Reach SendTracker::reach_before_data(Psn upto) const {
  Psn reached = psns_.una();
  for (std::uint32_t p = queue_.head(); p != queue_.tail() && reached.is_before(upto); ++p) {
    const SendEntry& entry = queue_.at(p);
    if (entry.is_local()) continue;
    if (!entry.numbered) break;
    const Psn end = entry.last() + 1;
    if (end.is_at_or_before(reached)) continue;
    if (entry.wants_response()) return {reached, false};
    reached = end.is_before(upto) ? end : upto;
  }
  return {reached, true};
}

bool SendTracker::is_consistent() const {
  if (!psns_.is_consistent()) return false;
  if (cursor_ - queue_.head() > queue_.tail() - queue_.head()) return false;
  std::uint32_t pending = 0;
  for (std::uint32_t p = queue_.head(); p != queue_.tail(); ++p) {
    const SendEntry& entry = queue_.at(p);
    if (entry.numbered && entry.wants_response()) ++pending;
  }
  return pending == responses_pending_;
}

}  // namespace verbena::requester
