// SPDX-License-Identifier: BSD-2-Clause
// Which of the kernel's files a path names, of those that Verbena stands in for. Pure: text in,
// text out, no file is touched.
//
//   /sys/class/infiniband                     a root; listed as a union of ours and foreign ones
//   /sys/class/infiniband/verbena0/ports/1    an entry: name "verbena0", rest "/ports/1"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::preload {

enum class Root : std::uint8_t { kNone, kInfiniBand, kVerbs, kMad, kMisc, kDev };

// "/sys/class/infiniband" and so on; the shadow tree has the same below its own top.
std::string_view directory_of(Root root);

// /sys/class/misc is full of foreign things: of it only entries are ours, never the listing.
constexpr bool has_union(Root root) { return root != Root::kNone && root != Root::kMisc; }

struct Place {
  Root root = Root::kNone;
  std::string_view name;  // empty: the root itself
  std::string_view rest;  // below the entry, with its leading slash; may be empty

  bool is_root() const { return root != Root::kNone && name.empty(); }
};

// The cheap question that every wrapped call asks first: can this path be about us at all?
bool may_concern(const char* path);

// An absolute path without `.`, `..`, doubled and trailing slashes. `..` goes back by text.
std::string normalise(std::string_view absolute);

// Points into `normalised`.
Place place_of(std::string_view normalised);

// Files that the daemon has to bring up to date before they are read.
bool is_counter(const Place& place);

}  // namespace verbena::preload
