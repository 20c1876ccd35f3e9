// SPDX-License-Identifier: BSD-2-Clause
// How the model's engine is driven: by polls, by posts, and by the progress thread.
#include "engine.hpp"

#include <utility>

#include "verbena/link/clock.hpp"

namespace verbena::threads {
namespace {

constexpr std::uint32_t kRefusalsUntilYield = 64;
constexpr std::uint32_t kEmptyRoundsUntilLook = 8;
constexpr int kRoundsPerTurn = 64;
constexpr std::size_t kProgramsBudget = 64;
constexpr int kLooksUntilMet = 500;
// How long a poller waits for its peer to read what it wrote, before it nudges the peer.
constexpr TimeNs kPatience = 20'000;

}  // namespace

// --- the lock ----------------------------------------------------------------------------------

bool ReceiveLock::try_lock() {
  machine_.before_access();
  return !std::exchange(is_held_, true);
}

void ReceiveLock::lock() {
  while (!try_lock()) {
    machine_.set_readable(free_fd_, false);
    ++sleepers_;
    Awaited free{free_fd_};
    machine_.wait({&free, 1}, kNever);
    --sleepers_;
  }
}

void ReceiveLock::unlock() {
  machine_.settle(*machine_.running());
  is_held_ = false;
  machine_.step(5);
  if (sleepers_ == 0) return;
  machine_.set_readable(free_fd_, true);
  machine_.call(700);
}

// --- rounds ------------------------------------------------------------------------------------

Engine::Engine(Machine& machine, Judge& judge, const EngineOptions& options)
    : machine_(machine),
      judge_(judge),
      options_(options),
      receive_fd_(machine.open(Machine::Kind::kLevel)),
      waker_fd_(machine.open(Machine::Kind::kLevel)),
      lock_(machine) {
  for (std::size_t i = 0; i < options.channels; ++i) {
    channels_.push_back(std::make_unique<Channel>(machine));
  }
}

bool Engine::take_from(std::deque<Message>& queue) {
  if (queue.empty()) return false;
  Message message = queue.front();
  queue.pop_front();
  if (!queue.empty()) judge_.note_next(queue.front());
  if (&queue == &udp_ && udp_.empty()) machine_.set_readable(receive_fd_, false);
  take(message);
  machine_.step(machine_.dice().between(100, 600));
  return true;
}

std::size_t Engine::receive_from(std::deque<Message>& queue, std::size_t budget) {
  std::size_t count = 0;
  while (count < budget && take_from(queue)) ++count;
  return count;
}

// Reads UDP as well, however much comes by rings.
std::size_t Engine::receive(std::size_t budget) {
  machine_.step(machine_.dice().between(40, 120));
  std::size_t count = receive_from(ring_, budget);
  const std::size_t by_udp = receive_from(udp_, budget);
  count += by_udp;
  if (by_udp != 0) has_read_udp_ = true;
  if (ring_sleeps_ && std::exchange(has_read_udp_, false)) {
    begin_ring_sleep();
    count += receive_from(ring_, budget);
  }
  return count;
}

void Engine::take(Message& message) {
  judge_.note_taken(message, attended_since());
  if (message.is_ack) {
    if (!options_.is_answered_late) clear_deadline();
    return;
  }
  Channel& channel = *channels_[message.channel];
  channel.unread.push_back(message);
  ++channel.untold;
  if (std::exchange(channel.is_armed, false)) {
    channel.untold = 0;
    fire(channel);
    to_tell_.push_back(&channel);
  }
  if (message.from != nullptr && message.from != this) {
    Message ack;
    ack.is_ack = true;
    ack.from = this;
    send(*message.from, ack);
  }
}

void Engine::finish(TimeNs now) {
  if (const std::uint64_t work = work_left_; work != work_done_) {
    machine_.step(500);
    work_done_ = work;
  }
  if (due_ > now) return;
  clear_deadline();
  machine_.step(300);
}

bool Engine::drive_once(TimeNs now, std::size_t budget) {
  const std::size_t received = receive(budget);
  finish(now);
  return received != 0;
}

// Writes events only after it has freed the lock.
void Engine::end_round() {
  std::vector<Channel*> to_tell;
  to_tell.swap(to_tell_);
  lock_.unlock();
  for (Channel* channel : to_tell) write_event(*channel);
}

void Engine::fire(Channel& channel) {
  channel.armed.fetch_sub(1, std::memory_order_relaxed);
  progress_.note_fired();
}

void Engine::write_event(Channel& channel) {
  machine_.call(800);
  machine_.add_to(channel.pipe_fd, 1);
}

// --- polls -------------------------------------------------------------------------------------

std::size_t Engine::poll(std::size_t budget) {
  if (!lock_.try_lock()) {
    progress_.note_poll(link::monotonic_now_ns());
    if (++refused_ % kRefusalsUntilYield == 0) machine_.yield();
    return 0;
  }
  const std::size_t received = receive(budget);
  if (received == 0 && !has_work() && ++empty_rounds_ % kEmptyRoundsUntilLook != 0) {
    progress_.note_poll();
    end_round();
    return 0;
  }
  const TimeNs now = link::monotonic_now_ns();
  if (received == 0) nudge();
  finish(now);
  progress_.note_poll(now);
  if (received != 0) {
    last_found_ = now;
    progress_.note_found();
    poll_yield_.found();
    if (const TimeNs due = due_; due != kNever) progress_.note_deadline(due);
  }
  const bool gives_way = poll_yield_.is_due(now - last_found_);
  end_round();
  if (received == 0 && gives_way) poll_yield_.yield();
  return received;
}

// The peer seems to be awake and has not read what it was sent, so its thread is nudged.
void Engine::nudge() {
  if (nudged_ == nullptr || machine_.now() < nudged_since_ + kPatience) return;
  Engine& peer = *std::exchange(nudged_, nullptr);
  if (peer.ring_.empty() || peer.ring_sleep_.load(std::memory_order_relaxed) % 2 != 0) return;
  machine_.call(700);
  machine_.wake(peer.waker_fd_);
}

// --- the progress thread -----------------------------------------------------------------------

provider::Driven::Found Engine::drive_until_quiet() noexcept {
  Found found = Found::kNothing;
  TimeNs look_until = 0;
  const std::uint32_t polls = progress_.polls();
  for (int round = 0; round < kRoundsPerTurn;) {
    if (!lock_.try_lock()) return Found::kAnother;
    const TimeNs now = link::monotonic_now_ns();
    const bool more = drive_once(now, kProgramsBudget);
    if (more) {
      last_found_ = now;
      found = Found::kPackets;
      ++round;
      look_until = to_tell_.empty() ? thread_spin_.found(now) : thread_spin_.stop();
    }
    end_round();
    if (!more && now >= look_until) {
      thread_spin_.gave_up();
      break;
    }
    if (progress_.polls() != polls) {
      thread_spin_.stop();
      break;
    }
  }
  return found;
}

// Either the writer to the ring sees that the reader sleeps, or the reader sees what was written.
void Engine::begin_ring_sleep() {
  own_sleep_ += own_sleep_ % 2 == 0 ? 1 : 2;
  ring_sleep_.store(own_sleep_, std::memory_order_seq_cst);
  machine_.settle(*machine_.running());
}

// Called under the receive lock.
bool Engine::may_sleep() {
  has_read_udp_ = false;
  ring_sleeps_ = true;
  begin_ring_sleep();
  machine_.step(20);
  if (ring_.empty()) {
    ++sleepers_;
    return true;
  }
  end_ring_sleep();
  return false;
}

void Engine::end_ring_sleep() {
  ring_sleeps_ = false;
  if (own_sleep_ % 2 != 0) ring_sleep_.store(++own_sleep_, std::memory_order_relaxed);
}

bool Engine::prepare_wait() noexcept {
  if (!lock_.try_lock()) return false;
  machine_.step(machine_.dice().between(150, 600));
  silence();
  const bool sleeps = may_sleep();
  lock_.unlock();
  return sleeps;
}

void Engine::end_wait() noexcept {
  lock_.lock();
  if (--sleepers_ == 0) end_ring_sleep();
  lock_.unlock();
}

// --- posts -------------------------------------------------------------------------------------

void Engine::meet_progress() {
  if (!machine_.dice().one_in(8)) return;
  const std::uint64_t looks = progress_looks_;
  for (int i = 0; i < kLooksUntilMet && progress_looks_ == looks; ++i) {
    machine_.step(machine_.dice().between(20, 400));
  }
  machine_.step(machine_.dice().below(100));
}

void Engine::clear_deadline() {
  due_ = kNever;
  due_seen_.set_at_once(kNever);
}

void Engine::set_deadline(TimeNs due) {
  machine_.before_access();
  if (due >= due_) return;
  due_ = due;
  due_seen_.set_late(due);
  judge_.expect("a deadline", due, [this, due] { return due_ > due; });
  progress_.note_deadline(due);
}

void Engine::post(Engine& to, Message message) {
  message.from = this;
  const TimeNs now = link::monotonic_now_ns();
  progress_.note_sending(true);
  machine_.step(machine_.dice().between(200, 1'500));
  send(to, message);
  if (attenders_ == 0) meet_progress();
  set_deadline(now + options_.timeout);
  progress_.note_sending(false);
  if (!posting_.goes_on(now, progress_.looks())) return;
  progress_.note_poll(now);
  if (!lock_.try_lock()) return;
  if (drive_once(now, kProgramsBudget)) last_found_ = now;
  end_round();
}

// Sometimes leaves work to the next thread that drives.
void Engine::post_unreliable(Engine& to, Message message) {
  progress_.note_sending(true);
  machine_.step(machine_.dice().between(200, 800));
  send(to, message);
  progress_.note_sending(false);
  if (!machine_.dice().one_in(4)) return;
  if (attenders_ == 0) meet_progress();
  judge_.expect("work that a post has left", machine_.now(),
                [this, number = ++work_left_] { return work_done_ >= number; });
  progress_.note_work();
}

void Engine::send(Engine& to, Message message) {
  if (&to != this && machine_.dice().below(100) < 70) {
    to.arrive_by_ring(message);
    nudged_ = &to;
    nudged_since_ = machine_.now();
    return;
  }
  machine_.call(1'000);
  const TimeNs delay = machine_.dice().between(500, 8'000);
  machine_.at(machine_.now() + delay, [&to, message] { to.arrive(message); });
}

void Engine::arrive(Message message) {
  judge_.note_arrival(message, "UDP");
  if (udp_.empty()) judge_.note_next(message);
  udp_.push_back(message);
  machine_.set_readable(receive_fd_, true);
}

void Engine::arrive_by_ring(Message message) {
  machine_.settle(*machine_.running());
  judge_.note_arrival(message, "ring");
  if (ring_.empty()) judge_.note_next(message);
  ring_.push_back(message);
  const std::uint32_t sleep = ring_sleep_.load(std::memory_order_seq_cst);
  if (sleep % 2 == 0 || sleep == woken_sleep_) return;
  woken_sleep_ = sleep;
  machine_.call(700);
  machine_.wake(waker_fd_);
}

}  // namespace verbena::threads
