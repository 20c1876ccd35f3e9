// SPDX-License-Identifier: BSD-2-Clause
// The event pipes of an engine that are full and hold events back (event_pipe.hpp): one descriptor
// that is readable when one of them has room again, for the progress thread to sleep on. Made with
// the first pipe that is full; most engines never have one. Owned by the engine; any thread.
#pragma once

#include <mutex>

#include "verbena/base/lock.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/events/waker.hpp"

namespace verbena::provider {

class EventPipe;

class FullPipes {
 public:
  // Who sleeps on fd() and calls fill().
  explicit FullPipes(Waker& filler) : filler_(filler) {}

  // -1: none was full yet.
  int fd() const noexcept { return fd_.read(); }
  // Without the pipe's lock, as the others.
  void add(EventPipe& pipe) noexcept;
  void remove(EventPipe& pipe) noexcept;
  // Goes on with those that have room.
  void fill() noexcept;

 private:
  void await_room(EventPipe& pipe) noexcept;

  Waker& filler_;
  std::mutex lock_;  // taken before a pipe's
  control::UniqueFd set_;
  Published<int> fd_{-1};
};

}  // namespace verbena::provider
