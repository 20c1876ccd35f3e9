// SPDX-License-Identifier: BSD-2-Clause
// Our half of a pipe from which libibverbs reads events: completion events of a channel, or
// asynchronous events of a context. Each record names its object by address. Therefore records of
// an object that goes away can be taken back as long as the application has not read them.
//
// A pipe that is full for the first time is made larger, for 131,072 completion events if the
// kernel permits. Events that come while it is full even so are held back here, without a limit, as
// a kernel queues them. Later events are held back as well until the earlier ones have gone, which
// keeps the order. They go as soon as the reader has made room, because libibverbs calls us after
// each event that it has read. A program that reads the descriptor without libibverbs gets them
// only with the next event. Any thread; never blocks.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>

#include "verbena/base/lock.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/events/pipe_end.hpp"

namespace verbena::provider {

// The kernel's formats (struct ib_uverbs_comp_event_desc, ib_uverbs_async_event_desc).
struct CompletionEvent {
  std::uint64_t cq;
};
struct AsynchronousEvent {
  std::uint64_t element;
  std::uint32_t type;
  std::uint32_t reserved;
};

class EventPipe {
 public:
  EventPipe() = default;
  ~EventPipe();
  EventPipe(const EventPipe&) = delete;

  // Opens the pipe anew, so that O_NONBLOCK on the application's end stays the application's own
  // affair. `fd` is an end of the pipe and stays with its owner. Returns an errno.
  int open(int fd) noexcept;

  int read_end() const noexcept { return read_end_; }
  int write_end() const noexcept { return write_end_.get(); }

  // Returns false if the pipe is gone or there is no memory. All records of a pipe have one type.
  bool write(const CompletionEvent& event) noexcept;
  bool write(const AsynchronousEvent& event) noexcept { return write(&event, sizeof event); }
  // Called before the first read(). Returns false if no descriptor is left for it.
  bool open_reader() noexcept;
  // Returns whether read() would look into the pipe.
  bool may_hold_any() const noexcept {
    return written_.load(std::memory_order_acquire) != taken_ || !is_counted_;
  }
  // Reads a record for the application. Returns 0 if there is none. One thread at a time.
  ssize_t read(void* bytes, std::size_t size) noexcept;
  // reader() was readable: there may be a record that is not counted yet, because its writer was
  // preempted by the thread that it woke.
  void look_into() noexcept { is_counted_ = false; }
  // Between these two, an event that the calling thread itself writes is kept for its next read()
  // and bypasses the pipe, if no other event is before it.
  void begin_reading() noexcept { reading() = this; }
  void end_reading() noexcept;
  // Returns the descriptor that becomes readable when another thread has written.
  int reader() const noexcept { return reader_.get(); }
  // Takes back all unread records of `size` bytes that begin with this address. Returns how many.
  // Afterwards the pipe is abandoned if the program has closed our end.
  std::size_t withdraw(std::uint64_t object, std::size_t size) noexcept;
  // Returns how many records of `size` bytes the application has not read. Of those in a socket it
  // counts one (pipe_end.hpp).
  std::size_t unread(std::size_t size) noexcept;
  // Tells whether events wait for room in the pipe; fill() moves those for which there is room.
  bool holds_any() const noexcept { return holds_any_.load(std::memory_order_relaxed); }
  void fill() noexcept;
  // Called in a forked child: the pipe and its future events are the parent's.
  void abandon() noexcept;
  // The program has closed our descriptors. Nothing is written to or read from their numbers.
  void lose_descriptors() noexcept;
  bool is_abandoned() const noexcept { return is_abandoned_.read(); }

 private:
  // As many records as a single write puts into a pipe entirely or not at all.
  struct Held {
    static constexpr std::size_t kSize = 4096;
    std::size_t used = 0;
    std::array<unsigned char, kSize> bytes;
  };

  bool write(const void* record, std::size_t size) noexcept;
  // Called under the lock, like the next four.
  bool hold(const void* record, std::size_t size) noexcept;
  void fill_locked() noexcept;
  // Takes all unread records out of the pipe and holds them back.
  void hold_written() noexcept;
  std::size_t withdraw_held(std::uint64_t object, std::size_t size) noexcept;
  void lose_descriptors_locked() noexcept;
  // Returns whether the number still is an end of this pipe.
  bool is_end(int fd) const noexcept;
  // The pipe that the calling thread reads.
  static EventPipe*& reading() noexcept;

  Lock lock_;          // taken by writers and to take events back
  PipeEnd write_end_;  // is readable as well, to take events back
  dev_t device_ = 0;
  ino_t pipe_ = 0;
  int read_end_ = -1;
  control::UniqueFd reader_;  // ours
  // How many records were written, and how many of them are gone as far as read() knows.
  std::atomic<std::uint32_t> written_{0};
  std::uint32_t taken_ = 0;
  bool is_counted_ = false;  // since the pipe was last seen empty
  std::optional<CompletionEvent> kept_;
  std::list<Held> held_;  // under the lock
  std::atomic<bool> holds_any_{false};
  Published<bool> is_abandoned_{false};
};

}  // namespace verbena::provider
