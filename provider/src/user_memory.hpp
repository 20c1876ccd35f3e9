// How the engine learns whether the application's pages are there, and reaches pages that may not
// be (on-demand regions), without a signal. No state; any thread.
#pragma once

#include "verbena/memory/port.hpp"

namespace verbena::provider {

class UserMemory final : public memory::MemoryPort {
 public:
  bool read(void* to, std::uint64_t address, std::size_t length) noexcept override;
  bool write(std::uint64_t address, const void* from, std::size_t length) noexcept override;
  bool is_mapped(std::uint64_t address, std::size_t length, bool writable) noexcept override;
};

}  // namespace verbena::provider
