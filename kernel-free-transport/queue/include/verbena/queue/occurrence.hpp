// SPDX-License-Identifier: BSD-2-Clause
// What a queue pair reports to `verbena events`. All of it is rare: without errors a connection
// reports twice in its life.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "verbena/base/address.hpp"
#include "verbena/base/types.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::queue {

struct Occurrence {
  enum class Kind : std::uint8_t {
    kState,    // RTR, RTS or an error state was reached; `text` says why the latter
    kFailure,  // completions with an error; `text` explains them, if possible
    kTimeout,  // the peer did not answer in time, and the request is sent again
  };
  Kind kind = Kind::kState;
  Transport transport = Transport::kRc;
  Qpn number{};
  Qpn peer{};
  IpAddress peer_address{};  // unspecified if there is no peer
  std::uint8_t state = 0;    // as ibv_qp_state
  Status status = Status::kSuccess;
  // Opcode and ID of the request or the receive, or of one of them if there are several.
  std::string_view opcode{};
  std::optional<std::uint64_t> id{};
  std::uint32_t count = 1;  // occurrences like it since the last report
  const char* text = "";
};

// Groups repeated events: the first one is told at once, later ones in ever larger groups.
class Tally {
 public:
  // Counts `more` events. Returns how many to tell now; 0: none yet.
  std::uint32_t add(std::uint32_t more) noexcept {
    untold_ += more;
    if (untold_ < due_) return 0;
    while (due_ <= untold_ && due_ < kDueMost) due_ *= 10;
    return take_rest();
  }
  std::uint32_t take_rest() noexcept { return std::exchange(untold_, 0); }

 private:
  static constexpr std::uint32_t kDueMost = 100'000'000;

  std::uint32_t untold_ = 0;
  std::uint32_t due_ = 1;
};

}  // namespace verbena::queue
