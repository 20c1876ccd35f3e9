// SPDX-License-Identifier: BSD-2-Clause
// Protection domains, also parent domains and imported ones.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "verbena/memory/registry.hpp"
#include "verbena/objects/users.hpp"

namespace verbena::provider {

struct Td;

struct Pd {
  using Public = ibv_pd;
  ibv_pd pd{};
  memory::DomainId domain = 0;
  Users users;
  Pd* parent = nullptr;      // of a parent domain: the domain in it; imported: the original
  Td* thread = nullptr;      // of a parent domain, if it has one
  bool imported = false;     // counts itself among its users, and goes with the last of them
  std::uint32_t remote = 0;  // imported from another process: its number there

  // One user less; with the last an imported one goes.
  void release_user() noexcept;
};

inline Pd& object_of(ibv_pd* pd) { return *reinterpret_cast<Pd*>(pd); }

}  // namespace verbena::provider
