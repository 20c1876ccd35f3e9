// SPDX-License-Identifier: BSD-2-Clause
// A refused access in words, with its values.
#include <cinttypes>
#include <cstdint>

#include "table.hpp"
#include "verbena/memory/registry.hpp"

namespace verbena::memory {
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

// Of registered memory that is out of reach.
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

// What a key opens can be read by who is inside its gate, as a Pin is; otherwise it opens nothing.
ShortText Registry::explain(const AccessRequest& request, Refusal refusal) const noexcept {
  ShortText text("key 0x%x, address 0x%" PRIx64 ", length %" PRIu64 ": ", request.key,
                 request.address, request.length);
  Slot* slot = table_->find(index_of(request.key));
  if (refusal == Refusal::kNoSuchKey || slot == nullptr || !slot->gate.enter()) {
    text.add("there is no region or window of this key (any more)");
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
      text.add("%s", to_string(refusal).data());
      break;
  }
  slot->gate.leave();
  return text;
}

}  // namespace verbena::memory
