// SPDX-License-Identifier: BSD-2-Clause
// Notices that the program has closed descriptors that are not its own, as daemons do that close
// all from 3 on. It is a pipe through which nothing goes: whoever sleeps on one end is woken when
// the other is closed, however that was done, also if its own end was closed before.
//
// Not noticed: who leaves these two open and closes others; and at once only if no child of a fork
// has the other end, too.
#pragma once

#include <sys/types.h>

#include "verbena/control/unique_fd.hpp"

namespace verbena::provider {

class DescriptorWatch {
 public:
  // Returns an errno.
  int open() noexcept;
  // To sleep on; -1: not opened.
  int fd() const noexcept { return kept_.get(); }
  // Whether both numbers still stand for what open() has made. Two system calls.
  bool is_intact() const noexcept;

 private:
  bool is_ours(int fd) const noexcept;

  control::UniqueFd kept_;
  control::UniqueFd other_;
  ino_t pipe_ = 0;
};

}  // namespace verbena::provider
