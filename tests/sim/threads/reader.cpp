// SPDX-License-Identifier: BSD-2-Clause
// Completion events of the model's engine: arms a queue, and waits for its event in a read that
// blocks and drives meanwhile, in the order in which provider/context does it.
#include "engine.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::threads {
namespace {

constexpr std::size_t kReadersBudget = 5;

}  // namespace

void Engine::arm(Channel& channel) {
  meet_progress();
  if (channel.is_armed) return;
  channel.untold = std::min(channel.untold, channel.unread.size());
  const bool fires = channel.untold != 0;
  if (fires) {
    channel.untold = 0;
    fire(channel);
    write_event(channel);
  } else {
    channel.is_armed = true;
  }
  channel.armed.fetch_add(1, std::memory_order_relaxed);
  if (fires) return progress_.note_fired_at_once();
  progress_.note_armed(last_reader_.load(std::memory_order_relaxed) == &channel);
}

bool Engine::read_event(Channel& channel) {
  machine_.call(400);
  return machine_.take_one_from(channel.pipe_fd);
}

void Engine::begin_attending() {
  if (attenders_++ == 0) attended_since_ = machine_.now();
}

void Engine::end_attending() { --attenders_; }

bool Engine::read_event_blocking(Channel& channel, int over_fd) {
  begin_attending();
  bool got = false;
  if (progress_.begin_blocked_read(channel.armed.load(std::memory_order_relaxed))) {
    last_reader_now_ = &channel;
    last_reader_.store(&channel, std::memory_order_relaxed);
    reader_spin_.begin(link::monotonic_now_ns());
    got = visit(channel, over_fd);
    meet_progress();
    progress_.end_blocked_read(channel.armed.load(std::memory_order_relaxed));
  } else {
    Awaited awaited[] = {{channel.pipe_fd}, {over_fd}};
    got = read_event(channel);
    if (!got && machine_.wait(awaited, kNever) != 0) got = read_event(channel);
  }
  end_attending();
  return got;
}

bool Engine::goes_on_looking() {
  return options_.is_on_one_processor ? reader_spin_.goes_on_after_turn(&link::monotonic_now_ns)
                                      : reader_spin_.goes_on(link::monotonic_now_ns());
}

bool Engine::visit(Channel& channel, int over_fd) {
  bool has_slept = false;
  const auto take = [&] {
    const bool got = read_event(channel);
    if (got) reader_spin_.end(&link::monotonic_now_ns);
    return got;
  };
  while (true) {
    if (take()) return true;
    if (reader_spin_.is_on() && options_.is_on_one_processor) {
      machine_.yield();
      reader_spin_.note_turn();
    }
    if ((has_slept || reader_spin_.is_on()) && drive_for_reader()) continue;
    if (take()) return true;
    if (reader_spin_.is_on() && goes_on_looking()) continue;
    has_slept = true;
    if (!prepare_reader_wait()) continue;
    Awaited awaited[] = {
        {channel.pipe_fd}, {over_fd}, {receive_fd_}, {waker_fd_, false, &channel.waker_edges_seen}};
    machine_.wait(awaited, kNever);
    end_wait();
    if (awaited[1].is_ready) return take();
  }
}

bool Engine::drive_for_reader() {
  lock_.lock();
  const TimeNs now = link::monotonic_now_ns();
  const bool received = drive_once(now, kReadersBudget);
  if (received) last_found_ = now;
  end_round();
  return received;
}

bool Engine::prepare_reader_wait() {
  lock_.lock();
  const bool sleeps = may_sleep();
  lock_.unlock();
  return sleeps;
}

}  // namespace verbena::threads
