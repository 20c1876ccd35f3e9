// SPDX-License-Identifier: BSD-2-Clause
// Requests of one client that only another one's context can answer. They are kept here until it
// does. The limits bound what a client that never reads the answers, or a context that is stopped,
// costs the daemon and other clients. Owned by the server, on its thread.
//
//   asker --> request --> daemon --> question with a number --> owner
//   asker <-- reply   <-- daemon <-- answer with that number <-- owner, or the owner goes
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "client_table.hpp"
#include "verbena/control/xrc_messages.hpp"
#include "verbena/fabric/extension.hpp"

namespace verbena::daemon {

class Questions {
 public:
  static constexpr std::size_t kOfOne = 256;   // questions of one process
  static constexpr std::size_t kToOne = 4096;  // questions to one context

  struct Question {
    Session::Id asker;       // 0: it was refused, because the owner does not answer in time
    std::uint32_t process;   // the asker's process
    std::uint32_t sequence;  // sequence of its request
    Session::Id owner;       // the client that answers
    control::Error if_gone;  // what the asker is told if the owner goes
    // The XRC receiver that the question calls (0: none). Such a call is completed even if the
    // asker goes.
    std::uint32_t receiver = 0;
    control::ReceiverVerb verb = control::ReceiverVerb::kOpen;
    fabric::Timers::Id deadline = 0;  // of such a call
  };

  explicit Questions(const ClientTable& clients) : clients_(clients) {}

  // Returns true if one more question may wait. If not, refuses the request.
  bool may_ask(Session& asker, const control::Incoming& in, const Session& owner) const;
  // A number must not be used twice for one kind of question.
  void add(control::MessageType kind, std::uint32_t number, Question question) {
    waiting_.insert_or_assign({kind, number}, std::move(question));
  }
  // Removes and returns a question. Returns nothing if this owner was not asked it.
  std::optional<Question> take(control::MessageType kind, std::uint32_t number,
                               const Session& owner);
  // Returns a question that still waits, or null.
  Question* find(control::MessageType kind, std::uint32_t number);
  void on_client_gone(Session::Id gone);

 private:
  const ClientTable& clients_;
  std::map<std::pair<control::MessageType, std::uint32_t>, Question> waiting_;
};

}  // namespace verbena::daemon
