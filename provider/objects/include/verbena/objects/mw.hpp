// SPDX-License-Identifier: BSD-2-Clause
// Memory windows.
#pragma once

#include <infiniband/verbs.h>

namespace verbena::provider {

struct Pd;

struct Mw {
  using Public = ibv_mw;
  ibv_mw mw{};
  Pd* domain = nullptr;
};

inline Mw& object_of(ibv_mw* mw) { return *reinterpret_cast<Mw*>(mw); }

}  // namespace verbena::provider
