// SPDX-License-Identifier: BSD-2-Clause
// All IDs: by their handles, which it chooses, and by the communication IDs of their connections.
// Owned by RdmaCm, one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "verbena/cm/rdma_id.hpp"

namespace verbena::cm {

class IdTable {
 public:
  // librdmacm finds the ID of an early ESTABLISHED in a table of 16 bits; the lower half is left
  // to a kernel's own IDs in the same process.
  static constexpr IdHandle kFirstHandle = 0x8000;
  static constexpr IdHandle kFirstLongHandle = 0x10000;

  RdmaId& add(ChannelId channel);
  // Which has no connection any more.
  void erase(IdHandle handle) { ids_.erase(handle); }
  // 0, or ENOENT, or EINVAL for an ID of another channel.
  int find(ChannelId channel, IdHandle handle, RdmaId*& id) const;
  // Null: there is none.
  RdmaId* get(IdHandle handle) const;
  RdmaId& at(IdHandle handle) const { return *ids_.at(handle); }

  // The agent's events with this number are the ID's.
  void connect(RdmaId& id, CommId comm);
  void disconnect(RdmaId& id);
  // Null: nobody's any more.
  RdmaId* with_comm(CommId comm) const;

  // At most so many of those with a greater handle, in their order.
  std::vector<const RdmaId*> behind(IdHandle handle, std::size_t most) const;

  std::size_t size() const { return ids_.size(); }
  // Pairs of a handle and a pointer, in no order.
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }
  bool is_consistent() const;

 private:
  IdHandle next_handle_ = kFirstHandle;
  IdHandle next_long_handle_ = kFirstLongHandle;
  std::unordered_map<IdHandle, std::unique_ptr<RdmaId>> ids_;
  std::unordered_map<CommId, IdHandle> by_comm_;
};

}  // namespace verbena::cm
