// SPDX-License-Identifier: BSD-2-Clause
// The multicast groups that the queue pairs of a context are members of. The daemon receives what
// is sent to a group and relays it. Owned by the context. Any thread may join and leave; relayed
// packets come under the client's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/types.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::provider {

class Context;

class Multicast {
 public:
  explicit Multicast(Context& context) : context_(context) {}

  // Both throw VerbRefused.
  void join(Qpn member, const Gid& mgid, std::uint16_t mlid);
  void leave(Qpn member, const Gid& mgid, std::uint16_t mlid);
  void on_relayed(const control::Relayed& relayed);

 private:
  struct Membership {
    Gid mgid;
    Qpn member;
  };
  void erase(Qpn member, const Gid& mgid);

  Context& context_;
  std::vector<Membership> memberships_;  // under the context's lock
};

}  // namespace verbena::provider
