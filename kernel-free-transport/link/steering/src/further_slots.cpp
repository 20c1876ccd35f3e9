// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/further_slots.hpp"

#include <unistd.h>

#include <utility>

#include "receive_socket.hpp"

namespace verbena::link {

Result<FurtherSlots, SocketError> FurtherSlots::open(const IpAddress& local,
                                                     const SlotGroupOptions& options) {
  FurtherSlots group(local, options);
  const auto own = open_receive_socket(local, options, true);
  if (!own) return Failure{own.error()};
  group.fds_.push_back(*own);
  return group;
}

FurtherSlots::FurtherSlots(FurtherSlots&& other) noexcept
    : local_(other.local_),
      options_(other.options_),
      fds_(std::exchange(other.fds_, {})),
      free_(std::exchange(other.free_, {})),
      places_(std::exchange(other.places_, {})) {}

FurtherSlots::~FurtherSlots() {
  for (const int fd : fds_) ::close(fd);
}

Result<bool, SocketError> FurtherSlots::attach_filter() {
  return steer(fds_.front(), local_, options_.senders, 1, places_);
}

Result<FurtherSlots::Slot, SocketError> FurtherSlots::free_socket() {
  if (free_.empty()) {
    const auto fd = open_receive_socket(local_, options_, false);
    if (!fd) return Failure{fd.error()};
    fds_.push_back(*fd);
    free_.push_back(static_cast<Slot>(fds_.size() - 1));
  }
  const Slot index = free_.back();
  free_.pop_back();
  drain_socket(fds_[index]);
  return index;
}

Result<int, SocketError> FurtherSlots::socket_for(Slot slot, std::span<const Slot> extra) {
  if (const auto known = places_.find(slot); known != places_.end()) return fds_[known->second];
  const auto index = free_socket();
  if (!index) return Failure{index.error()};
  places_[slot] = *index;
  for (const Slot more : extra) places_[more] = *index;
  if (const auto attached = attach_filter(); !attached) {
    release(slot);
    return Failure{attached.error()};
  }
  return fds_[*index];
}

Result<bool, SocketError> FurtherSlots::add_extra(Slot slot, Slot extra) {
  const auto known = places_.find(slot);
  if (known == places_.end()) return true;
  places_[extra] = known->second;
  return attach_filter();
}

void FurtherSlots::release(Slot slot) {
  const auto known = places_.find(slot);
  if (known == places_.end()) return;
  const Slot index = known->second;
  std::erase_if(places_, [index](const auto& entry) { return entry.second == index; });
  // If the kernel refuses the smaller filter, stale packets come to a socket that is drained before
  // its next use.
  (void)attach_filter();
  free_.push_back(index);
}

}  // namespace verbena::link
