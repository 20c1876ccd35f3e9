// SPDX-License-Identifier: BSD-2-Clause
// The traffic class and the hop limit that a socket's sends have unless they say others. Address
// handles of RoCE rarely have the usual ones, and to name them with each send costs a tenth of a
// microsecond. As with SegmentOption, whoever names none holds the lock under which they change.
#pragma once

#include <cstdint>

#include "habit.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::link {

class HeaderOption {
 public:
  // Of a socket that has just been made.
  void open(int fd, bool is_v4) noexcept;
  // Whether a packet to there has its header fields by a call that names none. They follow what is
  // sent again and again.
  bool covers(int fd, const wire::Destination& to) noexcept;

 private:
  struct Fields {
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 0;
    bool operator==(const Fields&) const = default;
  };
  [[gnu::cold]] bool set(int fd, const Fields& fields) noexcept;

  bool is_v4_ = true;
  bool is_known_ = false;  // whether fields_ is what the socket has
  Fields fields_;
  Habit<Fields> habit_;
};

}  // namespace verbena::link
