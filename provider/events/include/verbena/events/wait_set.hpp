// SPDX-License-Identifier: BSD-2-Clause
// Descriptors that a thread sleeps on repeatedly. The kernel keeps the set, so that falling asleep
// takes a look at what was readable last instead of a look at each descriptor. But the kernel also
// notes what comes while no thread sleeps; therefore a busy descriptor leaves the set after some
// waits without a sleep. Owned by a completion channel; made and slept on by the blocked reader.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "verbena/control/unique_fd.hpp"

namespace verbena::provider {

class WaitSet {
 public:
  struct Member {
    int fd;                // negative: none
    bool by_edge = false;  // reported once each time it becomes readable, not as long as it is
  };
  explicit operator bool() const noexcept { return static_cast<bool>(set_); }
  // Returns false if no descriptor is left for the set.
  bool make(std::initializer_list<Member> members) noexcept;
  // Called before each sleep: adds these busy descriptors, which are the same each time, except
  // that one may appear later (negative: none). Returns false if one cannot be added.
  bool admit(const std::array<int, 2>& busy) noexcept;
  // A wait has ended without a sleep.
  void note_no_sleep() noexcept;
  // Returns the descriptor for epoll_wait, which reports members by their numbers.
  int fd() const noexcept { return set_.get(); }

 private:
  static constexpr std::uint32_t kWaitsWithoutSleep = 64;

  control::UniqueFd set_;
  std::array<int, 2> busy_{-1, -1};  // in the set
  std::uint32_t waits_without_sleep_ = 0;
};

}  // namespace verbena::provider
