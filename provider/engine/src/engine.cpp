// SPDX-License-Identifier: BSD-2-Clause
// Driving: by polls, by posts, by the progress thread, by a blocked reader.
#include "verbena/engine/engine.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "verbena/link/clock.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {
namespace {

constexpr int kRoundsPerTurn = 64;
constexpr int kTriesToPart = 100;
// How long a device that is closed waits for packets that faults delay.
constexpr TimeNs kLingerNs = 1'000'000'000;
constexpr TimeNs kNsPerSecond = 1'000'000'000;
// Packets in a round of a blocked reader: a message of 4 KiB and the acknowledgement behind it,
// without which many applications do not answer. The event that they bring ends the read, so it is
// not worth while to look for more.
constexpr std::size_t kReaderBudget = 5;
// Rounds of receiving before time-outs are handled, if packets never end.
constexpr int kRoundsUntilTimeouts = 64;

// Sends the packets that faults delay. An adapter would have sent the last acknowledgement,
// although the program ends right after it; otherwise its peer would repeat the request in vain.
void send_what_is_held_back(link::FaultLink& faults) noexcept {
  const TimeNs end = link::monotonic_now_ns() + kLingerNs;
  for (TimeNs due = faults.next_due(); due <= end; due = faults.next_due()) {
    const timespec until{static_cast<time_t>(due / kNsPerSecond),
                         static_cast<long>(due % kNsPerSecond)};
    (void)::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    faults.release_due();
  }
}

}  // namespace

Engine::Engine(EngineHost& host, EngineOptions&& options)
    : host_(host), has_rings_(options.has_rings), device_(options.device, *this, *this) {
  options.links.udp.send_failures = &device_.counters().send_failures;
  links_.open(std::move(options.links), device_.counters());
}

int Engine::start() noexcept {
  if (const int error = descriptor_watch_.open(); error != 0) return error;
  return progress_.start();
}

void Engine::stop() noexcept {
  readers_.close();
  progress_.stop();
  flush_acks();
  if (!has_failed()) send_what_is_held_back(links_.faults());
}

void Engine::want_header_fields() noexcept {
  if (plan().infiniband) return;
  const Guard guard(device_.receive_lock());
  links_.peers().want_header_fields();
}

// --- rounds ------------------------------------------------------------------------------------

std::size_t Engine::begin_round(std::size_t budget) noexcept {
  announcements_.begin_round();
  return links_.receive(*this, budget);
}

void Engine::finish_round(std::size_t received, device::Acknowledge acknowledge) noexcept {
  if (received != 0 || device_.has_work()) device_.finish_receive(rounds_.now(), acknowledge);
  if (device_.next_deadline() <= rounds_.now()) [[unlikely]]
    handle_timeouts(acknowledge);
}

bool Engine::drive_once(TimeNs now, device::Acknowledge acknowledge, std::size_t budget) noexcept {
  rounds_.begin(now);
  const std::size_t received = begin_round(budget);
  finish_round(received, acknowledge);
  return received != 0;
}

// Receives what has come before it handles time-outs: this thread or others may be late, and an
// answer that is here already was not lost.
void Engine::handle_timeouts(device::Acknowledge acknowledge) noexcept {
  if (device_.is_timer_due(rounds_.now())) {
    for (int round = 0; round < kRoundsUntilTimeouts; ++round) {
      links_.peers().look_at_udp();
      if (links_.receive(*this, kPollBudget) == 0) break;
      device_.finish_receive(rounds_.now(), acknowledge);
    }
  }
  device_.handle_timeouts(rounds_.now());
}

void Engine::on_datagram(const wire::RxDatagram& datagram) noexcept {
  device_.handle_datagram(rounds_.now(), datagram);
}

void Engine::on_run(const wire::RxRun& run) noexcept { device_.handle_run(rounds_.now(), run); }

// --- polls -------------------------------------------------------------------------------------

