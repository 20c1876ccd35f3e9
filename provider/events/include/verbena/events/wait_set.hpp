// SPDX-License-Identifier: BSD-2-Clause
// Descriptors that a thread sleeps on again and again. The kernel keeps them, so that to fall
// asleep takes one look at what was readable last, and not one at each of them. But it notes here,
// too, what comes while nobody sleeps: a busy descriptor leaves the set after some waits without a
// sleep. Owned by a completion channel; made and slept on by the blocked reader.
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
    bool by_edge = false;  // reported each time it becomes readable, not as long as it is
  };
  explicit operator bool() const noexcept { return static_cast<bool>(set_); }
  // False: no descriptor is left for it.
  bool make(std::initializer_list<Member> members) noexcept;
  // Before each sleep: these, which are busy, are in the set as well; always the same, but that one
  // may come later (negative: none). False: as for make().
  bool admit(const std::array<int, 2>& busy) noexcept;
  // A wait has ended without a sleep.
  void note_no_sleep() noexcept;
  // For epoll_wait, which reports members by their numbers.
  int fd() const noexcept { return set_.get(); }

 private:
  static constexpr std::uint32_t kWaitsWithoutSleep = 64;

  control::UniqueFd set_;
  std::array<int, 2> busy_{-1, -1};  // in the set
  std::uint32_t waits_without_sleep_ = 0;
};

}  // namespace verbena::provider
