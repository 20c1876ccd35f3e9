// SPDX-License-Identifier: BSD-2-Clause
// While this object exists, the thread cannot be cancelled in any system call that it makes. For
// what happens seldom; the data path has system_calls.hpp.
#pragma once

#include <pthread.h>

namespace verbena::link {

class Uncancelled {
 public:
  Uncancelled() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { ::pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = 0;
};

}  // namespace verbena::link
