// SPDX-License-Identifier: BSD-2-Clause
// Answers a context that asks about a peer that does not answer it (control/peer_messages.hpp):
// tells what the daemon knows of the peer's process, and asks that process about the queue pair.
// Owned by the server, on its thread.
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
  // Passes on what the peer says about its queue pair.
  void on_answer(const Session& peer, const control::Incoming& in);
  // Must be called while the session still has its context.
  void on_context_closed(const Session& gone);

 private:
  // The process that was the last to have a slot.
  struct Former {
    std::uint32_t pid = 0;  // 0: in another namespace of process numbers
    std::string comm;
    std::string started;       // as /proc/PID/stat has it; empty: it had ended already
    bool has_said_so = false;  // it told that it closes the device

    bool lives() const;
  };

  // Tells what is known of a slot that no process has now.
  void describe_former(const fabric::Port* port, std::uint32_t slot, const Session& asker,
                       PeerReport& report) const;

  const fabric::Fabric& fabric_;
  const ClientTable& clients_;
  std::map<std::pair<const fabric::Port*, std::uint32_t>, Former> former_;
};

}  // namespace verbena::daemon
