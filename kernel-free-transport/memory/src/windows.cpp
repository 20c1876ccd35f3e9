// SPDX-License-Identifier: BSD-2-Clause
#include "table.hpp"

namespace verbena::memory {
namespace {

// Local write is accepted because programs also pass the region's rights, but it grants nothing.
constexpr std::uint32_t kWindowAccess = kRemoteRights | kLocalWrite | kZeroBased | kRelaxedOrdering;

}  // namespace

std::optional<Refusal> Registry::Table::check_bind(const Slot& window, DomainId domain,
                                                   const WindowBind& bind) {
  const Slot* region = find_region(bind.region_key);
  if (region == nullptr) return Refusal::kNoSuchKey;
  if (window.domain != domain || region->domain != domain) return Refusal::kForeignDomain;
  if (!region->contains(bind.address, bind.length)) return Refusal::kOutOfRange;
  if ((region->access & kWindowBind) == 0) return Refusal::kNoPermission;
  if ((bind.access & kRemoteChange) != 0 && (region->access & kLocalWrite) == 0) {
    return Refusal::kNoPermission;
  }
  if ((bind.access & ~kWindowAccess) != 0) return Refusal::kBadArgument;
  return std::nullopt;
}

void Registry::Table::attach(Slot& window, const WindowBind& bind, std::uint32_t qpn) {
  Slot& region = *find_region(bind.region_key);
  ++region.windows;
  window.parent = index_of(region.key);
  window.start = (bind.access & kZeroBased) != 0 ? 0 : bind.address;
  window.length = bind.length;
  window.host = region.translate(bind.address);
  window.access = bind.access & kRemoteRights;
  window.reach.publish(region.reach.read());
  window.qpn = qpn;
  window.bound = true;
  if (window.role == Slot::Role::kWindow2) {
    window.previous = 0;
    window.next = first_bound;
    if (first_bound != 0) find(first_bound)->previous = index_of(window.key);
    first_bound = index_of(window.key);
  }
  open(window, &node_of(region));
}

void Registry::Table::detach(Slot& window) {
  if (!window.bound) return;
  window.bound = false;
  --find(window.parent)->windows;
  window.parent = 0;
  if (window.role != Slot::Role::kWindow2) return;
  if (window.next != 0) find(window.next)->previous = window.previous;
  if (window.previous != 0) {
    find(window.previous)->next = window.next;
  } else {
    first_bound = window.next;
  }
  window.next = window.previous = 0;
}

Result<std::uint32_t, Refusal> Registry::allocate_window(DomainId domain, bool type2) {
  const Guard guard(table_->lock);
  Slot* slot = table_->allocate();
  if (slot == nullptr) return Failure{Refusal::kTableFull};
  slot->role = type2 ? Slot::Role::kWindow2 : Slot::Role::kWindow1;
  slot->domain = domain;
  slot->access = 0;
  slot->whole = slot->device_memory = false;
  slot->gate.reopen();
  return slot->key;
}

Result<bool, Refusal> Registry::free_window(std::uint32_t key) {
  const Guard guard(table_->lock);
  Slot* slot = table_->find(index_of(key));
  if (slot == nullptr || !slot->is_window()) return Failure{Refusal::kNoSuchKey};
  table_->shut(*slot);
  table_->detach(*slot);
  table_->release(*slot);
  return true;
}

Result<std::uint32_t, Refusal> Registry::bind_type1(std::uint32_t window_key, DomainId domain,
                                                    const WindowBind& bind) {
  const Guard guard(table_->lock);
  Slot* window = table_->find_window(window_key, Slot::Role::kWindow1);
  if (window == nullptr || window->key != window_key) return Failure{Refusal::kNoSuchKey};
  const bool unbinds = bind.length == 0;
  if (unbinds) {
    if (window->domain != domain) return Failure{Refusal::kForeignDomain};
  } else if (const auto refusal = table_->check_bind(*window, domain, bind)) {
    return Failure{*refusal};
  }
  table_->shut(*window);
  table_->detach(*window);
  window->key = next_key(window->key);
  if (unbinds) {
    window->gate.reopen();
  } else {
    table_->attach(*window, bind, kAnyQp);
  }
  return window->key;
}

Result<std::uint32_t, Refusal> Registry::bind_type2(std::uint32_t window_key, std::uint32_t new_key,
                                                    DomainId domain, std::uint32_t qpn,
                                                    const WindowBind& bind) {
  const Guard guard(table_->lock);
  // ibv_mw::rkey is what the application wrote there last, so only the slot counts.
  Slot* window = table_->find_window(window_key, Slot::Role::kWindow2);
  if (window == nullptr) return Failure{Refusal::kNoSuchKey};
  if (index_of(new_key) != index_of(window_key) || bind.length == 0) {
    return Failure{Refusal::kBadArgument};
  }
  if (window->bound) return Failure{Refusal::kBusy};
  if (const auto refusal = table_->check_bind(*window, domain, bind)) return Failure{*refusal};
  table_->shut(*window);
  window->key = new_key;
  table_->attach(*window, bind, qpn);
  return window->key;
}

Result<bool, Refusal> Registry::invalidate(std::uint32_t key, DomainId domain, std::uint32_t qpn) {
  const Guard guard(table_->lock);
  Slot* slot = table_->find_key(key);
  if (slot == nullptr) return Failure{Refusal::kNoSuchKey};
  if (slot->domain != domain) return Failure{Refusal::kForeignDomain};
  if (slot->role != Slot::Role::kWindow2) return Failure{Refusal::kNoPermission};
  if (!slot->bound) return true;
  if (slot->qpn != qpn) return Failure{Refusal::kForeignQp};
  table_->shut(*slot);
  table_->detach(*slot);
  slot->gate.reopen();
  return true;
}

void Registry::unbind_windows_of(std::uint32_t qpn) {
  const Guard guard(table_->lock);
  for (std::uint32_t index = table_->first_bound; index != 0;) {
    Slot& window = *table_->find(index);
    index = window.next;
    if (window.qpn != qpn) continue;
    table_->shut(window);
    table_->detach(window);
    window.gate.reopen();
  }
}

}  // namespace verbena::memory
