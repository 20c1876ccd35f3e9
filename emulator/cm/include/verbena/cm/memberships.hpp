// SPDX-License-Identifier: BSD-2-Clause
// Memberships in multicast groups. This table knows each by its number, and the ID that owns it
// lists it; the two change together. Owned by RdmaCm, one thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "verbena/cm/rdma_id.hpp"

namespace verbena::cm {

class Memberships {
 public:
  struct Membership {
    IdHandle owner = 0;
    std::uint64_t uid = 0;
    std::uint32_t events_reported = 0;
    bool has_ended = false;  // the port went down; the program has still to leave
  };

  // Returns the number of the new membership. No number is given twice.
  std::uint32_t add(RdmaId& owner, std::uint64_t uid) {
    const std::uint32_t number = next_++;
    all_.emplace(number, Membership{owner.handle, uid});
    owner.memberships.push_back(number);
    return number;
  }
  // Returns null if there is no such membership.
  Membership* find(std::uint32_t number) {
    const auto it = all_.find(number);
    return it == all_.end() ? nullptr : &it->second;
  }
  void remove(RdmaId& owner, std::uint32_t number) {
    std::erase(owner.memberships, number);
    all_.erase(number);
  }
  void remove_all(RdmaId& owner) {
    for (const std::uint32_t number : owner.memberships) all_.erase(number);
    owner.memberships.clear();
  }
  // Iterate over pairs of a number and a membership, in no order.
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::uint32_t next_ = 1;
  std::unordered_map<std::uint32_t, Membership> all_;
};

}  // namespace verbena::cm
