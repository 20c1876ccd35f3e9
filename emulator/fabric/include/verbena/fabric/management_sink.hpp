// SPDX-License-Identifier: BSD-2-Clause
// Takes the datagrams for a port's management queue pairs (QP0: subnet, QP1: general services).
// Connection management implements it. Called on the daemon's one thread.
#pragma once

#include <cstdint>

#include "verbena/wire/datagram.hpp"

namespace verbena::fabric {

class Port;

class ManagementSink {
 public:
  virtual ~ManagementSink() = default;
  // Handles a datagram for QP 0 or 1. Answers are sent with port.send().
  virtual void on_management_datagram(Port& port, const wire::RxDatagram& datagram) noexcept = 0;
  // Called after a context and all its queue pairs are gone.
  virtual void on_context_closed(Port& port, std::uint32_t slot) noexcept = 0;
};

}  // namespace verbena::fabric
