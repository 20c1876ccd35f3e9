// SPDX-License-Identifier: BSD-2-Clause
// IDs whose route begins with a neighbour that has not answered yet. Owned by RdmaCm, one thread.
#pragma once

#include <vector>

#include "verbena/cm/ports.hpp"
#include "verbena/cm/rdma_types.hpp"

namespace verbena::cm {

class NeighbourQuestions {
 public:
  // How often look() checks whether a neighbour has answered.
  static constexpr TimeNs kLook = 20'000'000;

  struct Ended {
    IdHandle id;
    ResolvedRoute route;
    int error;  // 0: the neighbour has answered
  };

  explicit NeighbourQuestions(const Ports& ports) : ports_(ports) {}

  // Adds a question that is checked as soon as possible, and given up at `until`.
  void ask(IdHandle id, const ResolvedRoute& route, TimeNs until) {
    open_.push_back({id, route.port->device, route, until, 0});
  }
  void forget(IdHandle id);
  TimeNs next_deadline() const;
  // Checks each question that is due and returns those that have ended. As in Linux, a question
  // ends with ETIMEDOUT when the program's time-out is over, or with ENODEV when the local port is
  // down.
  std::vector<Ended> look(TimeNs now);

 private:
  // The device's number. When the neighbour answers, the device may be gone or changed.
  struct Question {
    IdHandle id;
    DeviceId device;
    ResolvedRoute route;
    TimeNs until;
    TimeNs look_at;
  };

  const Ports& ports_;
  std::vector<Question> open_;
};

}  // namespace verbena::cm
