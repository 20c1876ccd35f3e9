// SPDX-License-Identifier: BSD-2-Clause
// The GID table of a device, as it is in the shadow tree now, in the format of the uverbs
// interface.
//
// Use it inside a Section only.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace verbena::preload {

// The layout of struct ib_uverbs_gid_entry.
struct UverbsGidEntry {
  std::array<std::uint8_t, 16> gid;
  std::uint32_t index;
  std::uint32_t port;
  std::uint32_t type;  // 0 InfiniBand, 1 RoCE v1, 2 RoCE v2
  std::uint32_t if_index;
};
static_assert(sizeof(UverbsGidEntry) == 32);

class ShadowGids {
 public:
  // Finds the device of /dev/infiniband/uverbs<number>.
  explicit ShadowGids(std::uint32_t uverbs_number);

  // Returns 0, ENODEV (the device is gone), EINVAL (no such port or index) or ENODATA (free slot).
  int read(std::uint32_t port, std::uint64_t index, UverbsGidEntry& entry) const;

 private:
  std::string ports_;  // .../infiniband/<name>/ports/; empty when the device is gone
};

}  // namespace verbena::preload
