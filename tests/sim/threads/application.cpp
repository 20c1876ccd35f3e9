// SPDX-License-Identifier: BSD-2-Clause
#include "application.hpp"

#include <algorithm>

namespace verbena::threads {

void Application::run() {
  while (!is_over()) spend_time(habits_.likes[dice_.below(habits_.likes.size())]);
  // An idle program blocks in a read, waits for an event elsewhere, or does something else.
  is_idle_ = true;
  const std::uint64_t end = dice_.below(3);
  if (end == 0) read_events(~0ull);
  if (end == 1) await_events(~0ull);
  Awaited over{over_fd_};
  machine_.wait({&over, 1}, kNever);
}

void Application::spend_time(int way) {
  static constexpr const char* kNames[] = {"polls",      "polls seldom", "computes",
                                           "sleeps",     "reads events", "awaits events",
                                           "posts (RC)", "posts (UD)"};
  judge_.trace(kNames[way], &engine_);
  switch (way) {
    case 0:
      return poll_until(machine_.now() + dice_.between(50'000, 8'000'000));
    case 1:
      return poll_seldom(machine_.now() + dice_.between(100'000, 4'000'000));
    case 2:
      return compute(dice_.between(5'000, 3'000'000));
    case 3:
      return sleep(dice_.between(10'000, 5'000'000));
    case 4:
      return read_events(dice_.between(1, 8));
    case 5:
      return await_events(dice_.between(1, 8));
    case 6:
      return post_many(dice_.between(1, 40), true);
    default:
      return post_many(dice_.between(1, 40), false);
  }
}

// Takes completions, and answers those that want an answer. Returns whether there was one.
bool Application::consume() {
  if (channel_.unread.empty()) return false;
  // The thread does not wait for packets while it handles completions.
  if (is_polling_) engine_.end_attending();
  while (!channel_.unread.empty()) {
    const Message message = channel_.unread.front();
    channel_.unread.pop_front();
    channel_.untold = std::min(channel_.untold, channel_.unread.size());
    machine_.step(dice_.between(50, 1'000));
    if (!message.wants_answer || message.from == nullptr || is_over()) continue;
    Message answer;
    answer.wants_answer = !dice_.one_in(8);
    answer.channel = dice_.below(message.from->channels());
    engine_.post(*message.from, answer);
  }
  if (is_polling_) engine_.begin_attending();
  return true;
}

bool Application::poll_once() {
  if (consume()) return true;
  engine_.poll();
  return consume();
}

void Application::poll_until(TimeNs end) {
  engine_.begin_attending();
  is_polling_ = true;
  while (machine_.now() < end && !is_over()) {
    poll_once();
    machine_.step(dice_.between(habits_.poll_gap / 2, habits_.poll_gap));
  }
  is_polling_ = false;
  engine_.end_attending();
}

void Application::poll_seldom(TimeNs end) {
  while (machine_.now() < end && !is_over()) {
    for (std::uint64_t i = dice_.between(1, 20); i != 0; --i) poll_once();
    compute(dice_.between(1'000, 400'000));
  }
}

void Application::compute(TimeNs time) {
  constexpr TimeNs kAtOnce = 5'000;
  for (; time > kAtOnce; time -= kAtOnce) machine_.step(kAtOnce);
  machine_.step(time);
}

void Application::sleep(TimeNs time) {
  Awaited over{over_fd_};
  machine_.wait({&over, 1}, time);
}

// Does what examples do: arms the queue and looks once more before it waits.
void Application::arm_and_look() {
  engine_.arm(channel_);
  poll_once();
}

void Application::read_events(std::uint64_t count) {
  for (; count != 0; --count) {
    arm_and_look();
    waits_for_events_ = true;
    const bool got = engine_.read_event_blocking(channel_, over_fd_);
    waits_for_events_ = false;
    if (!got) return;
    poll_once();
    if (count < 100 && is_over()) return;
  }
}

void Application::await_events(std::uint64_t count) {
  for (; count != 0; --count) {
    const bool was_watched = !channel_.is_armed && engine_.is_watched_for(channel_);
    arm_and_look();
    waits_for_events_ = true;
    const bool is_watched = was_watched && engine_.is_watched_for(channel_);
    if (is_watched) engine_.begin_attending();
    Awaited awaited[] = {{channel_.pipe_fd}, {over_fd_}};
    machine_.wait(awaited, kNever);
    if (is_watched) engine_.end_attending();
    waits_for_events_ = false;
    if (awaited[1].is_ready || !engine_.read_event(channel_)) return;
    poll_once();
    if (count < 100 && is_over()) return;
  }
}

void Application::post_many(std::uint64_t count, bool reliable) {
  if (habits_.peers.empty()) return compute(50'000);
  Engine& peer = *habits_.peers[dice_.below(habits_.peers.size())];
  for (; count != 0 && !is_over(); --count) {
    Message message;
    message.channel = dice_.below(peer.channels());
    message.wants_answer = reliable && dice_.one_in(3);
    reliable ? engine_.post(peer, message) : engine_.post_unreliable(peer, message);
    machine_.step(dice_.between(habits_.post_gap / 2, habits_.post_gap));
  }
}

}  // namespace verbena::threads
