// SPDX-License-Identifier: BSD-2-Clause
// IDs whose way begins with a neighbour that has not answered yet. Owned by RdmaCm, one thread.
#pragma once

#include <vector>

#include "verbena/cm/ports.hpp"
#include "verbena/cm/rdma_types.hpp"

namespace verbena::cm {

class NeighbourQuestions {
 public:
  // How often is looked whether a neighbour has answered.
  static constexpr TimeNs kLook = 20'000'000;

  struct Ended {
    IdHandle id;
    ResolvedRoute route;
    int error;  // 0: it has answered
  };

  explicit NeighbourQuestions(const Ports& ports) : ports_(ports) {}

  // Looked at as soon as possible, and in vain until `until`.
  void ask(IdHandle id, const ResolvedRoute& route, TimeNs until) {
    open_.push_back({id, route, until, 0});
  }
  void forget(IdHandle id);
  TimeNs next_deadline() const;
  // Looks again at each that is due, as Linux does until the program's patience ends. Without an
  // answer then ETIMEDOUT, or ENODEV as soon as our port is down.
  std::vector<Ended> look(TimeNs now);

 private:
  struct Question {
    IdHandle id;
    ResolvedRoute route;
    TimeNs until;
    TimeNs look_at;
  };

  const Ports& ports_;
  std::vector<Question> open_;
};

}  // namespace verbena::cm
