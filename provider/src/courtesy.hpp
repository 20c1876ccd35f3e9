// SPDX-License-Identifier: BSD-2-Clause
// What a thread owes to others while it polls in vain: its turn on the processor, for what it waits
// for may need this very one (there may be but one). If another takes that turn again and again,
// two that spin share a processor, perhaps beside an idle one: schedulers leave them so for
// seconds. Then this thread moves to another of the processors that it may use; or the other one
// does, for both see the same, and if both moved they would meet again: so each tosses a coin.
#pragma once

#include <cstdint>

#include "verbena/base/random.hpp"
#include "verbena/base/types.hpp"

namespace verbena::provider {

// That was given away.
struct Turn {
  bool was_taken = false;
  TimeNs lasted = 0;
};

class Courtesy {
 public:
  // Those of the calling thread.
  static Courtesy& of_this_thread() noexcept;
  Courtesy() noexcept;
  [[gnu::noinline]] Turn give_way() noexcept;
  std::uint32_t moves() const noexcept { return moves_; }

 private:
  void move_away() noexcept;

  Random coin_;
  long switches_;                  // of the thread while it could have gone on
  std::uint32_t taken_turns_ = 0;  // of late, weighed
  TimeNs next_move_ = 0;
  TimeNs pause_ = 0;
  std::uint32_t moves_ = 0;
};

}  // namespace verbena::provider
