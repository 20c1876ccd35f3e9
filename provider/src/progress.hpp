// SPDX-License-Identifier: BSD-2-Clause
// The progress thread of a context: what peers ask of a process happens although the application
// sleeps or computes, and an application that polls does not pay for it.
//
// While the application spins on ibv_poll_cq it drives the engine itself and the thread is parked:
// it looks now and then (the longer it was right, the more seldom) whether the polls still come. A
// look takes the processor from the very application, so in the end it is the polls that keep the
// thread asleep: every few milliseconds one of them puts off a timer, which wakes the thread once
// they have ceased. Otherwise, or when a completion queue waits to tell of a completion, the thread
// watches the receive socket. It parks when its wake-ups are in vain, because the application took
// what had come; a program that polls between other things (spinning on memory for an RDMA WRITE)
// must not wait for a tick, and leaves packets for the thread to find. But so does an application
// that polls all the time and waits for the very processor that the thread took: after some finds
// the thread stands back for a moment, and parks if the application has polled meanwhile. Peers on
// this host whose own applications poll remind a parked thread of what lies unread (peer_link.hpp);
// where all comes from them, a few finds are enough to park, and it watches again when it has found
// something twice without a poll in between. Where parking turns out to have been wrong, more has
// to speak for it the next time. On a processor for which everything takes longer, its times are
// longer. An idle context wakes it never.
//
// An application's thread that blocks for a completion event attends to the engine meanwhile
// (attendance.hpp): what comes wakes one thread instead of two. This thread then minds deadlines
// and the daemon only, and looks after the application has left, soon at first, whether it is back.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "absence.hpp"
#include "sleep_state.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::provider {

// What the thread drives.
class Driven {
 public:
  enum class Found : std::uint8_t {
    kNothing,
    kPackets,
    kAnother,  // another thread is at it
  };
  // Receives and sends until nothing is left to do now.
  virtual Found drive_until_quiet() noexcept = 0;
  // Reads the daemon's messages. False: it cannot be read now, look again a little later.
  virtual bool handle_control() noexcept = 0;
  virtual int receive_fd() const noexcept = 0;
  // The same for what comes to further addresses; -1: there are none.
  virtual int further_fd() const noexcept { return -1; }
  virtual int wake_fd() const noexcept = 0;     // so, too; -1: none
  virtual int control_fd() const noexcept = 0;  // -1 once the daemon is gone
  // Readable when an event pipe that was full has room; -1: none was.
  virtual int full_pipes_fd() const noexcept = 0;
  virtual void fill_pipes() noexcept = 0;
  // Before the thread blocks on the two: false if it shall look again at once. After true
  // comes end_wait(), when it is awake.
  virtual bool prepare_wait() noexcept = 0;
  virtual void end_wait() noexcept = 0;
  // After a reminder (wake_fd() was readable in a wait that was not for packets).
  virtual void silence() noexcept = 0;
  // Whether those who sent what has come since the last call send reminders when it is left lying.
  virtual bool is_reminded() noexcept = 0;
  virtual TimeNs next_deadline() const noexcept = 0;

 protected:
  ~Driven() = default;
};

// Engines whose application does not poll: those that are left to it all the same, and those that
// are left to their threads. These should be looked after, but a thread that has been woken, or has
// just begun, may wait for a processor for long.
enum class Unattended : std::uint8_t { kParked, kAny };

class Progress {
 public:
  explicit Progress(Driven& driven);
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;

  // Returns an errno.
  int start() noexcept;
  // Ends the thread and waits for it. Not from the thread itself.
  void stop() noexcept;

  // For the thread itself: so long it took to take in a few small packets.
  void note_turn(TimeNs time) noexcept;
  // A time as it would be on an ordinary processor, as long as it has to be on this one: emulated
  // ones take many times as long for everything. The thread's own.
  TimeNs scaled(TimeNs usual) const noexcept;
  // So long an application may take, on this processor, to answer what this thread has just brought
  // it: the change from the one to the other is some thirty turns, and several times that leaves it
  // some room. Also the thread's own.
  TimeNs answer_time() const noexcept { return kAnswerTurns * turn_; }

  // In a forked child, where there is no such thread.
  void abandon() noexcept {
    running_ = false;
    absence_.end();
  }

