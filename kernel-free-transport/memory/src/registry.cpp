// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/memory/registry.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdint>

#include "table.hpp"

namespace verbena::memory {
namespace {

// The named bits, and the verbs' optional range (20..29), which a device may ignore.
constexpr std::uint32_t kKnownAccess = 0x3ffu | 0x3ff00000u;

std::optional<Refusal> check_region(const RegionRequest& r) {
  if ((r.access & ~kKnownAccess) != 0) return Refusal::kBadArgument;
  if (r.null) return r.implicit ? std::optional(Refusal::kBadArgument) : std::nullopt;
  if ((r.access & kRemoteChange) != 0 && (r.access & kLocalWrite) == 0) {
    return Refusal::kBadArgument;
  }
  if (r.implicit) {
    const bool sensible = (r.access & kOnDemand) != 0 && (r.access & kZeroBased) == 0;
    return sensible ? std::nullopt : std::optional(Refusal::kBadArgument);
  }
  const std::uint64_t base = (r.access & kZeroBased) != 0 ? 0 : r.base;
  if (wraps(r.host_address, r.length) || wraps(base, r.length)) return Refusal::kBadArgument;
  return std::nullopt;
}

bool must_be_mapped(const RegionRequest& r) {
  return !r.null && !r.implicit && !r.device_memory && (r.access & kOnDemand) == 0 && r.length != 0;
}

bool is_mapped(MemoryPort& port, const RegionRequest& r) {
  const bool writable = (r.access & (kLocalWrite | kRemoteChange)) != 0;
  return !must_be_mapped(r) || port.is_mapped(r.host_address, r.length, writable);
}

}  // namespace

const char* to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNoSuchKey:
      return "no region or window has this key";
    case Refusal::kInvalidated:
      return "the window of this key is not bound";
    case Refusal::kForeignDomain:
      return "the key belongs to another protection domain";
    case Refusal::kForeignQp:
      return "the window is bound to another queue pair";
    case Refusal::kOutOfRange:
      return "the range leaves the region or window";
    case Refusal::kNoPermission:
      return "the access flags do not allow this";
    case Refusal::kNotMapped:
      return "the pages are not mapped with the access asked for, or one lies beyond the end of "
             "its file";
    case Refusal::kMisaligned:
      return "an atomic needs an address that is a multiple of 8";
    case Refusal::kBusy:
      return "a window is bound";
    case Refusal::kBadArgument:
      return "the arguments contradict each other";
    case Refusal::kTableFull:
      return "the device has no room for more regions and windows";
  }
  return "?";
}

Registry::Registry(MemoryPort& port, std::uint32_t max_slots, std::uint64_t seed)
    : table_(std::make_unique<Table>(port, max_slots, seed)) {}
Registry::~Registry() = default;

Result<std::uint32_t, Refusal> Registry::register_region(const RegionRequest& request) {
  if (const auto refusal = check_region(request)) return Failure{*refusal};
  if (!is_mapped(*table_->port, request)) return Failure{Refusal::kNotMapped};
  const Guard guard(table_->lock);
  Slot* slot = request.key == 0 ? nullptr : table_->allocate(request.key);
  if (slot == nullptr) slot = table_->allocate();
  if (slot == nullptr) return Failure{Refusal::kTableFull};
  slot->become(request);
  table_->open(*slot);
  return slot->key;
}

void Registry::leave_lower_keys() {
  const Guard guard(table_->lock);
  table_->fresh = std::max(table_->fresh, table_->max_index / 2 + 1);
}

