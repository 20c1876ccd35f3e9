// SPDX-License-Identifier: BSD-2-Clause
// How the engine touches pages that may be missing (on-demand and implicit regions), and learns
// whether pages are there when a region is registered. The owner of the device implements it and
// outlives the registry; it is called on any thread, several at once, and must not call back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::memory {

class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  // Both return false instead of crashing. Direct regions are reached by plain copies, not by
  // these.
  virtual bool read(void* to, std::uint64_t address, std::size_t length) noexcept = 0;
  virtual bool write(std::uint64_t address, const void* from, std::size_t length) noexcept = 0;
  // Whether all pages of the range can be read (and written): asked once at registration.
  virtual bool is_mapped(std::uint64_t address, std::size_t length, bool writable) noexcept = 0;
};

// Believes every address: for simulations, whose memory is their own.
MemoryPort& trusting_memory_port();

}  // namespace verbena::memory
