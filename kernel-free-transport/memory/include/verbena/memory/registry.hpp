// SPDX-License-Identifier: BSD-2-Clause
// Which bytes of this process a key opens, for whom and for what.
//
// The registry owns the table of memory regions and windows of one device. Registration comes from
// application threads; `pin` runs for every access of the data path, on any thread, without a
// lock: each slot has a gate that a deregistration shuts and waits behind, so an access that was
// granted ends before the memory may be unmapped. A key is a slot number (upper 24 bits) and a
// byte that the owner may choose (lower 8); 0 is never a key. The engine reaches user memory
// through a Pin and in no other way.
//
// A thread that holds a Pin calls nothing here but `pin` and `explain`: everything else may wait
// for that Pin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "verbena/base/lock.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/short_text.hpp"
#include "verbena/base/types.hpp"
#include "verbena/memory/pin.hpp"
#include "verbena/memory/port.hpp"

namespace verbena::memory {

// Bits of a region's or window's access rights; the values are those of the verbs.
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
  kNoSuchKey,      // never given out, freed, or the consumer byte differs
  kInvalidated,    // the key was invalidated or the window is not bound
  kForeignDomain,  // another protection domain
  kForeignQp,      // a type 2 window of another queue pair
  kOutOfRange,
  kNoPermission,
  kNotMapped,   // the pages are not there (on-demand regions, or at registration)
  kMisaligned,  // atomics
  kBusy,        // windows are bound to the region; a type 2 window is bound already
  kBadArgument,
  kTableFull,
};
[[gnu::cold]] std::string_view to_string(Refusal refusal);
// "IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_REMOTE_READ".
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
  bool device_memory = false;  // memory of our own: known to be mapped
  std::uint32_t key = 0;       // the one wished for; another where its slot is taken
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
  std::uint32_t need = 0;      // Access bits, all of which must be granted
  std::uint32_t qpn = kAnyQp;  // whose access it is (type 2 windows are bound to one)
};

class Registry {
 public:
  // From `seed` comes what of the keys a peer cannot guess.
  explicit Registry(MemoryPort& port, std::uint32_t max_slots = 1u << 20, std::uint64_t seed = 0);
  ~Registry();

  // Returns the key (lkey and rkey are one). EFAULT is Refusal::kNotMapped.
  Result<std::uint32_t, Refusal> register_region(const RegionRequest& request);
  // From now on keys are given out from the upper half, so that those of another registry, which
  // begins below, can be wished for.
  void leave_lower_keys();
  // Each `change_*` replaces that part and leaves the rest; the key stays.
  struct Change {
    bool translation = false, domain = false, access = false;
    RegionRequest to;
  };
  Result<std::uint32_t, Refusal> change_region(std::uint32_t key, const Change& change);
  // kBusy while windows are bound. Waits for accesses under way.
  Result<bool, Refusal> deregister(std::uint32_t key);

  Result<std::uint32_t, Refusal> allocate_window(DomainId domain, bool type2);
  Result<bool, Refusal> free_window(std::uint32_t key);
  // Binds (or, with length 0, unbinds) a type 1 window: the new key.
  Result<std::uint32_t, Refusal> bind_type1(std::uint32_t window_key, DomainId domain,
                                            const WindowBind& bind);
  // Binds an unbound type 2 window to a queue pair under the key that the consumer chose (same
  // slot).
  Result<std::uint32_t, Refusal> bind_type2(std::uint32_t window_key, std::uint32_t new_key,
                                            DomainId domain, std::uint32_t qpn,
                                            const WindowBind& bind);
  // LOCAL_INV and SEND_WITH_INV: makes a type 2 window's key useless until it is bound anew.
  // Regions registered by ibv_reg_mr and type 1 windows refuse (kNoPermission).
  Result<bool, Refusal> invalidate(std::uint32_t key, DomainId domain, std::uint32_t qpn);
  // Drops what a destroyed queue pair had bound.
  void unbind_windows_of(std::uint32_t qpn);

  Result<Pin, Refusal> pin(const AccessRequest& request) noexcept;
  // Why that refused, with the values: the key, the range, the bounds, the right that is missing.
  // Also for a thread that holds another Pin.
  [[gnu::cold]] ShortText explain(const AccessRequest& request, Refusal refusal) const noexcept;

  // So many bytes of this process were unmapped, or are about to be, or were mapped anew, `by` a
  // call (in words that last): what is registered there was taken away, and stays so whatever comes
  // in its place, until it is registered anew. Not what is on demand, which follows the mapping.
  // When this returns nobody is at it any more, most times: it waits for a moment only, and in a
  // signal handler, or with any lock held, it may be called, too.
  void withdraw(std::uint64_t host_address, std::uint64_t length, const char* by) noexcept;
  // The same of all memory of a region and of the windows that are bound to it, whatever kind it
  // is; waits for accesses under way.
  void take_away(std::uint32_t key, const char* by) noexcept;

  // What status shows.
  std::uint32_t regions() const;
  std::uint32_t windows() const;
  std::uint64_t registered_bytes() const;

 private:
  friend class Pin;
  friend class Ranges;
  struct Slot;
  struct Chunk;
  struct Table;
  [[gnu::cold]] void add_fate(ShortText& text, const Slot& slot, const char* what) const noexcept;
  std::unique_ptr<Table> table_;
};

}  // namespace verbena::memory
