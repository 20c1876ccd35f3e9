// SPDX-License-Identifier: BSD-2-Clause
// Notices that the program has closed our descriptors, like a daemon that closes all from 3 on. It
// is a pipe that carries no data. A thread that sleeps on one end is woken when the other end is
// closed, even if its own end was closed before.
//
// A program that closes other descriptors of ours and leaves these two open is not noticed. If a
// forked child has the other end as well, the thread is not woken until the child closes it.
#pragma once

#include <sys/types.h>

#include "verbena/control/unique_fd.hpp"

namespace verbena::provider {

class DescriptorWatch {
 public:
  // Returns 0 or an errno.
  int open() noexcept;
  // The descriptor to sleep on, or -1 before open().
  int fd() const noexcept { return kept_.get(); }
  // Returns whether both numbers still are the ends of this pipe. It takes two system calls.
  bool is_intact() const noexcept;

 private:
  bool is_ours(int fd) const noexcept;

  control::UniqueFd kept_;
  control::UniqueFd other_;
  ino_t pipe_ = 0;
};

}  // namespace verbena::provider
