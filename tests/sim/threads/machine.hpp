// SPDX-License-Identifier: BSD-2-Clause
// Virtual processors in virtual time, and a scheduler like those of kernels. Each processor has a
// queue of threads that want it, and gives each a slice in turn. A woken thread needs time until it
// stands in a queue. A thread is a fiber; each of its steps costs time, and after any step other
// threads may run, as time and the seed decide. Descriptors (counters, timers, and those that the
// test makes readable) are the machine's own.
//
// There is one machine at a time; memory.hpp and system.cpp find it by Machine::here().
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "dice.hpp"
#include "fiber.hpp"
#include "verbena/base/types.hpp"

namespace verbena::threads {

struct MachineOptions {
  std::size_t processors = 1;
  TimeNs slice = 1'000'000;
  TimeNs wake_cost = 5'000;      // from a wake-up to a place in a queue, at most
  TimeNs switch_cost = 1'000;    // from one thread to the next, at most
  TimeNs store_delay = 100;      // until others see a store, at most
  std::uint32_t preempting = 0;  // percentage of wake-ups that end the running thread's slice
  std::uint32_t stalling = 0;    // how many in a thousand steps of a thread that stalls take long
  bool steals = true;            // an idle processor takes threads that wait at another one
  // What a test takes away (false) to see that the judge notices.
  bool has_fences = true;
  bool has_kicks = true;  // writes to counters arrive
};

// A store that only its own thread sees so far.
struct BufferedStore {
  void* word;
  std::uint64_t value;
  std::size_t size;
  TimeNs seen_at;
  bool releases;
};

struct Awaited {
  int fd = -1;
  bool is_ready = false;
  // If not null, the descriptor is ready when it has had more edges than this.
  std::uint64_t* edges_seen = nullptr;
};

struct Thread {
  enum class State : std::uint8_t { kReady, kRunning, kBlocked, kWaking, kEnded };

  std::string name;
  std::uint32_t may_run_on = ~0u;  // a bit for each processor
  std::unique_ptr<Fiber> fiber;
  State state = State::kReady;
  std::size_t processor = 0;
  std::uint64_t sleeps = 0;  // counts sleeps, which tells them apart
  TimeNs slice_rest = 0;     // left for a thread that was pushed aside, or that pushes in
  TimeNs pushes_next = 0;    // the earliest time at which it pushes in again
  std::span<Awaited> awaited;
  TimeNs slack = 50'000;
  bool stalls = false;  // may take long for a step, as by interrupts
  int end_fd = -1;      // readable once it has ended
  std::vector<BufferedStore> stores;
  // What the judge asks for.
  std::uint64_t wake_ups = 0;
  TimeNs has_run = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t preemptions_seen = 0;
};

class Machine {
 public:
  Machine(const MachineOptions& options, Dice& dice);
  ~Machine();
  Machine(const Machine&) = delete;
  static Machine* here() { return here_; }

  const MachineOptions& options() const { return options_; }
  void restore_kicks() { options_.has_kicks = true; }
  Dice& dice() { return dice_; }
  // The time of the processor that runs, which may be a little ahead of others or behind them.
  TimeNs now() const { return now_; }
  // Returns the time that all processors agree on. It never goes back.
  TimeNs read_clock() { return clock_ = std::max(clock_, now_); }
  Thread& spawn(std::string name, std::uint32_t may_run_on, std::function<void()> body);
  void at(TimeNs when, std::function<void()> what);
  // Runs until nothing is left to do before `end`, or stop() was called.
  void run_until(TimeNs end);
  // Returns false if the thread does not end.
  bool run_until_ended(const Thread& thread);
  void stop() { is_stopped_ = true; }
  std::uint64_t steps() const { return steps_; }

  // --- a thread that runs (null: none does) ---
  Thread* running() { return running_; }
  void step(TimeNs cost);
  // Waits until one of these is ready, or until the timeout. Returns how many are ready.
  int wait(std::span<Awaited> awaited, TimeNs timeout);
  void yield();
  // A system call that takes about `cost`.
  void call(TimeNs cost);

  // --- descriptors ---
  enum class Kind : std::uint8_t { kCounter, kLevel };
  int open(Kind kind);
  bool is_own(int fd) const;
  void close(int) {}
  void add_to(int fd, std::uint64_t count);
  std::uint64_t take_all_from(int fd);
  bool take_one_from(int fd);
  void set_readable(int fd, bool readable);
  // Adds an edge, and makes the descriptor readable.
  void wake(int fd);
  std::uint64_t edges(int fd) const;

  // --- memory ---
  void before_access();
  bool load_own(const void* word, std::uint64_t& value) const;
  bool buffer(void* word, std::uint64_t value, std::size_t size, bool releases);
  void settle(Thread& thread, const void* word = nullptr);
  void settle_all(const void* word);

 private:
  struct Processor {
    Thread* current = nullptr;
    std::deque<Thread*> queue;
    TimeNs time = 0;
    TimeNs slice_end = 0;
    std::size_t pushing = 0;  // woken threads at the front, for which the current one makes room
    TimeNs slice_rest = 0;    // what the current thread keeps of its slice then
  };
  struct Event {
    TimeNs when;
    std::uint64_t number;
    std::shared_ptr<std::function<void()>> what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };
  struct Descriptor {
    Kind kind = Kind::kLevel;
    std::uint64_t count = 0;
    std::uint64_t edges = 0;
  };

  Descriptor& at_fd(int fd);
  const Descriptor& at_fd(int fd) const;
  bool look(std::span<Awaited> awaited) const;
  void notify(int fd);
  void wake(Thread& thread);
  void place(Thread& thread);
  void steal_for(Processor& idle);
  TimeNs next_time(Processor*& processor);
  void advance(Processor& processor);
  void run(Processor& processor, TimeNs until);
  void preempt(Processor& processor);
  void flush();
  TimeNs pick(TimeNs most) { return most == 0 ? 0 : dice_.below(most + 1); }

  static Machine* here_;
  MachineOptions options_;
  Dice& dice_;
  TimeNs now_ = 1'000'000'000;  // 0 means "never" to many callers
  TimeNs clock_ = 0;
  std::vector<Processor> processors_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::priority_queue<Event> events_;
  std::vector<Descriptor> descriptors_;
  Thread* running_ = nullptr;
  Processor* on_ = nullptr;
  TimeNs horizon_ = 0;
  std::uint64_t events_made_ = 0;
  std::uint64_t steps_ = 0;
  std::size_t buffered_ = 0;
  TimeNs first_seen_at_ = kNever;  // the earliest time of a buffered store
  bool is_stopped_ = false;
};

}  // namespace verbena::threads
