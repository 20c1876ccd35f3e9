// SPDX-License-Identifier: BSD-2-Clause
// Implements the small interfaces that the rooms know (reactor.hpp, fabric::Poller, fabric::Timers)
// with Boost.Asio. One thread. While nothing happens, no timer runs and the process does not wake.
// Only event_loop.cpp includes Asio's headers, because they take longer to compile than all of
// ours.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>

#include "reactor.hpp"

namespace verbena::daemon {

class EventLoop final : public Reactor {
 public:
  EventLoop();
  ~EventLoop() override;
  void run();
  void stop();

  void watch(int fd, std::function<void()> on_readable) override;
  void unwatch(int fd) override;
  void when_writable(int fd, std::function<void()> then) override;
  // Calls `then` once, with the number of the first of these signals that comes.
  void on_signal(std::initializer_list<int> numbers, std::function<void(int)> then);

  Id after(TimeNs delay_ns, std::function<void()> then) override;
  void cancel(Id timer) override;

  // Calls `then` after the handlers that run now and those that are ready.
  void at_end_of_turn(std::function<void()> then) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbena::daemon
