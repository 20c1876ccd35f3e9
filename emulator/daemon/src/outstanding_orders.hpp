// SPDX-License-Identifier: BSD-2-Clause
// Some contexts were told to do something, and somebody wants to know when all have done it, or
// which have not in time: they are stopped, or in a debugger. Owned by the server, on its thread.
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
    // When all have followed, or have not in time.
    std::function<void(Session& asker, control::SilentProcesses silent)> then;
    bool is_of_faults = false;
    fabric::Timers::Id deadline = 0;
  };

  OutstandingOrders(const ClientTable& clients, fabric::Timers& timers)
      : clients_(clients), timers_(timers) {}

  // `ticket`: the number that those who follow name.
  void begin(std::uint32_t ticket, Order order);
  bool has_one_of(Session::Id asker) const;
  void on_followed(const Session& session, std::uint32_t ticket);
  // Faults as they are since this order, and so since all before it.
  void on_faults_in_force(const Session& session, std::uint32_t ticket);
  void on_client_gone(Session::Id gone);

 private:
  void end(std::uint32_t ticket, bool is_late);

  const ClientTable& clients_;
  fabric::Timers& timers_;
  std::map<std::uint32_t, Order> orders_;  // by ticket
  // Those that the last wait for them was in vain for, and that have said nothing since: nobody
  // waits for them once more.
  std::set<Session::Id> silent_;
};

}  // namespace verbena::daemon
