// SPDX-License-Identifier: BSD-2-Clause
// One round of questions to all contexts: how many objects have you, and what do your first queue
// pairs do? Ends when all have answered, or at a deadline, so that a stopped process holds nobody
// up. Owned by the server; deletes nothing itself.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "verbena/control/messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/fabric/extension.hpp"

namespace verbena::daemon {

class StatusRound {
 public:
  // Of those that have answered.
  using Answers = std::map<fabric::ClientId, control::StatusReport>;
  using Then = std::function<void(Answers)>;

  StatusRound(std::set<fabric::ClientId> asked, Then then)
      : waiting_(std::move(asked)), then_(std::move(then)) {}

  bool is_done() const { return waiting_.empty(); }
  void take(fabric::ClientId client, control::StatusReport report) {
    if (waiting_.erase(client) != 0) answers_[client] = std::move(report);
  }
  void forget(fabric::ClientId client) {
    waiting_.erase(client);
    answers_.erase(client);
  }
  void finish() { then_(std::move(answers_)); }

 private:
  std::set<fabric::ClientId> waiting_;
  Answers answers_;
  Then then_;
};

}  // namespace verbena::daemon
