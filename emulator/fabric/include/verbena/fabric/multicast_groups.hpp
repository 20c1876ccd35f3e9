// SPDX-License-Identifier: BSD-2-Clause
// Who joined which multicast group at one port. Pure bookkeeping: the sockets are the port's.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "verbena/base/address.hpp"

namespace verbena::fabric {

class MulticastGroups {
 public:
  struct Member {
    Gid mgid;
    std::uint32_t slot;
    bool operator==(const Member&) const = default;
  };

  explicit MulticastGroups(bool v4) : v4_(v4) {}

  // False when this queue pair is in the group already.
  bool join(const Gid& mgid, std::uint32_t slot, std::uint32_t qpn);
  // False when it is not.
  bool leave(const Gid& mgid, std::uint32_t slot, std::uint32_t qpn);
  void leave_all(std::uint32_t slot);

  IpAddress group_of(const Gid& mgid) const;
  // The IP groups that have a member.
  std::set<IpAddress, bool (*)(const IpAddress&, const IpAddress&)> groups() const;
  // Each context once for each MGID that `group` carries.
  std::vector<Member> members_of(const IpAddress& group) const;
  std::size_t memberships_of(std::uint32_t slot) const;

 private:
  struct Less {
    bool operator()(const Gid& a, const Gid& b) const { return a.bytes < b.bytes; }
  };
  struct Seat {
    std::uint32_t slot;
    std::uint32_t qpn;
    auto operator<=>(const Seat&) const = default;
  };

  bool v4_;
  std::map<Gid, std::set<Seat>, Less> seats_;
};

}  // namespace verbena::fabric
