// SPDX-License-Identifier: BSD-2-Clause
// A thread of an application: for a while it polls, then it computes, blocks in a read of events,
// waits for them without blocking there, posts, or sleeps, as the seed has it; and at the end it
// does one of the things that leave a program idle.
#pragma once

#include <vector>

#include "engine.hpp"

namespace verbena::threads {

struct Habits {
  std::size_t channel = 0;
  TimeNs poll_gap = 200;    // between two polls
  TimeNs post_gap = 1'000;  // between two posts
  TimeNs ends_at = 0;
  std::vector<int> likes;  // ways to spend time, drawn from these
  std::vector<Engine*> peers;
};

class Application {
 public:
  Application(Machine& machine, const Judge& judge, Engine& engine, const Habits& habits,
              int over_fd)
      : machine_(machine),
        judge_(judge),
        dice_(machine.dice()),
        engine_(engine),
        channel_(engine.channel(habits.channel)),
        habits_(habits),
        over_fd_(over_fd) {}

  // The body of its thread: until ends_at, then idle until the descriptor says that all is over.
  void run();
  static constexpr int kWays = 8;
  // It has completions that no event tells of, though it waits for events.
  bool waits_in_vain() const {
    return waits_for_events_ && (channel_.untold != 0 || !channel_.is_armed);
  }
  // It has come to its end, and does nothing any more unless it is woken.
  bool is_idle() const { return is_idle_ || waits_for_events_; }

 private:
  bool is_over() const { return machine_.now() >= habits_.ends_at; }
  void spend_time(int way);
  void poll_until(TimeNs end);
  void poll_seldom(TimeNs end);
  void compute(TimeNs time);
  void sleep(TimeNs time);
  void read_events(std::uint64_t count);
  void await_events(std::uint64_t count);
  void post_many(std::uint64_t count, bool reliable);
  bool poll_once();
  bool consume();
  void arm_and_look();

  Machine& machine_;
  const Judge& judge_;
  Dice& dice_;
  Engine& engine_;
  Channel& channel_;
  Habits habits_;
  int over_fd_;
  bool waits_for_events_ = false;
  bool is_idle_ = false;
  bool is_polling_ = false;
};

}  // namespace verbena::threads
