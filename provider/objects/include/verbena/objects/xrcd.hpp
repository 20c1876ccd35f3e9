// SPDX-License-Identifier: BSD-2-Clause
// XRC domains.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "verbena/objects/users.hpp"

namespace verbena::provider {

struct Xrcd {
  using Public = ibv_xrcd;
  ibv_xrcd xrcd{};
  std::uint32_t number = 0;
  std::uint64_t inode = 0;  // of the file that names it; 0 if it has no name
  std::uint64_t device = 0;
  std::uint32_t opens = 1;
  Users users;
};

inline Xrcd& object_of(ibv_xrcd* xrcd) { return *reinterpret_cast<Xrcd*>(xrcd); }

}  // namespace verbena::provider
