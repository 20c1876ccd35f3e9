// SPDX-License-Identifier: BSD-2-Clause
// Where datagrams for a port's management queue pairs go (QP0: subnet, QP1: general services).
// Implemented by connection management; called on the daemon's one thread.
#pragma once

#include <cstdint>

#include "verbena/wire/datagram.hpp"

namespace verbena::fabric {

class Port;

class ManagementSink {
 public:
  virtual ~ManagementSink() = default;
  // The destination QP is 0 or 1. Answers go out through port.send().
  virtual void on_management_datagram(Port& port, const wire::RxDatagram& datagram) noexcept = 0;
  // A context has gone, with all its queue pairs.
  virtual void on_context_closed(Port& port, std::uint32_t slot) noexcept = 0;
};

}  // namespace verbena::fabric
