// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/foreign_memory.hpp"

#include <utility>

#include "verbena/link/system_calls.hpp"

namespace verbena::provider {

void ForeignMemory::adopt(control::UniqueFd memory) {
  const std::lock_guard guard(lock_);
  if (memory_) return;
  memory_ = std::move(memory);
  number_.store(memory_.get(), std::memory_order_release);
}

bool ForeignMemory::read(void* to, std::uint64_t address, std::size_t length) const noexcept {
  return link::read_bytes_at(fd(), to, length, address) == static_cast<ssize_t>(length);
}

bool ForeignMemory::write(std::uint64_t address, const void* from,
                          std::size_t length) const noexcept {
  return link::write_bytes_at(fd(), from, length, address) == static_cast<ssize_t>(length);
}

}  // namespace verbena::provider
