// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/multicast_groups.hpp"

#include "verbena/control/address_plan.hpp"

namespace verbena::fabric {
namespace {

bool is_lower(const IpAddress& a, const IpAddress& b) { return a.bytes < b.bytes; }

}  // namespace

bool MulticastGroups::join(const Gid& mgid, std::uint32_t slot, std::uint32_t qpn) {
  return seats_[mgid].insert({slot, qpn}).second;
}

bool MulticastGroups::leave(const Gid& mgid, std::uint32_t slot, std::uint32_t qpn) {
  const auto group = seats_.find(mgid);
  if (group == seats_.end() || group->second.erase({slot, qpn}) == 0) return false;
  if (group->second.empty()) seats_.erase(group);
  return true;
}

void MulticastGroups::leave_all(std::uint32_t slot) {
  for (auto group = seats_.begin(); group != seats_.end();) {
    std::erase_if(group->second, [slot](const Seat& seat) { return seat.slot == slot; });
    group = group->second.empty() ? seats_.erase(group) : std::next(group);
  }
}

IpAddress MulticastGroups::group_of(const Gid& mgid) const {
  return control::group_of_mgid(mgid, v4_);
}

std::set<IpAddress, bool (*)(const IpAddress&, const IpAddress&)> MulticastGroups::groups() const {
  std::set<IpAddress, bool (*)(const IpAddress&, const IpAddress&)> all(&is_lower);
  for (const auto& [mgid, seats] : seats_) all.insert(group_of(mgid));
  return all;
}

std::vector<MulticastGroups::Member> MulticastGroups::members_of(const IpAddress& group) const {
  std::vector<Member> members;
  for (const auto& [mgid, seats] : seats_) {
    if (!(group_of(mgid) == group)) continue;
    // Seats are ordered by slot, so equal slots are neighbours.
    for (const Seat& seat : seats) {
      if (!members.empty() && members.back() == Member{mgid, seat.slot}) continue;
      members.push_back({mgid, seat.slot});
    }
  }
  return members;
}

std::size_t MulticastGroups::memberships_of(std::uint32_t slot) const {
  std::size_t count = 0;
  for (const auto& [mgid, seats] : seats_) {
    for (const Seat& seat : seats) count += seat.slot == slot ? 1 : 0;
  }
  return count;
}

}  // namespace verbena::fabric
