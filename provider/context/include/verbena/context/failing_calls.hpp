// SPDX-License-Identifier: BSD-2-Clause
// Calls of an opened device that rules make fail (fail=). Obeyed are those rules that were in force
// when the device was opened, until they are taken away: only then verbs can be put into
// libibverbs' table without another thread calling them meanwhile. Any thread.
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
  // With which errno it fails; 0: it does not.
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
