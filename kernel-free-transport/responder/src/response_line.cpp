// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/responder/response_line.hpp"

namespace verbena::responder {

bool ResponseLine::truncate(Psn psn) {
  while (!empty()) {
    const Response& last = items_.back();
    if (last.first.is_before(psn)) {
      if ((last.first + last.packets).is_at_or_before(psn)) return false;
      if (last.sent <= static_cast<std::uint32_t>(psn.distance_from(last.first))) return true;
    }
    items_.pop_back();
    --waiting_;
  }
  return false;
}

std::size_t ResponseLine::count_new() const {
  std::size_t n = 0;
  for (std::size_t i = items_.size() - waiting_; i < items_.size(); ++i) {
    n += items_[i].repeated ? 0 : 1;
  }
  return n;
}

const Response* ResponseLine::find_sent(Psn psn) const {
  for (auto r = items_.rbegin(); r != items_.rend(); ++r) {
    if (static_cast<std::uint32_t>(psn.distance_from(r->first)) < r->sent) return &*r;
  }
  return nullptr;
}

void ResponseLine::compact() {
  items_.erase(items_.begin(), items_.end() - static_cast<std::ptrdiff_t>(waiting_));
}

}  // namespace verbena::responder
