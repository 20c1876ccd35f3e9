// SPDX-License-Identifier: BSD-2-Clause
// Applies rules to the calls of one opened device, or of one process's librdmacm (fail=). Each rule
// counts calls on its own.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "verbena/fault/script.hpp"

namespace verbena::fault {

// A call as rules see it.
struct Call {
  std::string_view function;
  std::uint32_t place = 0;  // the queue pair is the process's n-th; 0: none
  Qpn qp{};
  TimeNs now = 0;
};

class CallScript {
 public:
  // Replaces the rules. A rule that stays (same ID) continues its count.
  void set_rules(std::vector<ActiveRule> rules);
  bool names(std::string_view function) const;
  bool has(std::uint64_t rule) const;
  // Returns the errno that the call fails with; 0: it does not fail.
  int judge(const Call& call);

 private:
  std::vector<ActiveRule> rules_;
  std::map<std::uint64_t, std::uint64_t> calls_;  // counts by rule
};

}  // namespace verbena::fault
