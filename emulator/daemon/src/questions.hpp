// SPDX-License-Identifier: BSD-2-Clause
// Requests of one client that only another one's context can answer: who waits for whose answer.
// A client that never reads the answers, or a context that stands still, costs the daemon and the
// other no more than the limits say. Owned by the server, on its thread.
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

namespace verbena::daemon {

class Questions {
 public:
  static constexpr std::size_t kOfOne = 256;   // process
  static constexpr std::size_t kToOne = 4096;  // context

  struct Question {
    Session::Id asker;
    std::uint32_t process;   // the asker's
    std::uint32_t sequence;  // of its request
    Session::Id owner;       // who answers
    control::Error if_gone;  // what the asker is told if the owner goes
    // Of a call upon an XRC receiver (0: it is none), which is seen to its end if the asker goes.
    std::uint32_t receiver = 0;
    control::ReceiverVerb verb = control::ReceiverVerb::kOpen;
  };

  explicit Questions(const ClientTable& clients) : clients_(clients) {}

  // Whether one more may wait; refuses the request if not.
  bool may_ask(Session& asker, const control::Incoming& in, const Session& owner) const;
  // Numbers of one kind of question are not used twice.
  void add(control::MessageType kind, std::uint32_t number, Question question) {
    waiting_.insert_or_assign({kind, number}, std::move(question));
  }
  // It waits no more. Nothing: this owner was not asked that.
  std::optional<Question> take(control::MessageType kind, std::uint32_t number,
                               const Session& owner);
  void on_client_gone(Session::Id gone);

 private:
  const ClientTable& clients_;
  std::map<std::pair<control::MessageType, std::uint32_t>, Question> waiting_;
};

}  // namespace verbena::daemon
