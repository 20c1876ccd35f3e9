// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/slot_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "receive_socket.hpp"
#include "verbena/base/check.hpp"

namespace verbena::link {
Result<SlotGroup, SocketError> SlotGroup::open(const IpAddress& local,
                                               const SlotGroupOptions& options) {
  SlotGroup group(local, options);
  auto first = open_receive_socket(local, options, true);
  if (!first) return Failure{first.error()};
  group.fds_.push_back(*first);
  return group;
}

SlotGroup::SlotGroup(SlotGroup&& other) noexcept
    : local_(other.local_),
      options_(other.options_),
      fds_(std::exchange(other.fds_, {})),
      free_(std::exchange(other.free_, {})),
      extra_(std::exchange(other.extra_, {})) {}

SlotGroup::~SlotGroup() {
  for (const int fd : fds_) ::close(fd);
}

Result<bool, SocketError> SlotGroup::attach_filter() {
  // A lone socket is no group yet, and needs no filter.
  if (fds_.size() == 1) return true;
  return steer(fds_[0], local_, options_.senders, fds_.size(), extra_);
}

SocketError SlotGroup::no_slot_left() const {
  return {ENOSPC, "all " + std::to_string(kMulticastSlot) + " slots of " + local_.to_string() +
                      " are in use"};
}

Result<SlotGroup::Slot, SocketError> SlotGroup::add_slot() {
  if (!free_.empty()) {
    const Slot slot = free_.back();
    free_.pop_back();
    drain(slot);
    return slot;
  }
  const auto next = static_cast<Slot>(fds_.size());
  if (next >= kMulticastSlot || extra_.contains(next)) return Failure{no_slot_left()};
  auto fd = open_receive_socket(local_, options_, false);
  if (!fd) return Failure{fd.error()};
  fds_.push_back(*fd);
  if (auto attached = attach_filter(); !attached) {
    // When the last socket closes, the kernel moves no other.
    ::close(fds_.back());
    fds_.pop_back();
    return Failure{attached.error()};
  }
  return static_cast<Slot>(fds_.size() - 1);
}

Result<SlotGroup::Slot, SocketError> SlotGroup::add_extra_slot(Slot slot) {
  VERBENA_CHECK(slot > 0 && slot < fds_.size());
  Slot extra = kMulticastSlot - 1;
  while (extra_.contains(extra)) --extra;
  // If sockets have come up to this number, only released slots are left.
  const bool is_released = extra < fds_.size();
  if (is_released) {
    if (free_.empty()) return Failure{no_slot_left()};
    extra = free_.back();
    free_.pop_back();
  }
  extra_[extra] = slot;
  if (auto attached = attach_filter(); !attached) {
    extra_.erase(extra);
    if (is_released) free_.push_back(extra);
    return Failure{attached.error()};
  }
  return extra;
}

void SlotGroup::release(Slot slot) {
  VERBENA_CHECK(slot > 0 && slot < fds_.size());
  VERBENA_CHECK(std::find(free_.begin(), free_.end(), slot) == free_.end());
  const auto leads_here = [&](const auto& entry) {
    if (entry.second != slot) return false;
    if (entry.first < fds_.size()) free_.push_back(entry.first);
    return true;
  };
  // If the kernel refuses the smaller filter, the old one steers stale packets to a socket that is
  // drained before its next use, so there is nothing to report.
  if (std::erase_if(extra_, leads_here) > 0) (void)attach_filter();
  drain(slot);
  free_.push_back(slot);
}

int SlotGroup::fd(Slot slot) const {
  VERBENA_CHECK(slot < fds_.size());
  return fds_[slot];
}

std::size_t SlotGroup::drain(Slot slot) {
  VERBENA_CHECK(slot < fds_.size());
  return drain_socket(fds_[slot]);
}

}  // namespace verbena::link
