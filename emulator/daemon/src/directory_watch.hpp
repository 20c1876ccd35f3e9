// SPDX-License-Identifier: BSD-2-Clause
// Notices, without polling, that the runtime directory was removed, or the socket or the shadow in
// it, as a logout may do. Another emulator may have filled its place meanwhile.
#pragma once

#include <functional>
#include <utility>

#include "event_loop.hpp"
#include "instance.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::daemon {

class DirectoryWatch {
 public:
  // A program that removes a directory goes on removing for a while.
  static constexpr TimeNs kSettleNs = 100'000'000;

  DirectoryWatch(EventLoop& loop, const Instance& instance, std::function<void()> on_loss)
      : loop_(loop), instance_(instance), on_loss_(std::move(on_loss)) {}
  ~DirectoryWatch() { stop(); }

  // Watches what is there now. Must be called again after a loss was repaired.
  void start();
  void stop();

 private:
  void on_event();

  EventLoop& loop_;
  const Instance& instance_;
  std::function<void()> on_loss_;
  control::UniqueFd inotify_;
};

}  // namespace verbena::daemon
