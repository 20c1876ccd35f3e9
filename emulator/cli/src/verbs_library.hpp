// SPDX-License-Identifier: BSD-2-Clause
// Which libibverbs this host has, and which provider layout it wants.
#pragma once

#include <string>

#include "verbena/control/error.hpp"

namespace verbena::cli {

struct VerbsLibrary {
  std::string path;     // where the file really is
  int private_abi = 0;  // the N of libverbena-rdmav<N>.so; 0: none that we know
};

// Loads the library into this process to look at it.
control::Outcome<VerbsLibrary> find_verbs_library();

}  // namespace verbena::cli
