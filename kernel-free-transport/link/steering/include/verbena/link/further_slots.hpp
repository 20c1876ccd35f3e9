// SPDX-License-Identifier: BSD-2-Clause
// The receiving sockets of a further address of a port. (The port's own address has a SlotGroup,
// which also gives out the slots.) Most contexts never use a further address: a slot gets a socket
// here when its context asks for one. Packets for other slots come to socket 0, the daemon's own,
// which exists from the beginning. As in a SlotGroup, sockets are only ever added, and used again.
// One thread.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "verbena/link/slot_group.hpp"

namespace verbena::link {

class FurtherSlots {
 public:
  using Slot = SlotGroup::Slot;

  static Result<FurtherSlots, SocketError> open(const IpAddress& local,
                                                const SlotGroupOptions& options = {});
  ~FurtherSlots();
  FurtherSlots(FurtherSlots&& other) noexcept;
  FurtherSlots& operator=(FurtherSlots&&) = delete;

  // Returns the socket of a context, given its slot and its extra slots: the one that it has, or a
  // free one. The group still owns it, as in a SlotGroup.
  Result<int, SocketError> socket_for(Slot slot, std::span<const Slot> extra);
  // Adds a slot to a context, if the context has a socket here.
  Result<bool, SocketError> add_extra(Slot slot, Slot extra);
  // Takes back the socket of a context that has ended.
  void release(Slot slot);

  bool has_socket(Slot slot) const { return places_.contains(slot); }
  int own_fd() const { return fds_.front(); }
  std::size_t sockets() const { return fds_.size(); }
  const IpAddress& local() const { return local_; }

 private:
  FurtherSlots(const IpAddress& local, const SlotGroupOptions& options)
      : local_(local), options_(options) {}
  Result<Slot, SocketError> free_socket();
  Result<bool, SocketError> attach_filter();

  IpAddress local_;
  SlotGroupOptions options_;
  std::vector<int> fds_;
  std::vector<Slot> free_;       // indices of sockets that no context has
  std::map<Slot, Slot> places_;  // slot -> index of its socket
};

}  // namespace verbena::link
