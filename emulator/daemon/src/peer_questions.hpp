// SPDX-License-Identifier: BSD-2-Clause
// A context asks about a peer that does not answer it (control/peer_messages.hpp): the daemon says
// what it knows of that one's process, and asks the process about the queue pair. Owned by the
// server, on its thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "client_table.hpp"
#include "verbena/control/peer_messages.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

class PeerQuestions {
 public:
  PeerQuestions(const fabric::Fabric& fabric, const ClientTable& clients)
      : fabric_(fabric), clients_(clients) {}

  void on_question(Session& asker, const control::Incoming& in);
  // From the peer, of its queue pair.
  void on_answer(const Session& peer, const control::Incoming& in);
  // While it still has its context.
  void on_context_closed(const Session& gone);

 private:
  // Whose context a slot was last.
  struct Ended {
    std::uint32_t pid;
    std::string comm;
  };

  Session* context_at(const IpAddress& address, std::uint32_t slot) const;

  const fabric::Fabric& fabric_;
  const ClientTable& clients_;
  std::map<std::pair<const fabric::Port*, std::uint32_t>, Ended> ended_;
};

}  // namespace verbena::daemon
