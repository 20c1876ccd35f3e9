// SPDX-License-Identifier: BSD-2-Clause
// Makes the listing of a class directory: our entries beside the foreign ones.
//
// Without foreign entries, the listing is the shadow directory itself. With foreign entries, it is
// a directory of links, made once per content. It is built aside and renamed to a hash of its
// links. Processes that race make the same directory, and its modification time never changes
// (libibverbs takes a new time for a new device). Foreign links lead to the real files.
//
// Call these functions inside a Section only.
#pragma once

#include <string>

#include "verbena/preload/paths.hpp"

namespace verbena::preload {

// Returns where a root's foreign entries are. Tests put a tree of their own in front of it
// ($VERBENA_PRELOAD_REAL_ROOT/sys/class/infiniband).
std::string real_directory(Root root);

// Returns the directory to list in place of `root`, or "" for the real one.
std::string union_directory(const std::string& shadow, Root root);

}  // namespace verbena::preload
