// SPDX-License-Identifier: BSD-2-Clause
// A granted access to user memory: Registry::pin returns it, and it is the only way to the bytes.
// While a Pin exists, its region or window cannot be withdrawn. Its owner (one thread at a time)
// therefore keeps it only for one copy, or until the batch that borrowed the bytes was sent, and
// meanwhile does not wait for a thread that may withdraw memory. Offsets count from the requested
// address; the caller stays within the granted length.
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

// How the bytes behind a key are reached: kDirect by guarded copies; kTorn likewise, except for
// parts that were taken away; kOnDemand through the memory port; kNull has no bytes.
enum class Reach : std::uint8_t { kDirect, kTorn, kOnDemand, kNull };

// How pages that may be missing are reached. All pins of a registry share it; it is the base of the
// registry's table.
struct PagedMemory {
  MemoryPort* port = nullptr;
  // Protects the steps read, decide and write: atomics on such pages are atomic only among those of
  // this registry.
  Lock atomics;
};

// Move-only. The destructor releases the memory.
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

  // Gives up the gate without leaving it. The caller must have it left when this pin would have
  // left it.
  Gate& detach() noexcept { return *std::exchange(gate_, nullptr); }

  // Returns false if a page is missing or its owner has protected it (kNotMapped); never for null
  // regions.
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
  // Writes; in direct memory the last bytes arrive last (ordered_copy.hpp).
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

  // Brings in the pages of on-demand memory. Returns false if one is missing or may not be written
  // although it should be. Other memory was there when it was registered.
  bool bring_in(std::size_t length, bool writable) const noexcept {
    return reach_ != Reach::kOnDemand || paged_->port->is_mapped(address(0), length, writable);
  }

  // 8-byte atomics at the pinned address, which was requested with kRemoteAtomic and is therefore
  // aligned. The original value goes to *original. Values are in host byte order. In direct memory
  // an atomic is one step for the whole machine.
  bool compare_swap(std::uint64_t compare, std::uint64_t swap,
                    std::uint64_t* original) const noexcept {
    if (reach_ != Reach::kDirect) return rare_compare_swap(compare, swap, original);
    return guarded_compare_swap(word(), compare, swap, original);
  }
  bool fetch_add(std::uint64_t add, std::uint64_t* original) const noexcept {
    if (reach_ != Reach::kDirect) return rare_fetch_add(add, original);
    return guarded_fetch_add(word(), add, original);
  }

  // Returns the bytes if they are direct, else null. Only guarded code may read them
  // (base/guarded.hpp).
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
  // Says whether no part of this range of torn memory was taken away.
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
