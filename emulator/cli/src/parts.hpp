// SPDX-License-Identifier: BSD-2-Clause
// Finds the other parts of this installation. They are always beside this program, so that it works
// from any prefix and from a build tree.
//
//   <prefix>/bin/verbena, verbenad
//   <prefix>/lib/libverbena-preload.so, libverbena-rdmav<N>.so
//            or in the folder that CMAKE_INSTALL_LIBDIR named: packages have lib/verbena
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "verbena/control/error.hpp"

namespace verbena::cli {

struct Parts {
  std::string bin_dir;
  std::string lib_dir;

  std::string daemon() const { return bin_dir + "/verbenad"; }
  std::string preload() const { return lib_dir + "/libverbena-preload.so"; }
  // libibverbs appends "-rdmav<N>.so".
  std::string driver() const { return lib_dir + "/libverbena"; }
};

control::Outcome<Parts> find_parts();

// Returns the parts by paths that LD_PRELOAD and RDMAV_DRIVERS can hold. If their path has a blank,
// a colon or a semicolon, a link in the user's runtime directory leads to the libraries. The link
// stays, because shells may have it in their environment.
control::Outcome<Parts> nameable(const Parts& parts);

// The variables that a program needs to see the devices: names and values.
using Environment = std::vector<std::pair<std::string, std::string>>;
// Returns the variables for an environment that has nothing else in them.
Environment bare_environment(const Parts& parts, const std::string& runtime_dir);
// Returns the variables with our parts in front of what the present environment has in them.
control::Outcome<Environment> device_environment(const Parts& parts,
                                                 const std::string& runtime_dir);

}  // namespace verbena::cli
