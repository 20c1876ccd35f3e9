// SPDX-License-Identifier: BSD-2-Clause
// IDs whose route begins with a neighbour that has not answered yet. Owned by RdmaCm, one thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "verbena/cm/ports.hpp"
#include "verbena/cm/rdma_types.hpp"

namespace verbena::cm {

class NeighbourQuestions {
 public:
  // The time between two looks at a neighbour. It begins with kLook. Later it is a fourth of the
  // time that the neighbour has been silent, and at most kLookMax: each look costs several calls of
  // the host's kernel.
  static constexpr TimeNs kLook = 20'000'000;
  static constexpr TimeNs kLookMax = 200'000'000;

  struct Ended {
    IdHandle id;
    ResolvedRoute route;
    int error;  // 0: the neighbour has answered
  };

  explicit NeighbourQuestions(const Ports& ports) : ports_(ports) {}

  // Adds a question, which is given up at `until`. Its neighbour is looked at as soon as possible,
  // or kLook after the last look if other IDs wait for the same neighbour.
  void ask(IdHandle id, const ResolvedRoute& route, TimeNs until);
  void forget(IdHandle id);
  // Makes all neighbours due. Must be called when a port goes down.
  void look_soon();
  TimeNs next_deadline() const;
  // Looks at each neighbour that is due, once for all IDs that wait for it, and returns the
  // questions that have ended. As in Linux, a question ends with ETIMEDOUT when the program's
  // time-out is over (at most kLook later), or with ENODEV when the local port is down.
  std::vector<Ended> look(TimeNs now);

 private:
  // The device's number. When the neighbour answers, the device may be gone or changed.
  struct Question {
    IdHandle id;
    DeviceId device;
    ResolvedRoute route;
    TimeNs until;
  };
  struct Neighbour {
    std::vector<Question> open;
    TimeNs looked_at = 0;
    TimeNs look_at = 0;  // time of the next look
    // Time of the first look since the last ID began to wait; nothing before that look.
    std::optional<TimeNs> silent_since;
  };

  void check(const IpAddress& address, Neighbour& neighbour, TimeNs now, std::vector<Ended>& ended);
  void drop_unawaited();

  const Ports& ports_;
  std::map<IpAddress, Neighbour> neighbours_;  // by their addresses
};

}  // namespace verbena::cm