std::size_t Engine::drive(std::size_t budget) noexcept {
  if (has_failed()) [[unlikely]] {
    if (is_parents_) tell_child();
    return 0;
  }
  Lock& lock = device_.receive_lock();
  if (!lock.try_lock()) {
    progress_.note_poll(link::monotonic_now_ns());
    // The thread that holds the lock may have lost the processor to this very spinning (under
    // valgrind, which runs one thread at a time, for long).
    if (refused_.fetch_add(1, std::memory_order_relaxed) % times::kRefusalsUntilYield ==
        times::kRefusalsUntilYield - 1) {
      ::sched_yield();
    }
    return 0;
  }
  rounds_.begin();
  if (rounds_.only_polls() && !device_.has_work()) (void)links_.peers().linger();
  const std::size_t received = begin_round(budget);
  if (received == 0 && !device_.has_work() && rounds_.leaves_clock_alone()) {
    progress_.note_poll();
    announcements_.end_round(lock);
    return 0;
  }
  if (received == 0) look_at_clock();
  finish_round(received, device::Acknowledge::kUnlessAnswered);
  const TimeNs now = rounds_.now();
  progress_.note_poll(now);
  if (received != 0) {
    rounds_.note_found(now);
    progress_.note_found();
    poll_yield_.found();
    if (device_.holds_any()) progress_.note_deadline(device_.next_deadline());
  }
  const bool gives_way = poll_yield_.is_due(rounds_.waited(now));
  announcements_.end_round(lock);
  if (received == 0 && gives_way) poll_yield_.yield();
  return received;
}

// Called after an empty round of an application.
void Engine::look_at_clock() noexcept { links_.peers().nudge(rounds_.look_after_empty_round()); }

// --- the progress thread -----------------------------------------------------------------------

// The thread does not spin on when it has just told the application of something, because the
// application may need this very processor.
Driven::Found Engine::drive_until_quiet() noexcept {
  Lock& lock = device_.receive_lock();
  Found found = Found::kNothing;
  TimeNs look_until = 0;
  const std::uint32_t polls = progress_.polls();
  for (int round = 0; round < kRoundsPerTurn;) {
    if (!lock.try_lock()) return Found::kAnother;
    const TimeNs now = rounds_.look();
    const bool more = drive_once(now, device::Acknowledge::kUnlessAnswered, kPollBudget);
    if (more) {
      rounds_.note_found(now);
      found = Found::kPackets;
      ++round;
      look_until = announcements_.is_empty() ? thread_spin_.found(now) : thread_spin_.stop();
    }
    announcements_.end_round(lock);
    if (!more && now >= look_until) {
      thread_spin_.gave_up();
      break;
    }
    // The application has polled for the packets, and found this thread driving.
    if (progress_.polls() != polls) {
      thread_spin_.stop();
      break;
    }
  }
  return found;
}

// --- pending ACKs -------------------------------------------------------------------------------

void Engine::flush_acks() noexcept {
  if (has_failed() || !device_.has_pending_acks() || progress_.is_cut_off()) return;
  const Guard guard(device_.receive_lock());
  device_.finish_receive(link::monotonic_now_ns(), device::Acknowledge::kNow);
}

// An adapter receives packets when they come. Likewise, an answer that is here completes its
// request, which would be flushed otherwise.
void Engine::catch_up() noexcept {
  if (has_failed()) return;
  Lock& lock = device_.receive_lock();
  bool more = true;
  for (int round = 0; more && round < kRoundsPerTurn; ++round) {
    lock.lock();
    links_.peers().look_at_udp();
    more = drive_once(rounds_.look(), device::Acknowledge::kNow, kPollBudget);
    announcements_.end_round(lock);
  }
  // Rounds in which nothing comes leave ACKs pending that wait for more.
  flush_acks();
}

