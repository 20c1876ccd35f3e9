// SPDX-License-Identifier: BSD-2-Clause
// Tells the engine whether the application's pages are there, and accesses pages that may be
// missing (on-demand regions) without a signal. Also accesses the memory of the process from which
// this one imports; that process's addresses are marked here. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/memory/port.hpp"
#include "verbena/objects/foreign_memory.hpp"

namespace verbena::provider {

class UserMemory final : public memory::MemoryPort {
 public:
  // No region of this process goes beyond this address. Marked addresses begin above it.
  static constexpr std::uint64_t kUserSpaceEnd = std::uint64_t{1} << 48;

  bool read(void* to, std::uint64_t address, std::size_t length) noexcept override;
  bool write(std::uint64_t address, const void* from, std::size_t length) noexcept override;
  bool is_mapped(std::uint64_t address, std::size_t length, bool writable) noexcept override;

  ForeignMemory& foreign() noexcept { return foreign_; }
  // Returns the marked address by which `address` of the other process is known here.
  static std::uint64_t foreign_address(std::uint64_t address) noexcept;

 private:
  ForeignMemory foreign_;
};

}  // namespace verbena::provider
