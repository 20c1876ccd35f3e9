// SPDX-License-Identifier: BSD-2-Clause
// Tells which of the kernel's files, of those that Verbena stands in for, a path names. Pure: it
// maps text to text and touches no file.
//
//   /sys/class/infiniband                     a root; listed as a union of ours and foreign ones
//   /sys/class/infiniband/verbena0/ports/1    an entry: name "verbena0", rest "/ports/1"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::preload {

enum class Root : std::uint8_t { kNone, kInfiniBand, kVerbs, kMad, kMisc, kDev };

// Returns "/sys/class/infiniband" and so on. The shadow tree has the same paths below its top.
std::string_view directory_of(Root root);

// /sys/class/misc is full of foreign entries: we add entries to it but do not replace its listing.
constexpr bool has_union(Root root) { return root != Root::kNone && root != Root::kMisc; }

struct Place {
  Root root = Root::kNone;
  std::string_view name;  // empty: the root itself
  std::string_view rest;  // below the entry, with its leading slash; may be empty

  bool is_root() const { return root != Root::kNone && name.empty(); }
};

// Decides cheaply, for every wrapped call, whether the path can be ours at all.
bool may_concern(const char* path);

// Returns an absolute path without `.`, `..`, doubled and trailing slashes. `..` is resolved in the
// text, without a look at links.
std::string normalise(std::string_view absolute);

// The views in the result point into `normalised`.
Place place_of(std::string_view normalised);

// Returns whether the daemon must bring the file up to date before it is read.
bool is_counter(const Place& place);

}  // namespace verbena::preload
