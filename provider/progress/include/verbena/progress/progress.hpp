// SPDX-License-Identifier: BSD-2-Clause
// The progress thread of an engine. It serves peers while the application sleeps or computes, and
// it costs nothing to an application that polls.
//
// The application holds a lease on driving the engine while it waits by polling: its last poll was
// within kLease (times.hpp) and, since it last found something, it has polled in vain. (A thread
// that has found something may go and wait for its memory to change.) A post holds the lease as
// long as it sends, if the application has polled since the progress thread last looked. The thread
// sleeps meanwhile.
//
//   state    | what the thread does           | what ends it
//   ---------+--------------------------------+--------------------------------------------------
//   Watching | drives until nothing is left,  | the application holds the lease, and parking has
//            | then sleeps until a packet, a  | proved right: Parked; another thread drives:
//            | deadline or a kick             | Yielding
//   Yielding | sleeps for 100 us              | Watching
//   Parked   | sleeps for a term              | Parked again, for twice as long, if the application
//            |                                | holds the lease, or for as long if it has polled;
//            |                                | Watching if it has not, if a completion queue is
//            |                                | armed, or after two nudges without a poll between
//   Relieved | handles deadlines, daemon      | Watching once no reader is blocked any more
//   StandBy  | handles both, for a term       | Relieved if no read has blocked meanwhile
//
// Terms grow from kFirstTerm to kTerm. Whether to park is learned (base/adaptive_spin.hpp): parking
// was wrong if a packet was waiting at the end of the lease and the application had not waited for
// it by polling. Peers on this host whose own applications poll nudge a parked thread when what
// they wrote is not read (peer_link.hpp). The thread of an idle engine is never woken.
//
// An application's thread that blocks for a completion event drives the engine meanwhile
// (blocked_reader.hpp), so that a packet wakes one thread instead of two.
//
// What is learned from outcomes (base/adaptive_spin.hpp), each by a class of its own:
//
//   class        | while it pays                         | it has paid if
//   -------------+---------------------------------------+--------------------------------------
//   Progress     | the progress thread parks             | no packet was left lying
//   ThreadSpin   | it looks for packets before it sleeps | more came meanwhile
//   ReaderSpin   | a blocked reader looks for its event  | the event came meanwhile
//                | before it sleeps                      |
//   PollYield    | a poll in vain yields at once         | a packet was there after a short turn
//   qp::HeldAck  | an ACK waits for data to travel with  | the application posted in time
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "verbena/base/adaptive_spin.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/progress/sleep_state.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

// The engine, as the progress thread drives it.
class Driven {
 public:
  enum class Found : std::uint8_t {
    kNothing,
    kPackets,
    kAnother,  // another thread drives
  };
  // Receives and sends until nothing is left to do for now.
  virtual Found drive_until_quiet() noexcept = 0;
  // Reads the daemon's messages. Returns false if they cannot be read now; try again a little
  // later.
  virtual bool handle_control() noexcept = 0;
  virtual int receive_fd() const noexcept = 0;
  // Readable when packets come to further addresses; -1 if there are none.
  virtual int further_fd() const noexcept { return -1; }
  virtual int wake_fd() const noexcept = 0;     // readable when a peer wakes us; -1: none can
  virtual int control_fd() const noexcept = 0;  // -1 once the daemon is gone
  // A descriptor that is hung up or invalid once the program has closed our descriptors; the thread
  // then calls on_descriptors_closed() and ends. -1: there is no such descriptor.
  virtual int descriptor_watch_fd() const noexcept { return -1; }
  virtual void on_descriptors_closed() noexcept {}
  // Called before the thread blocks on these descriptors. Returns false if the thread must look
  // again at once. After true, end_wait() is called when the thread is awake.
  virtual bool prepare_wait() noexcept = 0;
  virtual void end_wait() noexcept = 0;
  // Called after a nudge (wake_fd() became readable in a wait that was not for packets).
  virtual void silence() noexcept = 0;
  virtual TimeNs next_deadline() const noexcept = 0;

 protected:
  ~Driven() = default;
};

class Progress final {
 public:
  explicit Progress(Driven& driven);
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;

