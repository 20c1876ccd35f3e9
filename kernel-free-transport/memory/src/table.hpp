// SPDX-License-Identifier: BSD-2-Clause
// The slots behind the keys. A slot is a region, a window or free. Slots are in chunks that are
// never freed, so a reader may look at any slot at any time. Fields that `pin` reads are written
// only while the slot's gate is closed. The other fields, and all writes except those of `reach`,
// need the table's lock.
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
// Returns a type 1 window's key after its next bind. Programs are told it before the bind happens.
constexpr std::uint32_t next_key(std::uint32_t key) { return (key & ~0xffu) | ((key + 1) & 0xffu); }

// Rights that a peer uses. A window grants no others.
inline constexpr std::uint32_t kRemoteRights =
    kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent;
// Rights to change memory remotely, which need local write on the region.
inline constexpr std::uint32_t kRemoteChange = kRemoteWrite | kRemoteAtomic;

// Says whether [address, address + length) leaves the 64-bit space.
constexpr bool wraps(std::uint64_t address, std::uint64_t length) {
  return length != 0 && address + (length - 1) < address;
}

struct alignas(64) Registry::Slot {
  enum class Role : std::uint8_t { kFree, kRegion, kWindow1, kWindow2 };

  // The first member, so that of() can find the slot.
  Gate gate;
  static Slot& of(Gate& gate) { return *reinterpret_cast<Slot*>(&gate); }

  std::uint32_t key = 0;
  DomainId domain = 0;
  std::uint32_t access = 0;
  std::uint64_t start = 0;  // the address of the first byte, as the key reaches it
  std::uint64_t length = 0;
  std::uint64_t host = 0;      // where that byte is in this process
  std::uint32_t qpn = kAnyQp;  // the queue pair of a bound type 2 window
  Role role = Role::kFree;
  // Only the lock of the ranges is held when direct memory becomes torn.
  Published<Reach> reach{Reach::kDirect};
  bool bound = false;      // for windows; always true for regions
  bool whole : 1 = false;  // every address: implicit and null regions
  bool device_memory : 1 = false;

  // `pin` never reads these.
  std::uint32_t windows = 0;   // a region's bound windows
  std::uint32_t parent = 0;    // a bound window's region
  std::uint32_t previous = 0;  // index in the list of bound type 2 windows
  std::uint32_t next = 0;      // index in that list, or in the list of free slots

  bool is_window() const { return role == Role::kWindow1 || role == Role::kWindow2; }
  bool contains(std::uint64_t address, std::uint64_t bytes) const {
    if (whole) return !wraps(address, bytes);
    const std::uint64_t offset = address - start;  // beyond `length` when it wraps
    return offset <= length && bytes <= length - offset;
  }
  std::uint64_t translate(std::uint64_t address) const { return host + (address - start); }
  // Checks one access, in the order of Refusal.
  std::optional<Refusal> check(const AccessRequest& request) const;

  RegionRequest describe() const;
  // Takes a region's properties. The request was checked, and the gate is closed.
  void become(const RegionRequest& request);
};

struct Registry::Chunk {
  static constexpr std::uint32_t kSlots = 1024;
  std::array<Slot, kSlots> slots;
  // Nodes are separate because slots fill their cache lines. A node is allocated when it is first
  // needed, and stays.
  std::array<std::unique_ptr<Ranges::Node>, kSlots> nodes;
};

struct Registry::Table : PagedMemory {
  Table(MemoryPort& port, std::uint32_t max_slots, std::uint64_t seed);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Returns null for an index that no slot ever had. Needs no lock.
  Slot* find(std::uint32_t index) const noexcept {
    if (index > max_index) return nullptr;
    Chunk* chunk = directory[index / Chunk::kSlots].read();
    return chunk == nullptr ? nullptr : &chunk->slots[index % Chunk::kSlots];
  }
  // Returns the slot in use with exactly this key, or null. This and all following functions need
  // the lock.
  Slot* find_key(std::uint32_t key) const;
  Slot* find_region(std::uint32_t key) const;
  // Finds a window by index only, because consumers change the byte of its key.
  Slot* find_window(std::uint32_t key, Slot::Role role) const;

  // Returns a free slot with its gate closed, or null if the table is full.
  Slot* allocate();
  // Returns the slot of this key with its gate closed, or null if it is not free.
  Slot* allocate(std::uint32_t key);
  // Frees a slot whose gate is closed. Its earlier keys open nothing any more.
  void release(Slot& slot);

  // Ends all access by the slot's key.
  void shut(Slot& slot);
  // Opens the gate of a slot that now has memory, with the holes of `like`, if that is not null.
  void open(Slot& slot, const Ranges::Node* like = nullptr);
  // Takes all memory of a slot away, `by` a call.
  void tear(Slot& slot, const char* by) noexcept;
  Ranges::Node& node_of(const Slot& slot) const {
    const std::uint32_t index = index_of(slot.key);
    return *directory[index / Chunk::kSlots].read()->nodes[index % Chunk::kSlots];
  }

  std::optional<Refusal> check_bind(const Slot& window, DomainId domain, const WindowBind& bind);
  // Attach and detach need the window's gate to be closed; attach() opens it.
  void attach(Slot& window, const WindowBind& bind, std::uint32_t qpn);
  void detach(Slot& window);

  // Returns the slot of an index in the table. Allocates its chunk and its node if necessary.
  Slot& make(std::uint32_t index);
  void unlink_free(const Slot& slot);
  // Returns the slot's key for its next owner. A byte comes back only after all others.
  std::uint32_t successor(std::uint32_t key) const {
    return (key & ~0xffu) | bytes_after[key & 0xff];
  }

  // How many freed slots rest before one is used again, so that a stale key stays stale for long.
  static constexpr std::uint32_t kResting = 64;

  Lock lock;
  UnpredictableRandom random;
  std::array<std::uint8_t, 256> bytes_after;  // one cycle, in a random order
  Ranges ranges;
  std::uint32_t max_index;
  std::unique_ptr<Published<Chunk*>[]> directory;
  std::uint32_t fresh = 1;  // the lowest index never used; 0 stays unused, so 0 is no key
  std::uint32_t oldest_free = 0;
  std::uint32_t newest_free = 0;
  std::uint32_t free_slots = 0;
  std::uint32_t first_bound = 0;  // the list of bound type 2 windows
};

}  // namespace verbena::memory
