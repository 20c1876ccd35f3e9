// SPDX-License-Identifier: BSD-2-Clause
#include "outstanding_orders.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace verbena::daemon {

void OutstandingOrders::begin(std::uint32_t ticket, Order order) {
  const bool is_vain = std::ranges::includes(silent_, order.awaited);
  order.deadline = timers_.after(is_vain ? 0 : kDeadlineNs, [this, ticket] { end(ticket, true); });
  orders_.emplace(ticket, std::move(order));
}

bool OutstandingOrders::has_one_of(Session::Id asker) const {
  return std::ranges::any_of(orders_,
                             [&](const auto& entry) { return entry.second.asker == asker; });
}

void OutstandingOrders::on_followed(const Session& session, std::uint32_t ticket) {
  silent_.erase(session.id);
  const auto order = orders_.find(ticket);
  if (order == orders_.end()) return;
  std::set<Session::Id>& awaited = order->second.awaited;
  if (awaited.erase(session.id) != 0 && awaited.empty()) end(ticket, false);
}

// A context that was told again before it looked answers only the last order.
void OutstandingOrders::on_faults_in_force(const Session& session, std::uint32_t ticket) {
  silent_.erase(session.id);
  std::vector<std::uint32_t> done;
  for (const auto& [number, order] : orders_) {
    if (order.is_of_faults && number <= ticket) done.push_back(number);
  }
  for (const std::uint32_t number : done) on_followed(session, number);
}

// A program that has ended does nothing more, and an asker that has gone waits for no answer.
void OutstandingOrders::on_client_gone(Session::Id gone) {
  silent_.erase(gone);
  std::vector<std::uint32_t> done;
  for (auto& [ticket, order] : orders_) {
    const bool was_last = order.awaited.erase(gone) != 0 && order.awaited.empty();
    if (was_last || order.asker == gone) done.push_back(ticket);
  }
  for (const std::uint32_t ticket : done) end(ticket, false);
}

void OutstandingOrders::end(std::uint32_t ticket, bool is_late) {
  const Order order = std::move(orders_.extract(ticket).mapped());
  if (is_late) {
    silent_.insert(order.awaited.begin(), order.awaited.end());
  } else {
    timers_.cancel(order.deadline);
  }
  Session* const asker = clients_.find(order.asker);
  if (asker == nullptr) return;
  control::SilentProcesses silent;
  std::set<std::uint32_t> processes;  // some have several contexts
  for (const Session::Id id : order.awaited) {
    const fabric::ClientInfo& context = *clients_.info(id);
    if (!processes.insert(context.pid).second) continue;
    if (silent.named.size() < control::SilentProcesses::kNamedMost) {
      silent.named.push_back({context.pid, context.comm});
    }
  }
  silent.count = static_cast<std::uint32_t>(processes.size());
  order.then(*asker, std::move(silent));
}

}  // namespace verbena::daemon
