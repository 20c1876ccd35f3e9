#include "verbena/memory/pin.hpp"

namespace verbena::memory {

bool Pin::paged_compare_swap(std::uint64_t compare, std::uint64_t swap,
                             std::uint64_t* original) const noexcept {
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

bool Pin::paged_fetch_add(std::uint64_t add, std::uint64_t* original) const noexcept {
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
