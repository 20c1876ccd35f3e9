// SPDX-License-Identifier: BSD-2-Clause
// Decides which packets request an acknowledgement: one in an interval, and the last one of those
// that go together. The last one is known only when the batch ends, so its place is kept until
// then.
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
  // Returns whether `packets` packets more fill the interval.
  bool is_due(std::uint32_t packets, std::uint32_t interval) const {
    return since_request_ + packets >= interval;
  }
  void count(std::uint32_t packets, bool requested) {
    since_request_ = requested ? 0 : since_request_ + packets;
  }

  // A batch begins. If the packet that was added last requested no ACK, it went with the batch
  // before.
  void begin_batch() {
    is_missing_ = is_missing_ || last_without_;
    last_without_.reset();
  }
  // A packet was added at this place of the batch. `requested`: it requests an acknowledgement or
  // is answered anyway.
  void added(std::size_t place, bool requested) {
    if (requested) {
      is_missing_ = false;
      last_without_.reset();
    } else {
      last_without_ = static_cast<std::uint8_t>(place);
    }
  }
  // The batch ends. Returns the place of its last packet if that has to request an acknowledgement
  // now.
  std::optional<std::uint8_t> take_last() {
    if (!last_without_) return std::nullopt;
    is_missing_ = false;
    since_request_ = 0;
    return std::exchange(last_without_, std::nullopt);
  }
  // Returns true if the batch is empty and the packet before it requested no acknowledgement.
  bool take_missing() { return std::exchange(is_missing_, false); }

 private:
  std::uint32_t since_request_ = 0;  // packets
  std::optional<std::uint8_t> last_without_;
  bool is_missing_ = false;
};

}  // namespace verbena::requester
