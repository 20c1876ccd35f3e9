// SPDX-License-Identifier: BSD-2-Clause
// Of which completions of a queue an event tells. Counts in positions that wrap: one for each
// completion that was ever pushed. Under the queue's lock.
#pragma once

#include <cstdint>
#include <utility>

namespace verbena::queue {

// kWaits: the queue waits from now on; kFired: it did not and does not, but has told already;
// kWaitedBefore: it was armed.
enum class Arming : std::uint8_t { kWaits, kFired, kWaitedBefore };

// For which completions a queue waits to tell of.
enum class ArmedFor : std::uint8_t { kNothing, kSolicited, kAny };

class EventArming {
 public:
  // A completion was pushed; `end` is the position behind it. True: an event tells of it. It
  // matters if it is solicited or has failed.
  bool note_pushed(std::uint32_t end, bool matters) noexcept {
    if (matters) solicited_end_ = end;
    return armed_ != ArmedFor::kNothing && tells(end, matters);
  }
  // The owner asks for an event while [head, end) lies there. `fires`: one comes at once.
  Arming arm(std::uint32_t head, std::uint32_t end, bool solicited_only, bool& fires) noexcept;
  bool disarm() noexcept { return std::exchange(armed_, ArmedFor::kNothing) != ArmedFor::kNothing; }
  ArmedFor armed() const noexcept { return armed_; }
  // Events only after `count` completions (0 or 1: each).
  void moderate(std::uint16_t count) noexcept { moderation_ = count; }
  // Positions are counted from what was `head` from now on.
  void restart_at(std::uint32_t head) noexcept {
    solicited_end_ -= head;
    told_end_ -= head;
  }
  // Some of what lay there was taken out; [head, end) is left.
  void cut(std::uint32_t head, std::uint32_t end) noexcept;

 private:
  bool tells(std::uint32_t end, bool matters) noexcept;
  bool holds_news(std::uint32_t head, std::uint32_t end, bool solicited_only) noexcept;

  std::uint32_t solicited_end_ = 0;  // behind the last that matters
  std::uint32_t told_end_ = 0;       // behind the last of which an event has told
  std::uint32_t since_event_ = 0;
  std::uint16_t moderation_ = 0;
  ArmedFor armed_ = ArmedFor::kNothing;
};

}  // namespace verbena::queue