Result<std::uint32_t, Refusal> Registry::change_region(std::uint32_t key, const Change& change) {
  if (!change.translation && !change.domain && !change.access) {
    return Failure{Refusal::kBadArgument};
  }
  const Guard guard(table_->lock);
  Slot* slot = table_->find_region(key);
  if (slot == nullptr) return Failure{Refusal::kNoSuchKey};
  RegionRequest next = slot->describe();
  if (next.null) return Failure{Refusal::kBadArgument};
  if (change.translation && (next.implicit || next.device_memory)) {
    return Failure{Refusal::kBadArgument};
  }
  if (slot->windows != 0) return Failure{Refusal::kBusy};
  if (change.domain) next.domain = change.to.domain;
  if (change.access) {
    // A region that is no longer zero-based is reached by its address again.
    if ((next.access & ~change.to.access & kZeroBased) != 0) next.base = next.host_address;
    next.access = change.to.access;
  }
  if (change.translation) {
    next.host_address = change.to.host_address;
    next.length = change.to.length;
    next.base = change.to.base;
  }
  if (const auto refusal = check_region(next)) return Failure{*refusal};
  if (!is_mapped(*table_->port, next)) return Failure{Refusal::kNotMapped};
  // The memory is the same without a new translation, and keeps its holes. But a region that was on
  // demand gets the pages that are mapped now.
  const bool keeps_holes = !change.translation && slot->reach.read() != Reach::kOnDemand;
  table_->shut(*slot);
  slot->become(next);
  table_->open(*slot, keeps_holes ? &table_->node_of(*slot) : nullptr);
  return slot->key;
}

Result<bool, Refusal> Registry::deregister(std::uint32_t key) {
  const Guard guard(table_->lock);
  Slot* slot = table_->find_region(key);
  if (slot == nullptr) return Failure{Refusal::kNoSuchKey};
  if (slot->windows != 0) return Failure{Refusal::kBusy};
  table_->shut(*slot);
  table_->release(*slot);
  return true;
}

Result<Pin, Refusal> Registry::pin(const AccessRequest& request) noexcept {
  Slot* slot = table_->find(index_of(request.key));
  if (slot == nullptr || !slot->gate.enter()) [[unlikely]]
    return Failure{Refusal::kNoSuchKey};
  if (const auto refusal = slot->check(request)) [[unlikely]] {
    slot->gate.leave();
    return Failure{*refusal};
  }
  // The window's own gate is enough: its region cannot be withdrawn or changed while it is bound,
  // and unbinding closes this gate.
  return Pin(&slot->gate, slot->translate(request.address), table_.get(),
             slot->reach.read_relaxed());
}

void Registry::withdraw(std::uint64_t host_address, std::uint64_t length, const char* by) noexcept {
  const Span span{host_address, host_address + length};
  if (!table_->ranges.may_touch(span)) [[likely]]
    return;
  table_->ranges.for_each(span, [&](Ranges::Node& node) {
    Slot& slot = *node.slot;
    slot.gate.close_and_wait_for(Ranges::kLooks);
    node.holes.add({std::max(span.begin, node.span.begin), std::min(span.end, node.span.end)}, by);
    slot.reach.publish(Reach::kTorn);
    slot.gate.reopen();
  });
}

void Registry::take_away(std::uint32_t key, const char* by) noexcept {
  const Guard guard(table_->lock);
  Slot* const region = table_->find_region(key);
  if (region == nullptr) return;
  table_->tear(*region, by);
  std::uint32_t windows = region->windows;
  for (std::uint32_t i = 1; windows != 0 && i <= table_->max_index; ++i) {
    Slot* const slot = table_->find(i);
    if (slot == nullptr || !slot->is_window() || !slot->bound) continue;
    if (slot->parent != index_of(key)) continue;
    table_->tear(*slot, by);
    --windows;
  }
}

// --- a refused access in words, with its values --------------------------------------------------

