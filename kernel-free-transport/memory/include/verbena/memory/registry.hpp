// SPDX-License-Identifier: BSD-2-Clause
// The bytes of this process that a key opens, for whom and for what.
//
// The registry owns the table of memory regions and windows of one device. Application threads
// register; `pin` runs for every access of the data path, on any thread, without a lock. Each slot
// has a gate, which deregistration closes and then waits for, so that a granted access ends before
// the memory may be unmapped. A key is a slot number (upper 24 bits) and a byte that the owner may
// choose (lower 8); 0 is never a key. The engine reaches user memory only through a Pin.
//
// A thread that holds a Pin may call only `pin` and `explain`: other functions may wait for that
// Pin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "verbena/base/lock.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/short_text.hpp"
#include "verbena/base/types.hpp"
#include "verbena/memory/pin.hpp"
#include "verbena/memory/port.hpp"

namespace verbena::memory {

// Access rights of a region or window, with the values of the verbs.
enum Access : std::uint32_t {
  kLocalRead = 0,
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kWindowBind = 1u << 4,
  kZeroBased = 1u << 5,
  kOnDemand = 1u << 6,
  kHugePages = 1u << 7,
  kFlushGlobal = 1u << 8,
  kFlushPersistent = 1u << 9,
  kRelaxedOrdering = 1u << 20,
};

// Why an access or a registration is refused, in the order of the checks.
enum class Refusal : std::uint8_t {
  kNoSuchKey,      // never assigned, freed, or the consumer byte differs
  kInvalidated,    // the key was invalidated or the window is not bound
  kForeignDomain,  // another protection domain
  kForeignQp,      // a type 2 window of another queue pair
  kOutOfRange,
  kNoPermission,
  kNotMapped,   // the pages are missing (on-demand regions, or at registration)
  kMisaligned,  // atomics
  kBusy,        // the region has bound windows, or the type 2 window is bound
  kBadArgument,
  kTableFull,
};
[[gnu::cold]] const char* to_string(Refusal refusal);
// Returns text like "IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_REMOTE_READ".
[[gnu::cold]] ShortText access_names(std::uint32_t access) noexcept;

using DomainId = std::uint32_t;
inline constexpr std::uint32_t kAnyQp = 0xffffffffu;

struct RegionRequest {
  DomainId domain = 0;
  std::uint64_t host_address = 0;  // first byte in this process
  std::uint64_t length = 0;
  std::uint64_t base = 0;  // the address by which keys reach it (iova; 0 if zero-based)
  std::uint32_t access = 0;
  bool implicit = false;       // the whole address space, on demand
  bool null = false;           // reads zeros, swallows writes (ibv_alloc_null_mr)
  bool device_memory = false;  // our own memory, known to be mapped
  std::uint32_t key = 0;       // the requested key; another is assigned if its slot is taken
};

struct WindowBind {
  std::uint32_t region_key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t access = 0;
};

struct AccessRequest {
  std::uint32_t key = 0;
  DomainId domain = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t need = 0;       // Access bits that must all be granted
  std::uint32_t qpn = kAnyQp;   // the accessing queue pair (type 2 windows belong to one)
  bool at_any_address = false;  // the whole region is meant: the address need not lie in it
};

class Registry {
 public:
  // `seed` is the source of the part of keys that a peer cannot guess.
  explicit Registry(MemoryPort& port, std::uint32_t max_slots = 1u << 20, std::uint64_t seed = 0);
  ~Registry();

  // Returns the key, which is both lkey and rkey. Refusal::kNotMapped means EFAULT.
  Result<std::uint32_t, Refusal> register_region(const RegionRequest& request);
  // Assigns keys from the upper half from now on, so that keys of another registry, which starts at
  // the bottom, can be requested.
  void leave_lower_keys();
  // Changes the parts of a region that `change` names. The key stays the same.
  struct Change {
    bool translation = false, domain = false, access = false;
    RegionRequest to;
  };
  Result<std::uint32_t, Refusal> change_region(std::uint32_t key, const Change& change);
  // Removes a region after accesses under way have ended. Refuses with kBusy while windows are
  // bound.
  Result<bool, Refusal> deregister(std::uint32_t key);

  Result<std::uint32_t, Refusal> allocate_window(DomainId domain, bool type2);
  Result<bool, Refusal> free_window(std::uint32_t key);
  // Binds a type 1 window, or with length 0 unbinds it. Returns the new key.
  Result<std::uint32_t, Refusal> bind_type1(std::uint32_t window_key, DomainId domain,
                                            const WindowBind& bind);
  // Binds an unbound type 2 window to a queue pair under the key that the consumer chose, which
  // names the same slot.
  Result<std::uint32_t, Refusal> bind_type2(std::uint32_t window_key, std::uint32_t new_key,
                                            DomainId domain, std::uint32_t qpn,
                                            const WindowBind& bind);
  // For LOCAL_INV and SEND_WITH_INV: makes a type 2 window's key useless until it is bound again.
  // Regions of ibv_reg_mr and type 1 windows refuse (kNoPermission).
  Result<bool, Refusal> invalidate(std::uint32_t key, DomainId domain, std::uint32_t qpn);
  // Unbinds the windows of a destroyed queue pair.
  void unbind_windows_of(std::uint32_t qpn);

  Result<Pin, Refusal> pin(const AccessRequest& request) noexcept;
  // Explains why pin() refused, with the values: the key, the range, the bounds, the missing right.
  // The calling thread may hold another Pin.
  [[gnu::cold]] ShortText explain(const AccessRequest& request, Refusal refusal) const noexcept;

  // Withdraws `length` bytes of this process that were unmapped, are about to be, or were mapped
  // again `by` a call (text that lives forever). Registrations of them stay without that memory,
  // whatever is mapped there later. On-demand regions are not affected, because they follow the
  // mapping. When this returns, usually no access is under way any more, but it waits only for a
  // moment. It may be called in a signal handler and with any lock held.
  void withdraw(std::uint64_t host_address, std::uint64_t length, const char* by) noexcept;
  // Takes away all memory of a region of any kind, and of the windows that are bound to it. It
  // waits for accesses under way.
  void take_away(std::uint32_t key, const char* by) noexcept;

 private:
  friend class Pin;
  friend class Ranges;
  struct Slot;
  struct Chunk;
  struct Table;
  [[gnu::cold]] void add_fate(ShortText& text, const Slot& slot, const char* what) const noexcept;
  [[gnu::cold]] void add_absence(ShortText& text, std::uint32_t key) const noexcept;
  std::unique_ptr<Table> table_;
};

}  // namespace verbena::memory
