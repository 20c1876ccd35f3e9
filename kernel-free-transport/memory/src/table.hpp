// SPDX-License-Identifier: BSD-2-Clause
// The slots behind the keys. A slot is a region, a window or free; slots live in chunks that are
// never given back, so a reader may look at any slot at any time. What `pin` reads is written only
// while the slot's gate is shut; the rest (and every write but that of `reach`) is under the
// table's lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "ranges.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/unpredictable.hpp"
#include "verbena/memory/registry.hpp"

namespace verbena::memory {

inline constexpr std::uint32_t kKeyByteBits = 8;
inline constexpr std::uint32_t kMaxIndex = 0xffffff;
constexpr std::uint32_t index_of(std::uint32_t key) { return key >> kKeyByteBits; }
// The key of a type 1 window that is bound anew: programs are told before it happens.
constexpr std::uint32_t next_key(std::uint32_t key) { return (key & ~0xffu) | ((key + 1) & 0xffu); }

// Rights that a peer exercises; a window grants no others.
inline constexpr std::uint32_t kRemoteRights =
    kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent;
// Rights to change memory from afar, which need local write on the region.
inline constexpr std::uint32_t kRemoteChange = kRemoteWrite | kRemoteAtomic;

// Whether [address, address + length) leaves the 64-bit space.
constexpr bool wraps(std::uint64_t address, std::uint64_t length) {
  return length != 0 && address + (length - 1) < address;
}

struct alignas(64) Registry::Slot {
  enum class Role : std::uint8_t { kFree, kRegion, kWindow1, kWindow2 };

  // First, so that it leads to its slot.
  Gate gate;
  static Slot& of(Gate& gate) { return *reinterpret_cast<Slot*>(&gate); }

  std::uint32_t key = 0;
  DomainId domain = 0;
  std::uint32_t access = 0;
  std::uint64_t start = 0;  // the address by which the key reaches the first byte
  std::uint64_t length = 0;
  std::uint64_t host = 0;      // where that byte is in this process
  std::uint32_t qpn = kAnyQp;  // of a bound type 2 window
  Role role = Role::kFree;
  // Direct memory becomes torn under the lock of the ranges alone.
  Published<Reach> reach{Reach::kDirect};
  bool bound = false;      // windows; always true for regions
  bool whole : 1 = false;  // every address: implicit and null regions
  bool device_memory : 1 = false;

  // Never read by `pin`.
  std::uint32_t windows = 0;   // a region's bound windows
  std::uint32_t parent = 0;    // a bound window's region
  std::uint32_t previous = 0;  // among bound type 2 windows
  std::uint32_t next = 0;      // the same, or among free slots

  bool is_window() const { return role == Role::kWindow1 || role == Role::kWindow2; }
  bool contains(std::uint64_t address, std::uint64_t bytes) const {
    if (whole) return !wraps(address, bytes);
    const std::uint64_t offset = address - start;  // beyond `length` when it wraps
    return offset <= length && bytes <= length - offset;
  }
  std::uint64_t translate(std::uint64_t address) const { return host + (address - start); }
  // The checks of one access, in the order of Refusal.
  std::optional<Refusal> check(const AccessRequest& request) const;

  RegionRequest describe() const;
  // Takes a region's properties; the request was found valid and the gate is shut.
  void become(const RegionRequest& request);
};

struct Registry::Chunk {
  static constexpr std::uint32_t kSlots = 1024;
  std::array<Slot, kSlots> slots;
  // Beside them, since they fill their lines; each is made when it is needed first, and stays.
  std::array<std::unique_ptr<Ranges::Node>, kSlots> nodes;
};

struct Registry::Table : PagedMemory {
  Table(MemoryPort& port, std::uint32_t max_slots, std::uint64_t seed);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Null for an index that no slot ever had. Without the lock.
  Slot* find(std::uint32_t index) const noexcept {
    if (index > max_index) return nullptr;
    Chunk* chunk = directory[index / Chunk::kSlots].read();
    return chunk == nullptr ? nullptr : &chunk->slots[index % Chunk::kSlots];
  }
  // A slot in use under exactly this key, or null. Under the lock, like all that follows.
  Slot* find_key(std::uint32_t key) const;
  Slot* find_region(std::uint32_t key) const;
  // By its index alone: a window keeps its slot while consumers change the byte of its key.
  Slot* find_window(std::uint32_t key, Slot::Role role) const;

  // A free slot with its gate shut, or null when the table is full.
  Slot* allocate();
  // The slot of this key, if it is free; so, too.
  Slot* allocate(std::uint32_t key);
  // Takes back a slot whose gate is shut; its keys so far open nothing any more.
  void release(Slot& slot);

  // Ends all use of what the slot's key opens.
  void shut(Slot& slot);
  // The gate of a slot that has memory now is opened: with the holes of `like`, if that is not
  // null.
  void open(Slot& slot, const Ranges::Node* like = nullptr);
  // All of its memory is taken away, `by` a call.
  void tear(Slot& slot, const char* by) noexcept;
  Ranges::Node& node_of(const Slot& slot) const {
    const std::uint32_t index = index_of(slot.key);
    return *directory[index / Chunk::kSlots].read()->nodes[index % Chunk::kSlots];
  }

  std::optional<Refusal> check_bind(const Slot& window, DomainId domain, const WindowBind& bind);
  // Both with the window's gate shut; the first opens it.
  void attach(Slot& window, const WindowBind& bind, std::uint32_t qpn);
  void detach(Slot& window);

  // The slot of an index that is in the table; its chunk and its node are made if need be.
  Slot& make(std::uint32_t index);
  void unlink_free(const Slot& slot);
  // The same slot's key for another owner: its byte comes back after all others.
  std::uint32_t successor(std::uint32_t key) const {
    return (key & ~0xffu) | bytes_after[key & 0xff];
  }

  // So many slots rest before one is used again, so that a stale key stays stale for long.
  static constexpr std::uint32_t kResting = 64;

  Lock lock;
  UnpredictableRandom random;
  std::array<std::uint8_t, 256> bytes_after;  // one circle, in an order of the registry's own
  Ranges ranges;
  std::uint32_t max_index;
  std::unique_ptr<Published<Chunk*>[]> directory;
  std::uint32_t fresh = 1;  // the lowest index never used; 0 stays unused, so 0 is no key
  std::uint32_t oldest_free = 0;
  std::uint32_t newest_free = 0;
  std::uint32_t free_slots = 0;
  std::uint32_t first_bound = 0;  // of the type 2 windows that are bound
  OwnedCounter regions;
  OwnedCounter windows;
  OwnedCounter bytes;
};

inline void lower(OwnedCounter& counter, std::uint64_t by = 1) { counter.set(counter.read() - by); }

}  // namespace verbena::memory
