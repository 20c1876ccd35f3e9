// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/limits/fair_share.hpp"

#include "verbena/base/check.hpp"

namespace verbena::limits {

bool FairShare::may_take(Holder holder, std::size_t count) const {
  if (count == 0) return true;
  if (count > left()) return false;
  // A client that has nothing is not limited by its share, so that it can get even the last unit.
  const std::size_t held = held_by(holder);
  return held == 0 || held + count <= left() - count;
}

void FairShare::take(Holder holder, std::size_t count) {
  if (count == 0) return;
  held_[holder] += count;
  used_ += count;
}

bool FairShare::try_take(Holder holder, std::size_t count) {
  if (!may_take(holder, count)) return false;
  take(holder, count);
  return true;
}

void FairShare::give_back(Holder holder, std::size_t count) {
  if (count == 0) return;
  const auto found = held_.find(holder);
  VERBENA_CHECK(found != held_.end() && found->second >= count);
  found->second -= count;
  used_ -= count;
  if (found->second == 0) held_.erase(found);
}

std::size_t FairShare::held_by(Holder holder) const {
  const auto found = held_.find(holder);
  return found == held_.end() ? 0 : found->second;
}

}  // namespace verbena::limits
