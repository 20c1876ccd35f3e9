// SPDX-License-Identifier: BSD-2-Clause
// A thread that sleeps and can be woken. Any thread may kick it; it then checks everything once
// more.
#pragma once

namespace verbena::provider {

class Waker {
 public:
  virtual void kick() noexcept = 0;

 protected:
  ~Waker() = default;
};

}  // namespace verbena::provider
