// SPDX-License-Identifier: BSD-2-Clause
// Address handles.
#pragma once

#include <infiniband/verbs.h>

#include "verbena/queue/work.hpp"

namespace verbena::provider {

struct Pd;

struct Ah {
  using Public = ibv_ah;
  ibv_ah ah{};
  Pd* domain = nullptr;
  queue::AddressVector vector;
};

inline Ah& object_of(ibv_ah* ah) { return *reinterpret_cast<Ah*>(ah); }

}  // namespace verbena::provider
