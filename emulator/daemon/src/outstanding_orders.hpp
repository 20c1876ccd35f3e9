// SPDX-License-Identifier: BSD-2-Clause
// Waits until all contexts have done what they were told, and tells the asker which have not in
// time: these are stopped, or in a debugger. Owned by the server, on its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "client_table.hpp"
#include "verbena/control/silent_processes.hpp"

namespace verbena::daemon {

class OutstandingOrders {
 public:
  // How long the contexts have to do what they are told.
  static constexpr TimeNs kDeadlineNs = 3'000'000'000;

  struct Order {
    Session::Id asker;
    std::set<Session::Id> awaited;
    // Called when all have followed, or have not in time.
    std::function<void(Session& asker, control::SilentProcesses silent)> then;
    bool is_of_faults = false;
    fabric::Timers::Id deadline = 0;
  };

  OutstandingOrders(const ClientTable& clients, fabric::Timers& timers)
      : clients_(clients), timers_(timers) {}

  // `ticket` is the number that contexts name when they have followed.
  void begin(std::uint32_t ticket, Order order);
  bool has_one_of(Session::Id asker) const;
  void on_followed(const Session& session, std::uint32_t ticket);
  // The context has the faults of this order in force, and so those of all orders before it.
  void on_faults_in_force(const Session& session, std::uint32_t ticket);
  void on_client_gone(Session::Id gone);

 private:
  void end(std::uint32_t ticket, bool is_late);

  const ClientTable& clients_;
  fabric::Timers& timers_;
  std::map<std::uint32_t, Order> orders_;  // keyed by ticket
  // Contexts that did not follow the last order in time and have said nothing since. An order that
  // awaits only these does not wait.
  std::set<Session::Id> silent_;
};

}  // namespace verbena::daemon
