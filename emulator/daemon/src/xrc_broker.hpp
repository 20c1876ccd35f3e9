// SPDX-License-Identifier: BSD-2-Clause
// Handles what contexts tell and ask each other about the XRC domains that they share: checks each
// message against what its sender has, and passes it on to the context that it concerns. Owned by
// the server, on its thread.
#pragma once

#include <cstdint>

#include "client_table.hpp"
#include "questions.hpp"
#include "xrc_domains.hpp"

namespace verbena::daemon {

class XrcBroker {
 public:
  XrcBroker(ClientTable& clients, Questions& questions)
      : clients_(clients), questions_(questions) {}

  void on_message(Session& session, const control::Incoming& in);
  // Must be called while the session still has its context.
  void on_context_closed(Session& gone) { domains_.on_context_closed(gone); }

 private:
  void on_open_domain(Session& session, const control::Incoming& in);
  void on_close_domain(Session& session, const control::Incoming& in);
  void on_receiver_call(Session& session, const control::Incoming& in);
  void on_receiver_answer(Session& session, const control::Incoming& in);
  Session* context_with_number(const Session& asker, std::uint32_t number) const;

  ClientTable& clients_;
  Questions& questions_;
  XrcDomains domains_;
};

}  // namespace verbena::daemon
