// SPDX-License-Identifier: BSD-2-Clause
// Thread domains.
#pragma once

#include <infiniband/verbs.h>

#include "verbena/objects/users.hpp"

namespace verbena::provider {

struct Td {
  using Public = ibv_td;
  ibv_td td{};
  Users users;
};

inline Td& object_of(ibv_td* td) { return *reinterpret_cast<Td*>(td); }

}  // namespace verbena::provider