  // Returns an errno.
  int start() noexcept;
  // Ends the thread and waits for it. Must not be called by the thread itself.
  void stop() noexcept;
  // The program has closed our descriptors and may have opened others in their place. The thread is
  // not woken through them any more and ends by itself.
  void cut_off() noexcept {
    is_cut_off_.publish(true);
    stopping_.publish(true);
  }
  bool is_cut_off() const noexcept { return is_cut_off_.read(); }
  // Takes the place of stop() after cut_off(). Waits for the thread for a second at most. A thread
  // that still sleeps uses this object when it wakes up, so the object must stay.
  void leave_behind() noexcept;

  // Called in a forked child, where the thread does not exist.
  void abandon() noexcept { running_ = false; }

  // The application has polled, at `now` if it has read the clock.
  void note_poll() noexcept { sleep_.note_poll(); }
  void note_poll(TimeNs now) noexcept { sleep_.note_poll(now); }
  // The last poll has found something.
  void note_found() noexcept { sleep_.note_found(); }
  // A post has begun or ended to send; it receives afterwards.
  void note_sending(bool sends) noexcept { sleep_.note_sending(sends); }
  std::uint32_t polls() const noexcept { return sleep_.polls(); }
  // Returns a number that changes with each poll and with each read that blocks.
  std::uint32_t looks() const noexcept { return sleep_.polls() + sleep_.blocked_reads(); }
  // Returns whether the thread sleeps because the application drives. For tests.
  bool is_parked() const noexcept { return is_parked(sleep_.rest()); }
  // A completion queue was armed; `by_reader` if its channel's reader blocked last, and will again.
  void note_armed(bool by_reader) noexcept {
    sleep_.count_armed(1);
    if (!by_reader) sleep_.note_others();
    const Rest rest = sleep_.rest();
    if (is_parked(rest) || (rest == Rest::kStandingBy && !by_reader)) kick();
  }
  void note_fired() noexcept { sleep_.count_armed(-1); }
  // Balances note_fired() for a queue whose event fired as soon as the queue was armed.
  void note_fired_at_once() noexcept { sleep_.count_armed(1); }
  void note_deadline(TimeNs deadline) noexcept {
    const Rest rest = sleep_.rest();
    if ((rest == Rest::kWatching || rest == Rest::kRelieved) && deadline < sleep_.until()) kick();
  }
  void note_work() noexcept {
    if (sleep_.rest() >= Rest::kWatching) kick();
  }
  // An application's thread is about to drive in this thread's place until end_blocked_read().
  // Returns false if another one does so already, or if more queues than the `armed` ones of its
  // channel are armed: the progress thread must drive for those.
  bool begin_blocked_read(std::int32_t armed) noexcept;
  void end_blocked_read(std::int32_t armed) noexcept;
  // Wakes the thread, which then checks everything once more.
  void kick() noexcept;

 private:
  static void* run_thread(void* self);
  void run() noexcept;
  static bool is_parked(Rest rest) { return rest == Rest::kParked || rest == Rest::kYielding; }
  void wait(Rest how) noexcept;
  Rest choose() noexcept;
  Rest choose_beside_reader(TimeNs now) noexcept;
  Rest choose_parked(TimeNs now) noexcept;
  Rest choose_watching(TimeNs now) noexcept;
  bool application_drives(TimeNs now) const noexcept;
  bool has_polled() const noexcept;
  bool has_just_polled(TimeNs now) const noexcept;
  Rest park() noexcept;
  Rest stay_parked() noexcept;
  void note_left_lying() noexcept;
  static Rest wait_after(Driven::Found found) noexcept;
  void set_slack(bool wide) noexcept;

  Driven& driven_;
  SleepState sleep_;
  control::UniqueFd kick_;
  Published<bool> stopping_{false};
  Published<bool> is_cut_off_{false};
  pthread_t thread_{};
  bool running_ = false;
  AdaptiveSpin parking_;
  TimeNs term_ = 0;  // length of the next sleep while parked or standing by
  std::uint32_t polls_before_wait_ = 0;
  std::uint32_t polls_at_nudge_ = 0;      // at the last nudge after which packets were found
  std::uint32_t blocked_reads_seen_ = 0;  // at the last choice
  bool stands_by_ = false;
  bool is_parked_ = false;
  bool was_nudged_ = false;
  bool slack_is_wide_ = false;
  bool control_is_busy_ = false;
};

}  // namespace verbena::provider
