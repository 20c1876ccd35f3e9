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
    if (begin_ == items_.size()) clear();
  }
  return false;
}

std::size_t ResponseLine::count_new() const {
  std::size_t n = 0;
  for (std::size_t i = begin_; i < items_.size(); ++i) n += items_[i].repeated ? 0 : 1;
  return n;
}

void ResponseLine::compact() {
  items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
}

}  // namespace verbena::responder
