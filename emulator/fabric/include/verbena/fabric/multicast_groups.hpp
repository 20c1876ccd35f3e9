// SPDX-License-Identifier: BSD-2-Clause
// Which queue pairs joined which multicast groups at one port. It only keeps the record; the
// sockets are the port's.
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

  // Returns false if this queue pair is already in the group.
  bool join(const Gid& mgid, std::uint32_t slot, std::uint32_t qpn);
  // Returns false if this queue pair is not in the group.
  bool leave(const Gid& mgid, std::uint32_t slot, std::uint32_t qpn);
  void leave_all(std::uint32_t slot);

  IpAddress group_of(const Gid& mgid) const;
  // Returns the IP groups that have a member.
  std::set<IpAddress, bool (*)(const IpAddress&, const IpAddress&)> groups() const;
  // Returns each context once for each MGID that maps to `group`.
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
