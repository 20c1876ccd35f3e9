// SPDX-License-Identifier: BSD-2-Clause
// The threads of the application that block in a read of a completion channel and drive the engine
// meanwhile. The gate counts them, makes them leave when the engine goes, and holds their common
// state. Owned by the engine. open() is called under the lock of the list of live engines, the
// others by any thread.
#pragma once

#include <atomic>

#include "verbena/base/lock.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/progress/reader_spin.hpp"

namespace verbena::provider {

struct CompletionChannel;

class ReaderGate {
 public:
  ReaderGate() { visits_.reopen(); }

  // Called before each enter(). Returns false if no descriptor is left for closing_fd().
  bool open() noexcept;
  // Readable once the engine goes.
  int closing_fd() const noexcept { return closing_.get(); }
  bool enter() noexcept { return visits_.enter(); }
  void leave() noexcept { visits_.leave(); }
  // Lets no thread enter any more, and returns when all have left.
  void close() noexcept;
  bool is_closing() const noexcept { return is_closing_.read(); }
  // Called in a forked child, where the threads inside do not exist.
  void abandon() noexcept;

  // Notes the channel whose read blocked last.
  void note_last(const CompletionChannel* channel) noexcept {
    last_.store(channel, std::memory_order_relaxed);
  }
  bool is_last(const CompletionChannel* channel) const noexcept {
    return last_.load(std::memory_order_relaxed) == channel;
  }
  // Belongs to the reader that is inside.
  ReaderSpin& spin() noexcept { return spin_; }
  // Returns whether the first reader, when it came, could use only one processor.
  bool has_one_processor() const noexcept { return has_one_processor_; }

 private:
  Gate visits_;
  control::UniqueFd closing_;  // made for the first visit
  Published<bool> is_closing_{false};
  bool has_one_processor_ = false;
  std::atomic<const CompletionChannel*> last_{nullptr};
  ReaderSpin spin_;
};

}  // namespace verbena::provider
