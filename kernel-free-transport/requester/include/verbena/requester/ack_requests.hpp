// SPDX-License-Identifier: BSD-2-Clause
// Which packets request an acknowledgement: one in an interval, and the last one of what goes at a
// time. Which one is the last is known when the batch ends, so its place is kept until then.
//
// Part of a requester.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace verbena::requester {

class AckRequests {
 public:
  // So many packets more, and the interval is full.
  bool is_due(std::uint32_t packets, std::uint32_t interval) const {
    return since_request_ + packets >= interval;
  }
  void count(std::uint32_t packets, bool requested) {
    since_request_ = requested ? 0 : since_request_ + packets;
  }

  // A batch begins. The packet added last, if it requested none, went with the one before.
  void begin_batch() {
    is_missing_ = is_missing_ || last_without_;
    last_without_.reset();
  }
  // A packet was added at this place of the batch, that requests an acknowledgement or is answered
  // anyway.
  void added(std::size_t place, bool requested) {
    if (requested) {
      is_missing_ = false;
      last_without_.reset();
    } else {
      last_without_ = static_cast<std::uint8_t>(place);
    }
  }
  // The batch ends. The place of its last packet, if that is to request one now.
  std::optional<std::uint8_t> take_last() {
    if (!last_without_) return std::nullopt;
    is_missing_ = false;
    since_request_ = 0;
    return std::exchange(last_without_, std::nullopt);
  }
  // Or: the batch is empty, and the packet before it requested none.
  bool take_missing() { return std::exchange(is_missing_, false); }

 private:
  std::uint32_t since_request_ = 0;  // packets
  std::optional<std::uint8_t> last_without_;
  bool is_missing_ = false;
};

}  // namespace verbena::requester