  // The application polls, and what the clock said if it was looked at.
  void note_poll() noexcept { sleep_.note_poll(); }
  void note_poll(TimeNs now) noexcept {
    sleep_.note_poll(now);
    absence_.note_poll(now);
  }
  // It sends, and takes what has come when it has.
  void note_sending(bool sends) noexcept { sleep_.note_sending(sends); }
  std::uint32_t polls() const noexcept { return sleep_.polls(); }
  // Changes with each poll, and each time that a thread attends.
  std::uint32_t looks() const noexcept { return sleep_.polls() + sleep_.attendances(); }
  // This is one of those, and its application has not polled since a look that saw so many polls.
  bool is_unattended(Unattended which, std::uint32_t& polls_seen) const noexcept {
    if (which == Unattended::kParked && sleep_.rest() != Rest::kParked) return false;
    const std::uint32_t before = polls_seen;
    polls_seen = sleep_.polls();
    return polls_seen == before;
  }
  // `by_attendant`: by the channel whose reader attended last, and will attend again.
  void note_armed(bool by_attendant) noexcept {
    sleep_.count_armed(1);
    if (!by_attendant) sleep_.note_others();
    const Rest rest = sleep_.rest();
    if (rest == Rest::kParked || (rest == Rest::kStandingBy && !by_attendant)) kick();
  }
  void note_fired() noexcept { sleep_.count_armed(-1); }
  // An event that note_fired() has counted, of a queue that did not come to wait for it.
  void note_fired_at_once() noexcept { sleep_.count_armed(1); }
  void note_deadline(TimeNs deadline) noexcept {
    const Rest rest = sleep_.rest();
    if ((rest == Rest::kWatching || rest == Rest::kRelieved) && deadline < sleep_.until()) kick();
  }
  void note_work() noexcept {
    if (sleep_.rest() >= Rest::kWatching) kick();
  }
  // A thread of the application is about to do this one's work until end_attendance(). False: one
  // does already, or others than those `armed` wait for events, who want this thread.
  bool begin_attendance(std::int32_t armed) noexcept;
  void end_attendance(std::int32_t armed) noexcept;
  void kick() noexcept;

 private:
  static constexpr TimeNs kAnswerTurns = 128;

  static void* run_thread(void* self);
  void run() noexcept;
  // kWatch: until something happens. kPark: a tick or a reminder, unless a completion queue is
  // armed. kYield:
  // a short while, because another thread is receiving. kTrial: a short while, to see whether the
  // application would do without the thread. kRelieved: until something happens that is not a
  // packet. kStandBy: a tick, while a thread that attends comes and goes.
  enum class Wait : std::uint8_t { kWatch, kPark, kYield, kTrial, kRelieved, kStandBy };
  // Of life, from the application.
  struct Signs {
    bool is_armed;  // it waits for an event: what it does besides does not count
    bool is_sending;
    bool polls_now;
    bool would_have_found;  // it polls so often
    bool has_polled;        // since the wait began
  };
  static Rest rest_for(Wait how) noexcept;
  void wait(Wait how) noexcept;
  Wait choose() noexcept;
  Wait choose_attended(TimeNs now) noexcept;
  Wait choose_parked(const Signs& signs) noexcept;
  Wait choose_watching(const Signs& signs) noexcept;
  Wait watch(const Signs& signs) noexcept;
  Wait heed_reminder() noexcept;
  Wait end_silence() noexcept;
  Wait watch_again() noexcept;
  void ask_for_more_finds() noexcept;
  Wait begin_rest() noexcept;
  bool has_left_again(std::uint32_t polls) noexcept;
  void park() noexcept;
  void unpark() noexcept;
  Wait rest() noexcept;
  Wait begin_trial() noexcept;
  bool end_trial(const Signs& signs) noexcept;
  void set_slack(bool wide) noexcept;

  Driven& driven_;
  SleepState sleep_;
  control::UniqueFd kick_;
  Absence absence_;
  Published<bool> stopping_{false};
  pthread_t thread_{};
  bool running_ = false;
  // What speaks for parking; how much must; for how many ticks it has been right, and how long the
  // next one is.
  std::uint32_t score_ = 0;
  std::uint32_t patience_;
  std::uint32_t ticks_ = 0;
  TimeNs tick_ = 0;
  // Wake-ups that found packets since the last trial, how many there shall be until the next, and
  // how often the application had polled when it began.
  std::uint32_t finds_ = 0;
  std::uint32_t finds_until_trial_;
  std::uint32_t polls_before_trial_ = 0;
  std::uint32_t polls_before_wait_ = 0;
  // While parked: trials in a row without a sign of the application, and how often it had polled
  // when it had last left something.
  std::uint32_t silences_ = 0;
  std::uint32_t polls_at_find_ = 0;
  TimeNs turn_ = 0;  // how long a turn takes at least that finds packets
  // How often somebody had attended at the last look.
  std::uint32_t attendances_seen_ = 0;
  bool stands_by_ = false;
  bool is_on_trial_ = false;
  bool has_reminder_ = false;
  bool is_parked_ = false;
  bool slack_is_wide_ = false;
  bool control_is_busy_ = false;
};

}  // namespace verbena::provider
