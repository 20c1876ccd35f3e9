// SPDX-License-Identifier: BSD-2-Clause
// The clocks of what rules let happen once (fault::is_event): each begins when a program that the
// rule names has a device open, or at once if one has. Owned by the server, on its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "event_loop.hpp"
#include "verbena/fabric/rule_table.hpp"

namespace verbena::daemon {

class RuleEvents {
 public:
  using IsThere = std::function<bool(const fault::Rule& rule)>;
  using Perform = std::function<void(std::uint64_t rule)>;

  RuleEvents(EventLoop& loop, Perform perform) : loop_(loop), perform_(std::move(perform)) {}

  // After rules have changed, or a program has opened a device.
  void follow(const fabric::RuleTable& rules, const IsThere& is_there);

 private:
  struct Clock {
    fabric::Timers::Id timer = 0;
    bool has_ended = false;
  };
  void start(const fabric::RuleTable::Entry& entry);

  EventLoop& loop_;
  Perform perform_;
  std::map<std::uint64_t, Clock> clocks_;  // by the rule's id
};

}  // namespace verbena::daemon
