// SPDX-License-Identifier: BSD-2-Clause
// A granted access to user memory: what Registry::pin returns and the only way to the bytes. While
// a Pin lives, its region or window cannot be withdrawn, so its owner (one thread at a time) holds
// it for the length of one copy, or until the batch that borrowed the bytes was sent, and meanwhile
// waits for nobody who may withdraw something. Offsets count from the address that was asked for;
// the caller stays within the length that was granted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "verbena/base/guarded_copy.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/memory/ordered_copy.hpp"
#include "verbena/memory/port.hpp"

namespace verbena::memory {

// How the bytes behind a key are reached: by guarded copies, so too where they were not taken away,
// through the memory port, or not at all.
enum class Reach : std::uint8_t { kDirect, kTorn, kOnDemand, kNull };

// What is the same for all pins of a registry; the table's base. How pages that may be missing are
// reached.
struct PagedMemory {
  MemoryPort* port = nullptr;
  // Read, decide, write: atomics on such pages are atomic among the registry's own only.
  Lock atomics;
};

// Move-only; the destructor lets go.
class Pin {
 public:
  Pin() = default;
  Pin(Pin&& other) noexcept
      : gate_(std::exchange(other.gate_, nullptr)),
        bytes_(other.bytes_),
        paged_(other.paged_),
        reach_(other.reach_) {}
  Pin& operator=(Pin&& other) noexcept {
    if (this != &other) {
      release();
      gate_ = std::exchange(other.gate_, nullptr);
      bytes_ = other.bytes_;
      paged_ = other.paged_;
      reach_ = other.reach_;
    }
    return *this;
  }
  ~Pin() { release(); }

  explicit operator bool() const noexcept { return gate_ != nullptr; }
  void release() noexcept {
    if (gate_ != nullptr) std::exchange(gate_, nullptr)->leave();
  }

  // Hands over to whoever leaves the gate instead, as soon as this pin would have to.
  Gate& detach() noexcept { return *std::exchange(gate_, nullptr); }

  // False: a page is not there, or its owner has protected it (kNotMapped). Never for null regions.
  bool read(void* to, std::uint64_t offset, std::size_t length) const noexcept {
    if (length == 0) return true;
    switch (reach_) {
      case Reach::kDirect:
        return guarded_copy(to, bytes_ + offset, length);
      case Reach::kTorn:
        return is_whole(offset, length) && guarded_copy(to, bytes_ + offset, length);
      case Reach::kOnDemand:
        return paged_->port->read(to, address(offset), length);
      case Reach::kNull:
        std::memset(to, 0, length);
        return true;
    }
    return false;
  }
  // Into direct memory the last bytes arrive last (ordered_copy.hpp).
  bool write(std::uint64_t offset, const void* from, std::size_t length) const noexcept {
    if (length == 0) return true;
    switch (reach_) {
      case Reach::kDirect:
        return ordered_copy(bytes_ + offset, from, length);
      case Reach::kTorn:
        return is_whole(offset, length) && ordered_copy(bytes_ + offset, from, length);
      case Reach::kOnDemand:
        return paged_->port->write(address(offset), from, length);
      case Reach::kNull:
        return true;
    }
    return false;
  }

  // 8-byte atomics at the pinned address, which was asked for with kRemoteAtomic (so it is
  // aligned); what was there before goes to *original. Values are in the host's byte order. The
  // whole machine sees them as one step where the memory is direct.
  bool compare_swap(std::uint64_t compare, std::uint64_t swap,
                    std::uint64_t* original) const noexcept {
    if (reach_ != Reach::kDirect) return rare_compare_swap(compare, swap, original);
    return guarded_compare_swap(word(), compare, swap, original);
  }
  bool fetch_add(std::uint64_t add, std::uint64_t* original) const noexcept {
    if (reach_ != Reach::kDirect) return rare_fetch_add(add, original);
    return guarded_fetch_add(word(), add, original);
  }

  // The bytes themselves, when they are direct, for whoever reads them in a guarded way
  // (base/guarded.hpp) and no other; null for all others.
  std::uint8_t* direct() const noexcept { return reach_ == Reach::kDirect ? bytes_ : nullptr; }

 private:
  friend class Registry;

  Pin(Gate* gate, std::uint64_t host_address, PagedMemory* paged, Reach reach) noexcept
      : gate_(gate),
        bytes_(reinterpret_cast<std::uint8_t*>(static_cast<std::uintptr_t>(host_address))),
        paged_(paged),
        reach_(reach) {}

  std::uint64_t address(std::uint64_t offset) const noexcept {
    return reinterpret_cast<std::uintptr_t>(bytes_) + offset;
  }
  std::uint64_t* word() const noexcept {
    return reinterpret_cast<std::uint64_t*>(static_cast<void*>(bytes_));
  }
  // Of torn memory: whether nothing was taken away of this.
  [[gnu::cold]] bool is_whole(std::uint64_t offset, std::size_t length) const noexcept;
  bool rare_compare_swap(std::uint64_t compare, std::uint64_t swap,
                         std::uint64_t* original) const noexcept;
  bool rare_fetch_add(std::uint64_t add, std::uint64_t* original) const noexcept;

  Gate* gate_ = nullptr;
  std::uint8_t* bytes_ = nullptr;
  PagedMemory* paged_ = nullptr;
  Reach reach_ = Reach::kDirect;
};

}  // namespace verbena::memory
