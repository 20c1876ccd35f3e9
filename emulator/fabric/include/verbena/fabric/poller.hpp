// SPDX-License-Identifier: BSD-2-Clause
// What the fabric needs of an event loop. The daemon implements it; a test may, too. One thread.
#pragma once

#include <functional>

namespace verbena::fabric {

class Poller {
 public:
  virtual ~Poller() = default;
  // Calls back whenever `fd` is readable (level), until unwatch(). The descriptor stays the
  // caller's and must be unwatched before it is closed.
  virtual void watch(int fd, std::function<void()> on_readable) = 0;
  virtual void unwatch(int fd) = 0;
};

}  // namespace verbena::fabric
