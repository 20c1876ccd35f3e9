// SPDX-License-Identifier: BSD-2-Clause
// Converts between the verbs' address vectors and the engine's paths.
#pragma once

#include <infiniband/verbs.h>

#include <cstring>

#include "verbena/base/address_plan.hpp"
#include "verbena/qp/attributes.hpp"

namespace verbena::provider {

inline Gid gid_of(const ibv_gid& gid) {
  Gid out;
  std::memcpy(out.bytes.data(), gid.raw, out.bytes.size());
  return out;
}

// Returns where an address vector leads by the fabric's plan. `resolved` says whether it leads
// anywhere.
qp::PathAttributes path_of(const ibv_ah_attr& ah, const AddressPlan& plan);
ibv_ah_attr ah_attr_of(const qp::PathAttributes& path);

}  // namespace verbena::provider
