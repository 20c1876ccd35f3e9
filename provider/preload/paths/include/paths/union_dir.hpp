// SPDX-License-Identifier: BSD-2-Clause
// What the listing of a class directory shows: our entries beside the foreign ones.
//
// Without foreign entries that is the shadow directory itself. With some it is a directory of
// links, made once per content: it is built aside and renamed to a name that is a hash of what it
// links to, so processes that race make the same thing, and its modification time never changes
// (libibverbs takes a new time for a new device). Foreign links lead to the real files.
//
// Called inside a Section only.
#pragma once

#include <string>

#include "verbena/preload/paths.hpp"

namespace verbena::preload {

// Where a root's foreign entries are. Tests put a tree of their own before it
// ($VERBENA_PRELOAD_REAL_ROOT/sys/class/infiniband).
std::string real_directory(Root root);

// The directory to list in place of `root`; empty: the real one.
std::string union_directory(const std::string& shadow, Root root);

}  // namespace verbena::preload
