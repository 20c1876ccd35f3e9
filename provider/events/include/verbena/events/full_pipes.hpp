// SPDX-License-Identifier: BSD-2-Clause
// The event pipes of an engine that are full and hold events back (event_pipe.hpp). One descriptor,
// for the progress thread to sleep on, is readable when one of the pipes has room again. It is made
// when a pipe is full for the first time; most engines never need it. Owned by the engine; any
// thread.
#pragma once

#include <mutex>

#include "verbena/base/lock.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/events/waker.hpp"

namespace verbena::provider {

class EventPipe;

class FullPipes {
 public:
  // `filler` sleeps on fd() and calls fill().
  explicit FullPipes(Waker& filler) : filler_(filler) {}

  // Returns -1 if no pipe was full yet.
  int fd() const noexcept { return fd_.read(); }
  // This and the other functions are called without the pipe's lock.
  void add(EventPipe& pipe) noexcept;
  void remove(EventPipe& pipe) noexcept;
  // Fills the pipes that have room.
  void fill() noexcept;

 private:
  void await_room(EventPipe& pipe) noexcept;

  Waker& filler_;
  std::mutex lock_;  // taken before a pipe's lock
  control::UniqueFd set_;
  Published<int> fd_{-1};
};

}  // namespace verbena::provider
