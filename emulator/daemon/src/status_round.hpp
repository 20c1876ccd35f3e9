// SPDX-License-Identifier: BSD-2-Clause
// One round of questions to all contexts: how many objects have you? Ends when all have answered,
// or at a deadline, so that a stopped process holds nobody up. Owned by the server; deletes
// nothing itself.
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
  using Counts = std::map<fabric::ClientId, control::ResourceCounts>;
  using Then = std::function<void(const Counts&)>;

  StatusRound(std::set<fabric::ClientId> asked, Then then)
      : waiting_(std::move(asked)), then_(std::move(then)) {}

  bool is_done() const { return waiting_.empty(); }
  void take(fabric::ClientId client, const control::ResourceCounts& counts) {
    if (waiting_.erase(client) != 0) counts_[client] = counts;
  }
  void forget(fabric::ClientId client) {
    waiting_.erase(client);
    counts_.erase(client);
  }
  void finish() { then_(counts_); }

 private:
  std::set<fabric::ClientId> waiting_;
  Counts counts_;
  Then then_;
};

}  // namespace verbena::daemon
