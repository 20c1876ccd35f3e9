// SPDX-License-Identifier: BSD-2-Clause
// Boost.Asio behind the two small interfaces that the rooms know (fabric::Poller, fabric::Timers).
// One thread. While nothing happens no timer runs, and the process does not wake. Asio's headers
// are included by event_loop.cpp alone: they take longer to compile than all of ours.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>

#include "verbena/fabric/extension.hpp"
#include "verbena/fabric/poller.hpp"

namespace verbena::daemon {

class EventLoop final : public fabric::Poller, public fabric::Timers {
 public:
  EventLoop();
  ~EventLoop() override;
  void run();
  void stop();

  void watch(int fd, std::function<void()> on_readable) override;
  void unwatch(int fd) override;
  // Calls once when `fd` takes data again.
  void when_writable(int fd, std::function<void()> then);
  // Calls once, with the number of the first of these signals that comes.
  void on_signal(std::initializer_list<int> numbers, std::function<void(int)> then);

  Id after(TimeNs delay_ns, std::function<void()> then) override;
  void cancel(Id timer) override;

  // After the handlers that run now, and those that are ready.
  void post(std::function<void()> then);
  void at_end_of_turn(std::function<void()> then) override { post(std::move(then)); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbena::daemon
