// SPDX-License-Identifier: BSD-2-Clause
// Finds the device that has a queue pair of a given number. Only the program knows, so the contexts
// that could have such a number are asked. Owned by the server, on its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "client_table.hpp"

namespace verbena::daemon {

class QueuePairSearch {
 public:
  // How long the contexts have to answer.
  static constexpr TimeNs kDeadlineNs = 500'000'000;

  using Found = std::function<void(Session& asker, const std::string& device)>;

  QueuePairSearch(ClientTable& clients, fabric::Timers& timers)
      : clients_(clients), timers_(timers) {}

  // Searches the contexts of one device, or of all if `device` is empty. Calls `found`, or refuses
  // the request with this sequence, as it does if two devices have such a queue pair. An asker has
  // one search at a time.
  void begin(Session& asker, std::uint32_t sequence, const std::string& device, std::uint32_t qpn,
             Found found);
  void on_answer(const Session& context, const control::Incoming& in);
  void on_client_gone(Session::Id gone);

 private:
  struct Search {
    Session::Id asker;
    std::uint32_t sequence;
    std::uint32_t qpn;
    Found found;
    std::set<Session::Id> asked;
    std::set<std::string> devices;  // that have it
    fabric::Timers::Id deadline = 0;
  };

  void end(std::uint32_t ticket, bool is_silent);

  ClientTable& clients_;
  fabric::Timers& timers_;
  std::map<std::uint32_t, Search> searches_;  // keyed by ticket
};

}  // namespace verbena::daemon
