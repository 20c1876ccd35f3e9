// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/id_table.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::cm {

RdmaId& IdTable::add(ChannelId channel) {
  // Handles go round within 15 bits, and above them once all of those are taken.
  const bool is_short = ids_.size() < kFirstLongHandle - kFirstHandle;
  IdHandle& next = is_short ? next_handle_ : next_long_handle_;
  const IdHandle first = is_short ? kFirstHandle : kFirstLongHandle;
  const IdHandle last = is_short ? kFirstLongHandle - 1 : ~IdHandle{0};
  IdHandle handle = next;
  while (ids_.contains(handle)) handle = handle == last ? first : handle + 1;
  next = handle == last ? first : handle + 1;
  auto id = std::make_unique<RdmaId>();
  id->handle = handle;
  id->channel = channel;
  return *ids_.emplace(handle, std::move(id)).first->second;
}

RdmaId* IdTable::get(IdHandle handle) const {
  const auto it = ids_.find(handle);
  return it == ids_.end() ? nullptr : it->second.get();
}

int IdTable::find(ChannelId channel, IdHandle handle, RdmaId*& id) const {
  RdmaId* const found = get(handle);
  if (found == nullptr) return ENOENT;
  if (found->channel != channel) return EINVAL;
  id = found;
  return 0;
}

std::vector<const RdmaId*> IdTable::behind(IdHandle handle, std::size_t most) const {
  std::vector<const RdmaId*> found;
  for (const auto& [number, id] : ids_) {
    if (number > handle) found.push_back(id.get());
  }
  const std::size_t count = std::min(most, found.size());
  std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(count), {},
                            &RdmaId::handle);
  found.resize(count);
  return found;
}

void IdTable::connect(RdmaId& id, CommId comm) {
  id.comm = comm;
  by_comm_[comm] = id.handle;
}

void IdTable::disconnect(RdmaId& id) {
  by_comm_.erase(id.comm);
  id.comm = 0;
}

RdmaId* IdTable::with_comm(CommId comm) const {
  const auto it = by_comm_.find(comm);
  return it == by_comm_.end() ? nullptr : get(it->second);
}

bool IdTable::is_consistent() const {
  for (const auto& [handle, id] : ids_) {
    if (id->handle != handle) return false;
    if (id->comm != 0 && !by_comm_.contains(id->comm)) return false;
  }
  for (const auto& [comm, handle] : by_comm_) {
    const RdmaId* id = get(handle);
    if (id == nullptr || id->comm != comm) return false;
  }
  return true;
}

}  // namespace verbena::cm
