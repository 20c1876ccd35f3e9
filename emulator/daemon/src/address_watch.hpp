// SPDX-License-Identifier: BSD-2-Clause
// Notices that an address of this host came or went, or that an interface changed. The kernel
// reports it, so there is no polling.
#pragma once

#include <functional>

#include "event_loop.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::daemon {

class AddressWatch {
 public:
  // One change causes several reports, which are handled together after this time.
  static constexpr TimeNs kSettleNs = 20'000'000;

  AddressWatch(EventLoop& loop, std::function<void()> on_change)
      : loop_(loop), on_change_(std::move(on_change)) {}
  ~AddressWatch() { stop(); }

  // If the kernel does not report changes (in a sandbox), the addresses stay what they were.
  void start();
  void stop();

 private:
  void on_word();

  EventLoop& loop_;
  std::function<void()> on_change_;
  control::UniqueFd netlink_;
  fabric::Timers::Id settling_ = 0;
};

}  // namespace verbena::daemon
