// SPDX-License-Identifier: BSD-2-Clause
// Handles what contexts tell and ask each other about the XRC domains that they share: checks each
// message against what its sender has, and passes it on to the context that it concerns. Owned by
// the server, on its thread.
#pragma once

#include <cstdint>

#include "client_table.hpp"
#include "questions.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/fabric/extension.hpp"
#include "xrc_domains.hpp"

namespace verbena::daemon {

class XrcBroker {
 public:
  // How long the owner of a receiver may take to answer a call. It is less than the time that the
  // asker waits, so the asker knows what has become of its call, and no handle is made for an asker
  // that has given up.
  static constexpr TimeNs kDeadlineNs = 8'000'000'000;
  static_assert(kDeadlineNs < TimeNs{control::kDefaultTimeoutMs} * 1'000'000);

  XrcBroker(ClientTable& clients, Questions& questions, fabric::Timers& timers)
      : clients_(clients), questions_(questions), timers_(timers) {}

  void on_message(Session& session, const control::Incoming& in);
  // Must be called while the session still has its context.
  void on_context_closed(Session& gone) { domains_.on_context_closed(gone); }

 private:
  void on_open_domain(Session& session, const control::Incoming& in);
  void on_close_domain(Session& session, const control::Incoming& in);
  void on_receiver_call(Session& session, const control::Incoming& in);
  void on_receiver_answer(Session& session, const control::Incoming& in);
  // Refuses a call that the owner has not answered in time.
  void give_up(std::uint32_t ticket);
  Session* context_with_number(const Session& asker, std::uint32_t number) const;

  ClientTable& clients_;
  Questions& questions_;
  fabric::Timers& timers_;
  XrcDomains domains_;
};

}  // namespace verbena::daemon
