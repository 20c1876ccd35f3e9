// SPDX-License-Identifier: BSD-2-Clause
// What the fabric needs from an event loop. The daemon implements it, and tests may. One thread.
#pragma once

#include <functional>

namespace verbena::fabric {

class Poller {
 public:
  virtual ~Poller() = default;
  // Calls back while `fd` is readable (level-triggered), until unwatch(). The caller keeps the
  // descriptor and must unwatch it before closing it.
  virtual void watch(int fd, std::function<void()> on_readable) = 0;
  virtual void unwatch(int fd) = 0;
};

}  // namespace verbena::fabric
