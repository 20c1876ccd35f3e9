// SPDX-License-Identifier: BSD-2-Clause
// Raises the events that `verbena event` asks for. An event of a queue is raised by the context
// that has the queue: the question goes there, and its answer back. A context that is stopped
// raises it when it continues. Owned by the server, on its thread.
#pragma once

#include "client_table.hpp"
#include "questions.hpp"
#include "verbena/control/event_messages.hpp"
#include "verbena/fabric/extension.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

class RaisedEvents {
 public:
  static constexpr TimeNs kDeadlineNs = 3'000'000'000;

  RaisedEvents(fabric::Fabric& fabric, ClientTable& clients, fabric::Timers& timers,
               Questions& questions)
      : fabric_(fabric), clients_(clients), timers_(timers), questions_(questions) {}

  void on_request(Session& session, const control::Incoming& in);
  // Handles Ack or Refused.
  void on_answer(Session& owner, const control::Incoming& in);

 private:
  void ask(Session& session, const control::Incoming& in, const fabric::Port& port,
           const control::RaiseEvent& request);
  void give_up(std::uint32_t question, Session::Id owner);

  fabric::Fabric& fabric_;
  ClientTable& clients_;
  fabric::Timers& timers_;
  Questions& questions_;
};

}  // namespace verbena::daemon
