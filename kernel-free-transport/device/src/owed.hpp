// SPDX-License-Identifier: BSD-2-Clause
// What a packet that came in leaves to send, noted in whoever took it in.
#pragma once

#include <algorithm>
#include <utility>

#include "verbena/device/device.hpp"

namespace verbena::device {

[[gnu::always_inline]] inline void Device::note_owed(qp::QueuePair& qp, TimeNs now) {
  if (!qp.wants_to_transmit()) return;
  if (!qp.only_acknowledges() || !qp.held.holds(now)) return touched_.push(qp);
  if (std::exchange(qp.is_holding, true)) return;
  holding_.push_back(&qp);
  held_until_.publish(std::min(held_until_.read_relaxed(), qp.held.until()));
}

}  // namespace verbena::device
