// SPDX-License-Identifier: BSD-2-Clause
// Carries out rules that act once (fault::is_event), on a port or on the processes of a program. A
// rule's clock begins when a program that the rule names has a device open. Owned by the server, on
// its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "client_table.hpp"
#include "event_journal.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

class RuleEvents {
 public:
  using SetPort = std::function<void(fabric::Port& port, bool up)>;

  // How long until a queue that does not exist yet is looked for again.
  static constexpr TimeNs kAgainNs = 20'000'000;

  RuleEvents(fabric::Fabric& fabric, ClientTable& clients, fabric::Timers& timers,
             EventJournal& journal, SetPort set_port)
      : fabric_(fabric),
        clients_(clients),
        timers_(timers),
        journal_(journal),
        set_port_(std::move(set_port)) {}

  // Must be called after rules have changed, or a program has opened a device.
  void follow();
  // Handles Ack or Refused. Returns false if it answers no question of a rule.
  bool on_answer(const Session& owner, const control::Incoming& in);
  // A client that has ended answers no more.
  void on_client_gone(Session::Id gone);
  // Stops all clocks, so that no rule acts from here on.
  void end();

 private:
  struct Clock {
    fabric::Timers::Id timer = 0;
    bool has_ended = false;
  };
  struct Asked {
    std::uint64_t rule;
    Session::Id owner;
  };

  bool has_opener(fault::Rule rule) const;
  bool is_for_next_opening(const fabric::RuleTable::Entry& entry) const;
  bool is_asked(std::uint64_t rule) const;
  void start(std::uint64_t rule, TimeNs after, void (RuleEvents::*then)(std::uint64_t));
  void perform(std::uint64_t rule);
  void perform_again(std::uint64_t rule);
  void look_for_queue(std::uint64_t rule);
  void note(std::uint64_t rule, std::uint64_t matched);
  void raise_for(std::uint64_t id, const fault::Rule& rule);
  std::vector<Session*> contexts_of(const fault::Rule& rule) const;
  std::set<std::uint32_t> processes_of(const fault::Rule& rule) const;

  fabric::Fabric& fabric_;
  ClientTable& clients_;
  fabric::Timers& timers_;
  EventJournal& journal_;
  SetPort set_port_;
  std::map<std::uint64_t, Clock> clocks_;  // keyed by the rule's id
  std::map<std::uint32_t, Asked> asked_;   // questions to raise an event, by number
};

}  // namespace verbena::daemon
