// SPDX-License-Identifier: BSD-2-Clause
// How the engine touches pages that may be missing (on-demand and implicit regions), and how it
// learns at registration whether pages are there. The owner of the device implements it, and it
// outlives the registry. Several threads may call it at once. It must not call back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::memory {

class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  // Read and write return false instead of crashing. Direct regions use plain copies instead.
  virtual bool read(void* to, std::uint64_t address, std::size_t length) noexcept = 0;
  virtual bool write(std::uint64_t address, const void* from, std::size_t length) noexcept = 0;
  // Says whether all pages of the range can be read (and written). Called once, at registration.
  virtual bool is_mapped(std::uint64_t address, std::size_t length, bool writable) noexcept = 0;
};

// Returns a port that trusts every address, for simulations, whose memory is their own.
MemoryPort& trusting_memory_port();

}  // namespace verbena::memory
