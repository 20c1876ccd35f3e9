// SPDX-License-Identifier: BSD-2-Clause
// What must hold in each run, whatever the schedule: nothing waits longer than bound.hpp allows.
// The first thing that is wrong ends the run.
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
  // Shared with the judge, who looks when the time is over.
  struct Fate {
    // Since when nothing lies before it; kNever: something does.
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
  // For --trace: what a thread does next.
  void trace(const char* what, const void* whose) const;
  const std::string& failure() const { return failure_; }

  void note_arrival(Message& message, const char* how);
  // Nothing lies before it any more.
  void note_next(const Message& message);
  // `attended_since`: from when on somebody of the application has waited for it without a break.
  void note_taken(const Message& message, TimeNs attended_since);
  // `is_done`: asked when the time for it is over.
  void expect(std::string what, TimeNs from, std::function<bool()> is_done);

  std::uint64_t messages() const { return messages_; }
  // The longest waits so far, of messages that were next, in parts of a thousand of what is
  // allowed.
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
