// SPDX-License-Identifier: BSD-2-Clause
// What must hold in each run, whatever the schedule: nothing waits longer than bound.hpp allows.
// The first violation ends the run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bound.hpp"
#include "machine.hpp"

namespace verbena::threads {

class Engine;

struct Message {
  std::uint64_t number = 0;
  std::size_t channel = 0;
  Engine* from = nullptr;  // null: from another host
  bool wants_answer = false;
  bool is_ack = false;
  // The state of the message. The judge keeps a copy, and looks at it when the time is over.
  struct Fate {
    // The time since when the message is the first in its queue; kNever: it is not yet.
    TimeNs is_next_since = kNever;
    bool is_taken = false;
  };
  std::shared_ptr<Fate> fate;
};

class Judge {
 public:
  Judge(Machine& machine, std::size_t threads_at_a_processor, bool traces)
      : machine_(machine),
        turn_(longest_turn(machine.options(), threads_at_a_processor)),
        traces_(traces) {}

  TimeNs turn() const { return turn_; }
  void fail(std::string what);
  // Prints what a thread does next, for --trace.
  void trace(const char* what, const void* whose) const;
  const std::string& failure() const { return failure_; }

  void note_arrival(Message& message, const char* how);
  // The message is now the first in its queue.
  void note_next(const Message& message);
  // `attended_since`: since when a thread of the application has waited without a break.
  void note_taken(const Message& message, TimeNs attended_since);
  // `is_done` is called when the time for it is over.
  void expect(std::string what, TimeNs from, std::function<bool()> is_done);

  std::uint64_t messages() const { return messages_; }
  // The longest waits of messages at the head of their queue, in thousandths of the allowed time.
  std::uint64_t worst_attended() const { return worst_attended_; }
  std::uint64_t worst_unattended() const { return worst_unattended_; }

 private:
  void expect_taken(std::string what, std::shared_ptr<Message::Fate> fate, TimeNs at);

  Machine& machine_;
  TimeNs turn_;
  bool traces_;
  std::string failure_;
  std::uint64_t messages_ = 0;
  std::uint64_t worst_attended_ = 0;
  std::uint64_t worst_unattended_ = 0;
};

}  // namespace verbena::threads
