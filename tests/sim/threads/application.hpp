// SPDX-License-Identifier: BSD-2-Clause
// A thread of an application. As the seed chooses, it polls for a while, computes, blocks in a read
// of events, waits for events without blocking in the read, posts, or sleeps. At the end it does
// one of the things that leave a program idle.
#pragma once

#include <vector>

#include "engine.hpp"

namespace verbena::threads {

struct Habits {
  std::size_t channel = 0;
  TimeNs poll_gap = 200;    // between two polls
  TimeNs post_gap = 1'000;  // between two posts
  TimeNs ends_at = 0;
  std::vector<int> likes;  // ways to spend time, from which it draws
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

  // The body of the thread: runs until ends_at, and is then idle until `over_fd` becomes readable.
  void run();
  static constexpr int kWays = 8;
  // The thread waits for events, but has completions that no event will report.
  bool waits_in_vain() const {
    return waits_for_events_ && (channel_.untold != 0 || !channel_.is_armed);
  }
  // The thread has reached its end, and does nothing any more unless it is woken.
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
