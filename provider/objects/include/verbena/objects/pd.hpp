// SPDX-License-Identifier: BSD-2-Clause
// Protection domains, including parent domains and imported ones.
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
  Pd* parent = nullptr;      // a parent domain: the domain in it; an imported one: the original
  Td* thread = nullptr;      // a parent domain: its thread domain, if it has one
  bool imported = false;     // counts itself among its users, and is destroyed with the last
  std::uint32_t remote = 0;  // an imported one of another process: its number there

  // Removes a user. The last one destroys an imported domain.
  void release_user() noexcept;
};

inline Pd& object_of(ibv_pd* pd) { return *reinterpret_cast<Pd*>(pd); }

}  // namespace verbena::provider
