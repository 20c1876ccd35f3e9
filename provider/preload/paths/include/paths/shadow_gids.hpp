// SPDX-License-Identifier: BSD-2-Clause
// The GID table of a device, as it is in the shadow tree now, in the format of the uverbs
// interface. Where the tree is out of reach, the plugin knows the table (device_files.hpp).
//
// Use it inside a Section only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
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
  // Returns the first line of a file such as "ports/1/gids/0".
  std::optional<std::string> line_of(const std::string& file) const;

  std::string device_;  // the device's directory in the tree, if the device has one
  std::string node_;    // uverbs192, if the tree is out of reach
};

}  // namespace verbena::preload
