// SPDX-License-Identifier: BSD-2-Clause
// Our half of a pipe in which libibverbs reads events: completion events of a channel, or
// asynchronous events of a context. What was written for an object that goes away can be taken
// back as long as the application has not read it, because each record names its object by
// address.
//
// A pipe takes 64 KiB. What comes while it is full is held back here, without a limit, as a kernel
// queues it; and so is all that comes after, until what is held back has gone, so that the order is
// kept. It goes when the reader has made room: with libibverbs' own look after each event that was
// read, or by the progress thread where the descriptor is read in another way (full_pipes.hpp).
// Any thread; never blocks.
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

namespace verbena::provider {

class FullPipes;

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

  // `fd` is an end of the pipe that stays its owner's; the pipe is opened anew, so that whether
  // the application's end blocks remains its own affair. Returns an errno.
  int open(int fd) noexcept;

  // Who is told when it is full; before the first event.
  void set_full_pipes(FullPipes* pipes) noexcept { full_pipes_ = pipes; }

  int read_end() const noexcept { return read_end_; }
  int write_end() const noexcept { return write_end_.get(); }

  // False: the pipe is gone, or no memory is left. All records of a pipe are of one type.
  bool write(const CompletionEvent& event) noexcept;
  bool write(const AsynchronousEvent& event) noexcept { return write(&event, sizeof event); }
  // Before the first read(): false where no descriptor is left for it.
  bool open_reader() noexcept;
  // Whether read() would have a look into the pipe.
  bool may_hold_any() const noexcept {
    return written_.load(std::memory_order_acquire) != taken_ || !is_counted_;
  }
  // Reads a record for the application: 0 if there is none. One thread at a time.
  ssize_t read(void* bytes, std::size_t size) noexcept;
  // reader() was readable: a record may be there that is not counted yet, because its writer has
  // been put off by whom it woke.
  void look_into() noexcept { is_counted_ = false; }
  // Between the two, what the calling thread itself writes is kept for its next read() without a
  // way through the pipe, if nothing is before it there.
  void begin_reading() noexcept { reading() = this; }
  void end_reading() noexcept;
  // What becomes readable when another thread has written.
  int reader() const noexcept { return reader_.get(); }
  // Takes back all unread records of `size` bytes that begin with this address; how many.
  std::size_t withdraw(std::uint64_t object, std::size_t size) noexcept;
  // How many records of `size` bytes the application has not read.
  std::size_t unread(std::size_t size) noexcept;
  // Whether events wait for room in the pipe, and moves those for which there is some.
  bool holds_any() const noexcept { return holds_any_.load(std::memory_order_relaxed); }
  void fill() noexcept;
  // In a forked child: the pipe is the parent's, and so are the events that it will hold.
  void abandon() noexcept;
  bool is_abandoned() const noexcept { return is_abandoned_; }

 private:
  // As many records as one write puts into a pipe wholly or not at all.
  struct Held {
    static constexpr std::size_t kSize = 4096;
    std::size_t used = 0;
    std::array<unsigned char, kSize> bytes;
  };

  bool write(const void* record, std::size_t size) noexcept;
  // The following under the lock.
  bool hold(const void* record, std::size_t size) noexcept;
  void fill_locked() noexcept;
  std::size_t withdraw_held(std::uint64_t object, std::size_t size) noexcept;
  std::size_t withdraw_written(std::uint64_t object, std::size_t size) noexcept;
  // The one that the calling thread reads.
  static EventPipe*& reading() noexcept;

  Lock lock_;                    // writers, and whoever takes back
  control::UniqueFd write_end_;  // can be read, too: to take back needs no further descriptor
  int read_end_ = -1;
  control::UniqueFd reader_;  // ours
  // How many records were written, and how many of them are gone, for all that read() knows.
  std::atomic<std::uint32_t> written_{0};
  std::uint32_t taken_ = 0;
  bool is_counted_ = false;  // since the pipe was seen empty
  std::optional<CompletionEvent> kept_;
  std::list<Held> held_;  // under the lock
  std::atomic<bool> holds_any_{false};
  bool is_abandoned_ = false;
  FullPipes* full_pipes_ = nullptr;
};

}  // namespace verbena::provider
