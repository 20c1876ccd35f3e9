// SPDX-License-Identifier: BSD-2-Clause
// The threads of the application that block in a read of a completion channel and drive the engine
// meanwhile: who is inside, that they leave when the engine goes, and what they have in common.
// Owned by the engine; opened under the lock of the list of live engines, the rest any thread.
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

  // Before the first enter(). False: no descriptor is left for it.
  bool open() noexcept;
  // Readable once the engine goes.
  int closing_fd() const noexcept { return closing_.get(); }
  bool enter() noexcept { return visits_.enter(); }
  void leave() noexcept { visits_.leave(); }
  // Nobody enters any more; returns when all have left.
  void close() noexcept;
  bool is_closing() const noexcept { return is_closing_.read(); }
  // In a forked child: who was inside is not here.
  void abandon() noexcept;

  // The channel whose read blocked last.
  void note_last(const CompletionChannel* channel) noexcept {
    last_.store(channel, std::memory_order_relaxed);
  }
  bool is_last(const CompletionChannel* channel) const noexcept {
    return last_.load(std::memory_order_relaxed) == channel;
  }
  // Of the reader that is inside.
  ReaderSpin& spin() noexcept { return spin_; }
  // Of the first reader, when it came first.
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