namespace {

struct Name {
  std::uint32_t bit;
  const char* name;
};
constexpr Name kNames[] = {
    {kLocalWrite, "LOCAL_WRITE"},
    {kRemoteWrite, "REMOTE_WRITE"},
    {kRemoteRead, "REMOTE_READ"},
    {kRemoteAtomic, "REMOTE_ATOMIC"},
    {kWindowBind, "MW_BIND"},
    {kZeroBased, "ZERO_BASED"},
    {kOnDemand, "ON_DEMAND"},
    {kHugePages, "HUGETLB"},
    {kFlushGlobal, "FLUSH_GLOBAL"},
    {kFlushPersistent, "FLUSH_PERSISTENT"},
    {kRelaxedOrdering, "RELAXED_ORDERING"},
};

}  // namespace

ShortText access_names(std::uint32_t access) noexcept {
  ShortText text;
  for (const Name& name : kNames) {
    if ((access & name.bit) != 0)
      text.add("%sIBV_ACCESS_%s", text.is_empty() ? "" : "|", name.name);
  }
  if (text.is_empty()) text.add("none");
  return text;
}

// Says why registered memory cannot be reached.
void Registry::add_fate(ShortText& text, const Slot& slot, const char* what) const noexcept {
  const char* taken_by = nullptr;
  if (slot.reach.read() == Reach::kTorn) taken_by = table_->ranges.taken_by(table_->node_of(slot));
  text.add("memory of the %s (0x%" PRIx64 " to 0x%" PRIx64 ") ", what, slot.start,
           slot.start + slot.length);
  if (taken_by != nullptr) {
    text.add("was taken away by %s", taken_by);
  } else if (slot.reach.read() == Reach::kOnDemand) {
    text.add("is not mapped with the rights that this takes");
  } else {
    text.add("was unmapped, protected or cut off after it was registered");
  }
}

// Says why a key opened nothing. The caller may hold a pin, so this does not wait long for the
// lock, whose holder may wait for the end of that pin.
void Registry::add_absence(ShortText& text, std::uint32_t key) const noexcept {
  constexpr std::uint32_t kLooks = 1000;
  if (!table_->lock.lock_within(kLooks)) {
    text.add(
        "there is no region or window of this key, or it is just being changed (ibv_rereg_mr)");
    return;
  }
  const Slot* const slot = table_->find_key(key);
  const bool is_region = slot != nullptr && !slot->is_window();
  table_->lock.unlock();
  if (slot == nullptr) {
    text.add("there is no region or window of this key (any more)");
  } else if (is_region) {
    text.add("the region was just being changed (ibv_rereg_mr, or a part of it was unmapped)");
  } else {
    text.add("the window was just being bound or unbound");
  }
}

// Reads the slot inside its gate, like a Pin. If the gate is closed, the key opens nothing.
ShortText Registry::explain(const AccessRequest& request, Refusal refusal) const noexcept {
  ShortText text("key 0x%x, address 0x%" PRIx64 ", length %" PRIu64 ": ", request.key,
                 request.address, request.length);
  Slot* slot = table_->find(index_of(request.key));
  if (refusal == Refusal::kNoSuchKey || slot == nullptr || !slot->gate.enter()) {
    add_absence(text, request.key);
    return text;
  }
  const char* const what = slot->is_window() ? "window" : "region";
  switch (refusal) {
    case Refusal::kOutOfRange:
      text.add("beyond the %s, which is 0x%" PRIx64 " to 0x%" PRIx64 " (%" PRIu64 " bytes)", what,
               slot->start, slot->start + slot->length, slot->length);
      break;
    case Refusal::kNoPermission:
      text.add("the %s lacks %s; its access flags are %s", what,
               access_names(request.need & ~slot->access).c_str(),
               access_names(slot->access).c_str());
      break;
    case Refusal::kForeignDomain:
      text.add("the %s belongs to another protection domain than the queue pair", what);
      break;
    case Refusal::kForeignQp:
      text.add("the window is bound to queue pair 0x%06x", slot->qpn);
      break;
    case Refusal::kNotMapped:
      add_fate(text, *slot, what);
      break;
    default:
      text.add("%s", to_string(refusal));
      break;
  }
  slot->gate.leave();
  return text;
}

}  // namespace verbena::memory
