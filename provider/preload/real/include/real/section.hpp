// SPDX-License-Identifier: BSD-2-Clause
// Marks our own work inside a wrapped call. While a Section lives, this thread calls the real C
// library functions (our own look-ups are not redirected) and cannot be cancelled. When the Section
// ends, errno has the value that it had before.
#pragma once

#include <pthread.h>

#include <cerrno>

namespace verbena::preload {

class Section {
 public:
  Section() : saved_errno_(errno), outer_(inside_) {
    inside_ = true;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  }
  ~Section() {
    inside_ = outer_;
    ::pthread_setcancelstate(cancel_state_, nullptr);
    errno = saved_errno_;
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  static bool is_inside() { return inside_; }
  // Sets the errno that the caller finds when the Section ends.
  void set_errno(int code) { saved_errno_ = code; }

 private:
  __attribute__((tls_model("initial-exec"))) static constinit thread_local bool inside_;

  int saved_errno_;
  bool outer_;
  int cancel_state_ = 0;
};

}  // namespace verbena::preload
