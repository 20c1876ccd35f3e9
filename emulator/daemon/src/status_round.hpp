// One round of questions to all contexts: what are your queue pairs? Ends when all have answered,
// or at a deadline, so that a stopped process holds nobody up. Owned by the server; deletes
// nothing itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "verbena/control/messages.hpp"
#include "verbena/fabric/extension.hpp"

namespace verbena::daemon {

struct ContextReport {
  bool complete = false;
  control::ResourceCounts counts;
  std::vector<control::QpStatus> qps;
};

class StatusRound {
 public:
  using Reports = std::map<fabric::ClientId, ContextReport>;
  using Then = std::function<void(const Reports&)>;

  // More than this a context may not report; a client that never says "last" ends here.
  static constexpr std::size_t kQpsMax = 1u << 18;

  StatusRound(std::set<fabric::ClientId> asked, Then then)
      : waiting_(std::move(asked)), then_(std::move(then)) {
    for (const fabric::ClientId client : waiting_) reports_[client];
  }

  bool is_done() const { return waiting_.empty(); }
  void take(fabric::ClientId client, control::StatusReport report) {
    if (waiting_.count(client) == 0) return;
    ContextReport& mine = reports_[client];
    mine.counts = report.counts;
    mine.qps.insert(mine.qps.end(), report.qps.begin(), report.qps.end());
    if (!report.last && mine.qps.size() < kQpsMax) return;
    mine.complete = true;
    waiting_.erase(client);
  }
  void forget(fabric::ClientId client) {
    waiting_.erase(client);
    reports_.erase(client);
  }
  void finish() { then_(reports_); }

 private:
  std::set<fabric::ClientId> waiting_;
  Reports reports_;
  Then then_;
};

}  // namespace verbena::daemon
