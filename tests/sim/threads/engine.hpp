// SPDX-License-Identifier: BSD-2-Clause
// A model of an engine, and of how its callers use provider/progress: they poll, post, block in an
// event, or are the progress thread. The queues of packets, the receive lock and the deadline are a
// few lines each. Progress, SleepState, PollYield, Posting and both spins are the
// product's own, and are called in the order in which the Engine of provider/ calls them.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "judge.hpp"
#include "machine.hpp"
#include "verbena/progress/poll_yield.hpp"
#include "verbena/progress/posting.hpp"
#include "verbena/progress/progress.hpp"
#include "verbena/progress/reader_spin.hpp"
#include "verbena/progress/thread_spin.hpp"

namespace verbena::threads {

// A model of the receive lock. A thread that finds it taken polls on, or sleeps.
class ReceiveLock {
 public:
  explicit ReceiveLock(Machine& machine)
      : machine_(machine), free_fd_(machine.open(Machine::Kind::kLevel)) {}
  bool try_lock();
  void lock();
  void unlock();

 private:
  Machine& machine_;
  int free_fd_;
  int sleepers_ = 0;
  bool is_held_ = false;
};

// A completion queue, the channel of its events, and what its blocked reader sleeps on.
struct Channel {
  explicit Channel(Machine& machine) : pipe_fd(machine.open(Machine::Kind::kCounter)) {}
  int pipe_fd;
  std::atomic<std::int32_t> armed{0};
  std::uint64_t waker_edges_seen = 0;
  bool is_armed = false;       // the queue's own state, under its lock
  std::deque<Message> unread;  // completions
  std::size_t untold = 0;      // completions in `unread` that no event has reported
};

struct EngineOptions {
  std::size_t channels = 1;
  bool is_on_one_processor = false;
  TimeNs timeout = 2'000'000;     // how long an answer may take
  bool is_answered_late = false;  // deadlines pass even if an answer comes
};

class Engine final : private provider::Driven {
 public:
  Engine(Machine& machine, Judge& judge, const EngineOptions& options);
  int start() { return progress_.start(); }
  // Ends the progress thread.
  void stop() { progress_.stop(); }

  // --- the application ---
  Channel& channel(std::size_t i) { return *channels_[i]; }
  std::size_t channels() const { return channels_.size(); }
  std::size_t poll(std::size_t budget = 64);
  void arm(Channel& channel);
  // Reads an event, or waits until `over_fd` is readable. Returns whether it read an event.
  bool read_event_blocking(Channel& channel, int over_fd);
  bool read_event(Channel& channel);
  void post(Engine& to, Message message);
  void post_unreliable(Engine& to, Message message);
  // Whether arming this channel's queue makes the progress thread drive at once. It does not for
  // the channel whose reader blocked last, because that reader is expected back.
  bool is_watched_for(const Channel& channel) const { return last_reader_at_once() != &channel; }
  // Mark the time in which a thread of the application drives, or another one drives for it.
  void begin_attending();
  void end_attending();

  // --- the outside ---
  void arrive(Message message);          // from the network
  void arrive_by_ring(Message message);  // from a thread of a peer on this machine
  bool has_unread_packets() const { return !udp_.empty() || !ring_.empty(); }
  // The time since when a thread of the application has waited; kNever: none waits.
  TimeNs attended_since() const { return attenders_ == 0 ? kNever : attended_since_; }

 private:
  // Overrides of Driven.
  Found drive_until_quiet() noexcept override;
  bool handle_control() noexcept override { return true; }
  int receive_fd() const noexcept override { return receive_fd_; }
  int wake_fd() const noexcept override { return waker_fd_; }
  int control_fd() const noexcept override { return -1; }
  bool prepare_wait() noexcept override;
  void end_wait() noexcept override;
  void silence() noexcept override { machine_.set_readable(waker_fd_, false); }
  TimeNs next_deadline() const noexcept override {
    ++progress_looks_;
    return has_work() ? 0 : due_seen_.load(std::memory_order_relaxed);
  }

  // Called under the receive lock.
  bool drive_once(TimeNs now, std::size_t budget);
  std::size_t receive(std::size_t budget);
  std::size_t receive_from(std::deque<Message>& queue, std::size_t budget);
  bool take_from(std::deque<Message>& queue);
  void take(Message& message);
  void finish(TimeNs now);
  void nudge();
  bool may_sleep();
  void begin_ring_sleep();
  void end_ring_sleep();
  bool has_work() const { return work_left_ != work_done_; }
  // Frees the receive lock, and writes the events of the round.
  void end_round();

  void write_event(Channel& channel);
  void fire(Channel& channel);
  // Lets the caller go on just when the progress thread is about to sleep, now and then. That
  // moment is the most likely one to lose a wake-up, and schedules seldom bring it about by
  // themselves.
  void meet_progress();
  void set_deadline(TimeNs due);
  void clear_deadline();
  void send(Engine& to, Message message);
  bool drive_for_reader();
  bool prepare_reader_wait();
  bool visit(Channel& channel, int over_fd);
  bool goes_on_looking();

  Machine& machine_;
  Judge& judge_;
  const EngineOptions options_;
  int receive_fd_;
  int waker_fd_;
  ReceiveLock lock_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::deque<Message> udp_;
  std::deque<Message> ring_;
  std::atomic<std::uint32_t> ring_sleep_{0};  // odd: the reader sleeps
  std::uint32_t woken_sleep_ = 0;
  int sleepers_ = 0;
  std::uint32_t own_sleep_ = 0;
  bool ring_sleeps_ = false;
  bool has_read_udp_ = false;
  TimeNs due_ = kNever;  // as the queue pairs' locks guard it; due_seen_ is read without one
  Atomic<TimeNs> due_seen_{kNever};
  // Work that posts have left to the next thread that drives.
  std::uint64_t work_left_ = 0;
  std::uint64_t work_done_ = 0;
  Engine* nudged_ = nullptr;  // the peer that was written to last and has not read yet
  TimeNs nudged_since_ = 0;
  std::vector<Channel*> to_tell_;
  const Channel* last_reader_at_once() const { return last_reader_now_; }
  std::atomic<Channel*> last_reader_{nullptr};
  const Channel* last_reader_now_ = nullptr;

  mutable std::uint64_t progress_looks_ = 0;  // looks of the progress thread at the deadline
  std::uint32_t refused_ = 0;
  std::uint32_t empty_rounds_ = 0;
  TimeNs last_found_ = 0;
  int attenders_ = 0;
  TimeNs attended_since_ = kNever;

  provider::Posting posting_;
  provider::ThreadSpin thread_spin_;
  provider::ReaderSpin reader_spin_;
  provider::PollYield poll_yield_;
  provider::Progress progress_{*this};
};

}  // namespace verbena::threads
