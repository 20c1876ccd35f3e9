// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/device/shared_receives.hpp"

#include <algorithm>

#include "verbena/base/types.hpp"

namespace verbena::device {

void SharedReceives::add_slot(std::uint32_t slot, UnpredictableRandom& random) {
  const Guard guard(lock_);
  // The number 0 means no SRQ.
  slots_.push_back({slot, NumberPool(random, slot == 0 ? 1 : 0)});
}

bool SharedReceives::add(queue::SharedReceive& shared) {
  const Guard guard(lock_);
  for (Slot& slot : slots_) {
    const auto index = slot.numbers.take();
    if (!index) continue;
    shared.number = Qpn::from(slot.number, *index).value();
    try {
      all_.emplace(shared.number, &shared);
    } catch (...) {
      slot.numbers.give_back(*index);
      throw;
    }
    return true;
  }
  return false;
}

void SharedReceives::remove(const queue::SharedReceive& shared) {
  const Guard guard(lock_);
  if (all_.erase(shared.number) == 0) return;
  const Qpn number(shared.number);
  for (Slot& slot : slots_) {
    if (slot.number == number.slot()) slot.numbers.give_back(number.index());
  }
}

queue::SharedReceive* SharedReceives::find(std::uint32_t number,
                                           std::uint32_t xrc_domain) const noexcept {
  const Guard guard(lock_);
  const auto found = all_.find(number);
  if (found == all_.end() || found->second->xrc_domain != xrc_domain) return nullptr;
  return found->second;
}

bool SharedReceives::is_own(std::uint32_t number) const noexcept {
  const std::uint32_t slot = Qpn(number).slot();
  const Guard guard(lock_);
  return std::ranges::any_of(slots_, [slot](const Slot& s) { return s.number == slot; });
}

}  // namespace verbena::device