// A thread that receives is done soon; but the process must end, whatever its other threads do.
void Engine::part() noexcept {
  if (has_failed()) return;
  Lock& lock = device_.receive_lock();
  bool is_ours = lock.try_lock();
  for (int i = 0; !is_ours && i < kTriesToPart; ++i) {
    ::sched_yield();
    is_ours = lock.try_lock();
  }
  if (is_ours) {
    device_.finish_receive(link::monotonic_now_ns(), device::Acknowledge::kNow);
    lock.unlock();
  }
  send_what_is_held_back(links_.faults());
}

// --- posts -------------------------------------------------------------------------------------

// Uses a recent time, so that an application that has just polled need not read the clock.
std::optional<TimeNs> Engine::ring(qp::QueuePair& qp, PostState& state) noexcept {
  if (has_failed()) return std::nullopt;
  const bool is_deferred = device_.defer(qp);
  if (is_deferred && ++state.deferred % times::kDeferredUntilLook != 0) return std::nullopt;
  const TimeNs now = rounds_.recent();
  if (is_deferred) return now;
  progress_.note_sending(true);
  device_.send_now(qp, now);
  progress_.note_sending(false);
  // Packets that a fault holds back go on time although the application does not drive.
  if (const TimeNs due = links_.faults().next_due(); due != kNever) progress_.note_deadline(due);
  return now;
}

void Engine::after_ring(qp::QueuePair& qp, TimeNs now) noexcept {
  // A program that waits for no answer has no other occasion to go on sending.
  if (!is_reliable(qp.transport())) {
    if (device_.has_work()) progress_.note_work();
    return;
  }
  if (posting_.goes_on(now, progress_.looks())) receive_for_poster(now);
}

// A send takes as long as the answers of many others. If the progress thread received the answers,
// it and the posting thread would wait for each other at every turn.
void Engine::receive_for_poster(TimeNs now) noexcept {
  progress_.note_poll(now);
  Lock& lock = device_.receive_lock();
  if (!lock.try_lock()) return;
  if (drive_once(now, device::Acknowledge::kNowForPoster, kPollBudget)) rounds_.note_found(now);
  announcements_.end_round(lock);
}

// Only a queue pair with one peer needs a ring: that peer is going to answer.
void Engine::meet_peer(qp::QueuePair& qp, PostState& state) noexcept {
  state.has_new_peer = false;
  if (qp.transport() == Transport::kUd) return;
  const queue::Endpoint& endpoint = qp.endpoint();
  const wire::Destination& to = endpoint.destination;
  host_.on_new_peer({to.address, endpoint.peer.slot(), to.source});
}

// --- a blocked reader --------------------------------------------------------------------------

// Called under the lock of the list of live engines.
bool Engine::begin_blocked_read(CompletionChannel& channel) noexcept {
  if (!readers_.open() || !channel.pipe.open_reader()) return false;
  if (!channel.wakers) {
    const std::initializer_list<WaitSet::Member> members = {
        {channel.pipe.reader()}, {links_.peers().wake_edges(), true}, {readers_.closing_fd()}};
    if (!channel.wakers.make(members)) return false;
  }
  if (!readers_.enter()) return false;
  if (!progress_.begin_blocked_read(channel.armed.load(std::memory_order_relaxed))) {
    readers_.leave();
    return false;
  }
  readers_.note_last(&channel);
  return true;
}

void Engine::end_blocked_read(CompletionChannel& channel) noexcept {
  progress_.end_blocked_read(channel.armed.load(std::memory_order_relaxed));
  readers_.leave();
}

bool Engine::drive_for_reader() noexcept {
  Lock& lock = device_.receive_lock();
  lock.lock();
  const TimeNs now = rounds_.look();
  const bool received = drive_once(now, device::Acknowledge::kUnlessAnswered, kReaderBudget);
  if (received) rounds_.note_found(now);
  announcements_.end_round(lock);
  return received;
}

}  // namespace verbena::provider
