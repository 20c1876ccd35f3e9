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

  // A context is asked to raise an event for a rule.
  void note_asked(std::uint32_t question, std::uint64_t rule, std::uint64_t owner) {
    asked_[question] = {rule, owner};
  }
  // For which rule this context was asked that; it is no longer. Nothing: it was not.
  std::optional<std::uint64_t> take_answer(std::uint32_t question, std::uint64_t owner);
  // Who has ended answers no more.
  void forget_owner(std::uint64_t owner);
  // Once more in a moment, unless others are asked still: the queue may come yet.
  void perform_again(std::uint64_t rule);

 private:
  static constexpr TimeNs kAgainNs = 20'000'000;

  struct Clock {
    fabric::Timers::Id timer = 0;
    bool has_ended = false;
  };
  struct Asked {
    std::uint64_t rule;
    std::uint64_t owner;
  };
  void start(std::uint64_t id, TimeNs after);

  EventLoop& loop_;
  Perform perform_;
  std::map<std::uint64_t, Clock> clocks_;  // by the rule's id
  std::map<std::uint32_t, Asked> asked_;   // by the question
};

}  // namespace verbena::daemon
