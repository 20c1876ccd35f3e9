// SPDX-License-Identifier: BSD-2-Clause
// Rules at work on the calls of one opened device, or of one process's librdmacm (fail=). Calls are
// counted for each rule alone.
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
  std::uint32_t place = 0;  // of its queue pair among those of the process; 0: it has none
  Qpn qp{};
  TimeNs now = 0;
};

class CallScript {
 public:
  // In place of those before. One that stays, by its id, goes on counting.
  void set_rules(std::vector<ActiveRule> rules);
  bool names(std::string_view function) const;
  bool has(std::uint64_t rule) const;
  // With which errno it fails; 0: it does not.
  int judge(const Call& call);

 private:
  std::vector<ActiveRule> rules_;
  std::map<std::uint64_t, std::uint64_t> calls_;  // by rule
};

}  // namespace verbena::fault
