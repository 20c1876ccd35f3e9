// SPDX-License-Identifier: BSD-2-Clause
// `verbena fault`: changes the faults of devices and the rules, tells all contexts, and answers
// when every program has them in force. Owned by the server, on its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "client_table.hpp"
#include "event_journal.hpp"
#include "outstanding_orders.hpp"
#include "queue_pair_search.hpp"
#include "verbena/control/fault_messages.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

class FaultChanges {
 public:
  // Calls `on_changed` when the rules may have changed, before any context knows.
  FaultChanges(fabric::Fabric& fabric, ClientTable& clients, fabric::Timers& timers,
               EventJournal& journal, OutstandingOrders& orders, std::function<void()> on_changed)
      : fabric_(fabric),
        clients_(clients),
        journal_(journal),
        orders_(orders),
        on_changed_(std::move(on_changed)),
        search_(clients, timers) {}

  void on_request(Session& session, const control::Incoming& in);
  void on_queue_pair_found(const Session& context, const control::Incoming& in) {
    search_.on_answer(context, in);
  }
  void on_in_force(const Session& context, const control::Incoming& in);
  void on_queue_pair_gone(const Session& context, const control::Incoming& in);
  void on_client_gone(Session::Id gone) { search_.on_client_gone(gone); }

 private:
  void apply(Session& session, std::uint32_t sequence, const control::ChangeFault& change);
  std::optional<control::Error> change_rules(fabric::RuleTable& rules,
                                             const control::ChangeFault& change,
                                             std::uint64_t fresh_seed, fabric::Seeds& seeds) const;
  std::uint64_t seed_of_new_ones() const;
  void tell_contexts(const fabric::Port& port, std::uint32_t ticket);

  fabric::Fabric& fabric_;
  ClientTable& clients_;
  EventJournal& journal_;
  OutstandingOrders& orders_;
  std::function<void()> on_changed_;
  QueuePairSearch search_;
};

}  // namespace verbena::daemon
