// SPDX-License-Identifier: BSD-2-Clause
// How fast UC and UD send. No acknowledgement tells their sender that the receiver is full, and no
// wire limits its speed as an adapter's does. So packets go at once until they are a quarter of
// what a receiver holds, and then no faster than a receiver can empty (0.3 us a packet and 1.5
// GB/s). If the path tells whether there is room, its answer counts instead of the pace. While a
// ring may come, only that quarter goes at all, because the receiver may not read yet.
//
// Part of a requester; time is an argument.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/wire/path.hpp"

namespace verbena::requester {

class Pacing {
 public:
  using Room = wire::Path::Room;
  // How long a sender that found no room waits before it looks again.
  static constexpr TimeNs kRoomInterval = 50'000;
  // How often a sender looks whether a ring has come.
  static constexpr TimeNs kRingInterval = 1'000'000;

  // Notes what the path says about its room.
  void take_notice(Room room, TimeNs now) {
    room_ = room;
    if (room == Room::kSome) gone_at_ = 0;
    if (room != Room::kSoon) sent_early_ = 0;
    if (room == Room::kNone) waits_until_ = now + kRoomInterval;
  }
  // Returns whether the next packet may go to a receiver that holds `capacity` packets of `mtu`
  // bytes.
  bool may_send(std::uint32_t capacity, std::uint32_t mtu, TimeNs now) {
    if (room_ == Room::kNone) return false;
    if (room_ == Room::kSoon && sent_early_ >= capacity / 4) {
      waits_until_ = now + kRingInterval;
      return false;
    }
    const TimeNs burst = capacity / 4 * time_of(mtu);
    gone_at_ = std::max(gone_at_, now);
    waits_until_ = gone_at_ - now > burst ? gone_at_ - burst : 0;
    return waits_until_ == 0;
  }
  // Counts a packet that was sent with this much data.
  void sent(std::uint32_t bytes) {
    gone_at_ += time_of(bytes);
    if (room_ == Room::kSoon) ++sent_early_;
  }
  // The time at which the next packet may go; 0: it need not wait.
  TimeNs waits_until() const { return waits_until_; }

 private:
  static constexpr TimeNs time_of(std::uint32_t bytes) { return TimeNs{300} + bytes * 2 / 3; }

  TimeNs gone_at_ = 0;  // when all that was sent would be gone at this pace
  TimeNs waits_until_ = 0;
  std::uint32_t sent_early_ = 0;  // packets while a ring may come
  Room room_ = Room::kUnknown;
};

}  // namespace verbena::requester
