// SPDX-License-Identifier: BSD-2-Clause
// What a packet that came in leaves to send, noted in whoever took it in.
#pragma once

#include <utility>

#include "verbena/device/device.hpp"

namespace verbena::device {

// An acknowledgement waits as long as finish_receive() lets it.
[[gnu::always_inline]] inline void Device::note_owed(qp::QueuePair& qp, TimeNs now) {
  if (!qp.wants_to_transmit()) return;
  if (!qp.only_acknowledges() || !qp.held.may_wait()) return touched_.push(qp);
  qp::QueuePair::Held& held = qp.held;
  if (held.is_waiting.read_relaxed()) return;
  held.until = held.spin.is_on() ? now + kHold : 0;
  held.is_waiting.publish(true);
  held.round = round_;
  if (!std::exchange(held.is_listed, true)) waiting_.push_back(&qp);
}

}  // namespace verbena::device
