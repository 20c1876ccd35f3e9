// SPDX-License-Identifier: BSD-2-Clause
// Decides which completions of a queue cause an event. Positions count all completions that were
// ever pushed, and wrap. Called under the queue's lock.
#pragma once

#include <cstdint>
#include <utility>

namespace verbena::queue {

// kWaits: the queue is now armed. kFired: an event comes at once, and the queue is not armed.
// kWaitedBefore: the queue was armed before the call.
enum class Arming : std::uint8_t { kWaits, kFired, kWaitedBefore };

// The completions that an armed queue waits for.
enum class ArmedFor : std::uint8_t { kNothing, kSolicited, kAny };

class EventArming {
 public:
  // Takes note of a pushed completion; `end` is the position behind it. A completion matters if it
  // is solicited or has failed. Returns true if it causes an event.
  bool note_pushed(std::uint64_t end, bool matters) noexcept {
    if (matters) solicited_end_ = end;
    return armed_ != ArmedFor::kNothing && tells(end, matters);
  }
  // Arms a queue that holds the completions [head, end). `fires`: an event comes at once.
  Arming arm(std::uint64_t head, std::uint64_t end, bool solicited_only, bool& fires) noexcept;
  bool disarm() noexcept { return std::exchange(armed_, ArmedFor::kNothing) != ArmedFor::kNothing; }
  ArmedFor armed() const noexcept { return armed_; }
  // Sends an event only after `count` completions (0 or 1: after each). Returns true if those that
  // wait for an event are so many already, so that one comes at once; `end` is behind the last one.
  bool moderate(std::uint16_t count, std::uint64_t end) noexcept;
  // Renumbers positions: the one that was `head` becomes 0.
  void restart_at(std::uint64_t head) noexcept {
    solicited_end_ -= head;
    told_end_ -= head;
  }
  // Takes note that some completions were removed; [head, end) are left.
  void cut(std::uint64_t head, std::uint64_t end) noexcept;

 private:
  bool tells(std::uint64_t end, bool matters) noexcept;
  bool holds_news(std::uint64_t head, std::uint64_t end, bool solicited_only) noexcept;

  std::uint64_t solicited_end_ = 0;  // behind the last one that matters
  std::uint64_t told_end_ = 0;       // behind the last one that an event has reported
  std::uint64_t since_event_ = 0;
  std::uint16_t moderation_ = 0;
  ArmedFor armed_ = ArmedFor::kNothing;
};

}  // namespace verbena::queue
