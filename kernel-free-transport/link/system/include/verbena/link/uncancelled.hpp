// SPDX-License-Identifier: BSD-2-Clause
// What is called meanwhile is no point at which a cancelled thread ends, whatever system calls it
// makes. For what happens seldom; the data path's have system_calls.hpp.
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
