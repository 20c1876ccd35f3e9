// SPDX-License-Identifier: BSD-2-Clause
// Finds IDs by their handles, which the table chooses, and by the communication IDs of their
// connections. Owned by RdmaCm, one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "verbena/cm/rdma_id.hpp"

namespace verbena::cm {

class IdTable {
 public:
  // librdmacm finds the ID of an early ESTABLISHED in a table of 16 bits. The lower half of the
  // numbers is left to a kernel's own IDs in the same process.
  static constexpr IdHandle kFirstHandle = 0x8000;
  static constexpr IdHandle kFirstLongHandle = 0x10000;

  RdmaId& add(ChannelId channel);
  // The ID must have no connection any more.
  void erase(IdHandle handle) { ids_.erase(handle); }
  // Returns 0, or ENOENT, or EINVAL for an ID of another channel.
  int find(ChannelId channel, IdHandle handle, RdmaId*& id) const;
  // Returns null if there is no such ID.
  RdmaId* get(IdHandle handle) const;
  RdmaId& at(IdHandle handle) const { return *ids_.at(handle); }

  // Makes the agent's events with this number events of the ID.
  void connect(RdmaId& id, CommId comm);
  void disconnect(RdmaId& id);
  // Returns null if no ID has this connection any more.
  RdmaId* with_comm(CommId comm) const;

  // Returns at most `most` IDs with a greater handle, in their order.
  std::vector<const RdmaId*> behind(IdHandle handle, std::size_t most) const;

  std::size_t size() const { return ids_.size(); }
  // Iterate over pairs of a handle and a pointer, in no order.
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
