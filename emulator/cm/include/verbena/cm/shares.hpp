// SPDX-License-Identifier: BSD-2-Clause
// Divides the objects and ports of the rdma_cm layer among processes (limits/fair_share.hpp), and
// keeps the reason of a refusal. Owned by RdmaCm, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "verbena/limits/fair_share.hpp"

namespace verbena::cm {

struct Shares {
  // kObjects is the number of IDs, memberships and unread events, of at most a kilobyte each.
  // kPorts is the number of ports in all port spaces together, which equals the ephemeral ports of
  // one.
  static constexpr std::size_t kObjects = 1u << 18;
  static constexpr std::size_t kPorts = 28232;

  limits::FairShare objects{kObjects};
  limits::FairShare ports{kPorts};

  // Returns true if the process may have one more. Keeps the reason if it may not.
  bool may_add_object(limits::Holder process) {
    return may_add(objects, process, " rdma_cm identifiers, memberships and unread events");
  }
  bool may_add_port(limits::Holder process) { return may_add(ports, process, " ports of rdma_cm"); }
  // Returns the reason, once.
  std::string take_reason() { return std::exchange(reason_, {}); }

 private:
  bool may_add(const limits::FairShare& share, limits::Holder process, const char* things) {
    if (share.may_take(process)) return true;
    reason_ = "process " + std::to_string(process) + " has " +
              std::to_string(share.held_by(process)) + things + ", and " +
              std::to_string(share.left()) +
              " are left for all others: no process may have more than that";
    return false;
  }

  std::string reason_;
};

}  // namespace verbena::cm
