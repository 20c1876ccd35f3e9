// SPDX-License-Identifier: BSD-2-Clause
// Where a buffer from the receiving socket divides: into segments of one length, if the kernel says
// that it coalesced several packets; as its table says, if it is a bundle (bundles.hpp); else it is
// one packet. The pieces are not checked here: their ICRCs tell whether they are packets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bundles.hpp"

namespace verbena::link {

// Cuts the pieces off one buffer.
class Cutter {
 public:
  using Bytes = std::span<const std::uint8_t>;

  // `segment_bytes`: 0 if the kernel named no length.
  Cutter(Bytes buffer, std::size_t segment_bytes, bool maybe_bundle) noexcept
      : rest_(buffer), segment_bytes_(segment_bytes) {
    if (maybe_bundle && segment_bytes == 0) lengths_ = bundle_lengths(buffer);
    if (!lengths_.empty()) rest_ = buffer.first(buffer.size() - lengths_.size() - kTableEnd);
  }

  bool is_done() const noexcept { return rest_.empty(); }
  // Returns whether a bundle's table has lengths left.
  bool follows_table() const noexcept { return !lengths_.empty(); }
  Bytes next() noexcept {
    std::size_t length = rest_.size();
    if (!lengths_.empty()) {
      length = wire::load_be16(lengths_.data());
      lengths_ = lengths_.subspan(2);
    } else if (segment_bytes_ != 0) {
      length = std::min(segment_bytes_, length);
    }
    const Bytes piece = rest_.first(length);
    rest_ = rest_.subspan(length);
    return piece;
  }

 private:
  Bytes rest_;
  Bytes lengths_;  // the lengths of the pieces that are left, in a bundle's table
  std::size_t segment_bytes_;
};

}  // namespace verbena::link
