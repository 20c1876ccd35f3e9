// SPDX-License-Identifier: BSD-2-Clause
// What the daemon's own parts need of its event loop. EventLoop implements it; a test has a loop of
// its own, with a clock that it sets. One thread.
#pragma once

#include <functional>

#include "verbena/fabric/extension.hpp"
#include "verbena/fabric/poller.hpp"

namespace verbena::daemon {

class Reactor : public fabric::Poller, public fabric::Timers {
 public:
  // Calls `then` once, when `fd` takes data again. `fd` must be watched.
  virtual void when_writable(int fd, std::function<void()> then) = 0;
};

}  // namespace verbena::daemon
