// SPDX-License-Identifier: BSD-2-Clause
// Maps the path that a program asks for to the file that stands in for it.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/preload/paths.hpp"

namespace verbena::preload {

enum class Purpose : std::uint8_t { kLook, kRead };

struct Redirect {
  enum class Kind : std::uint8_t {
    kNone,       // not ours: the call is passed on unchanged
    kFile,       // the same call on `path`
    kElsewhere,  // the same call on `path`, a file that is not ours
    kNode,       // a character device: `path` stands in for its inode, `name` says which
  };
  Kind kind = Kind::kNone;
  std::string path;
  std::string name;

  bool is_none() const { return kind == Kind::kNone; }
  bool is_node() const { return kind == Kind::kNode; }
};

// Returns whether `path`, which may be null, is worth a call of redirect().
bool concerns_us(const char* path);

// `dirfd` is as in openat. kRead says that the content is wanted, so counters are refreshed. Keeps
// errno.
Redirect redirect(int dirfd, const char* path, Purpose purpose = Purpose::kLook);

}  // namespace verbena::preload
