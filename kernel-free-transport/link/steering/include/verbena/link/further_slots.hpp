// SPDX-License-Identifier: BSD-2-Clause
// The receiving sockets of a further address of a port, beside the one whose sockets a SlotGroup
// has and by which slots are given out. Most contexts never use it: a slot has a socket here once
// its context asks for one. What is for other slots comes to socket 0, the daemon's own, which is
// there from the beginning. As there, sockets are only ever added, and used again. One thread.
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

  // The socket of a context, by its slot and its extra ones; the one that it has, or another. Stays
  // the group's, as those of SlotGroup.
  Result<int, SocketError> socket_for(Slot slot, std::span<const Slot> extra);
  // One more slot of a context that may have a socket here.
  Result<bool, SocketError> add_extra(Slot slot, Slot extra);
  // The context has ended.
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
  std::vector<Slot> free_;       // indices of sockets that nobody has
  std::map<Slot, Slot> places_;  // slot -> index of its socket
};

}  // namespace verbena::link
