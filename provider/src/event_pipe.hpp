// Our half of a pipe in which libibverbs reads events: completion events of a channel, or
// asynchronous events of a context. What was written for an object that goes away can be taken
// back as long as the application has not read it, because each record names its object by
// address. Any thread; never blocks.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbena/base/lock.hpp"
#include "verbena/control/unique_fd.hpp"

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
  // `fd` is an end of the pipe that stays its owner's; the pipe is opened anew, so that whether
  // the application's end blocks remains its own affair. Returns an errno.
  int open(int fd) noexcept;
  // Takes over the writing end itself.
  void adopt(control::UniqueFd write_end, int read_end) noexcept;

  int read_end() const noexcept { return read_end_; }

  // False: the pipe is full or gone. Records are smaller than PIPE_BUF, so they are written whole.
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

 private:
  bool write(const void* record, std::size_t size) noexcept;
  // The one that the calling thread reads.
  static EventPipe*& reading() noexcept;

  Lock lock_;  // writers, and whoever takes back
  control::UniqueFd write_end_;
  int read_end_ = -1;
  control::UniqueFd reader_;  // ours
  // How many records were written, and how many of them are gone, for all that read() knows.
  std::atomic<std::uint32_t> written_{0};
  std::uint32_t taken_ = 0;
  bool is_counted_ = false;  // since the pipe was seen empty
  std::optional<CompletionEvent> kept_;
};

}  // namespace verbena::provider
