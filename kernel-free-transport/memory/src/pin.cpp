// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/memory/pin.hpp"

#include "table.hpp"

namespace verbena::memory {

bool Pin::is_whole(std::uint64_t offset, std::size_t length) const noexcept {
  auto& table = static_cast<Registry::Table&>(*paged_);
  const std::uint64_t begin = address(offset);
  return table.ranges.is_whole(table.node_of(Registry::Slot::of(*gate_)), {begin, begin + length});
}

bool Pin::rare_compare_swap(std::uint64_t compare, std::uint64_t swap,
                            std::uint64_t* original) const noexcept {
  if (reach_ == Reach::kTorn) {
    return is_whole(0, sizeof swap) && guarded_compare_swap(word(), compare, swap, original);
  }
  if (reach_ == Reach::kNull) {
    *original = 0;
    return true;
  }
  const Guard guard(paged_->atomics);
  std::uint64_t before = 0;
  if (!paged_->port->read(&before, address(0), sizeof before)) return false;
  if (before == compare && !paged_->port->write(address(0), &swap, sizeof swap)) return false;
  *original = before;
  return true;
}

bool Pin::rare_fetch_add(std::uint64_t add, std::uint64_t* original) const noexcept {
  if (reach_ == Reach::kTorn) {
    return is_whole(0, sizeof add) && guarded_fetch_add(word(), add, original);
  }
  if (reach_ == Reach::kNull) {
    *original = 0;
    return true;
  }
  const Guard guard(paged_->atomics);
  std::uint64_t before = 0;
  if (!paged_->port->read(&before, address(0), sizeof before)) return false;
  const std::uint64_t after = before + add;
  if (!paged_->port->write(address(0), &after, sizeof after)) return false;
  *original = before;
  return true;
}

}  // namespace verbena::memory
