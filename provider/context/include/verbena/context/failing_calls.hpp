// SPDX-License-Identifier: BSD-2-Clause
// Calls of an opened device that rules make fail (fail=). Only rules that were in force when the
// device was opened are obeyed, until they are removed: only at the opening can verbs be replaced
// in libibverbs' table while no other thread calls them. Any thread.
#pragma once

#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "verbena/fault/call_script.hpp"

namespace verbena::provider {

class FailingCalls {
 public:
  void set_rules(std::vector<fault::ActiveRule> rules) {
    const std::lock_guard guard(lock_);
    if (is_open_) {
      std::erase_if(rules, [&](const fault::ActiveRule& rule) { return !script_.has(rule.id); });
    }
    is_open_ = true;
    script_.set_rules(std::move(rules));
  }
  bool names(std::string_view function) const {
    const std::lock_guard guard(lock_);
    return script_.names(function);
  }
  // Returns the errno with which the call fails, or 0 if it does not.
  int judge(const fault::Call& call) {
    const std::lock_guard guard(lock_);
    return script_.judge(call);
  }

 private:
  mutable std::mutex lock_;
  bool is_open_ = false;
  fault::CallScript script_;
};

}  // namespace verbena::provider
