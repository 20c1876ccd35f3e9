// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/payload.hpp"

#include <algorithm>

namespace verbena::queue {

bool Payload::place_pieces(std::size_t from, std::size_t length,
                           const memory::Pin& to) const noexcept {
  std::size_t piece = from / bytes_.size();
  std::size_t skipped = from % bytes_.size();
  for (std::size_t done = 0; done < length; ++piece, skipped = 0) {
    const std::size_t part = std::min(bytes_.size() - skipped, length - done);
    if (!to.write(done, bytes_.data() + piece * step_ + skipped, part)) return false;
    done += part;
  }
  return true;
}

}  // namespace verbena::queue
