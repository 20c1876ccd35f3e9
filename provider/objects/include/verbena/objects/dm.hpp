// SPDX-License-Identifier: BSD-2-Clause
// Device memory.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "verbena/objects/users.hpp"

namespace verbena::provider {

// The memory itself, which lives as long as a handle or a region of it.
struct DeviceBytes {
  std::shared_ptr<std::byte[]> bytes;
  Users regions;
};

struct Dm {
  using Public = ibv_dm;
  ibv_dm dm{};
  std::shared_ptr<DeviceBytes> memory;  // shared with the handles that imported it
  std::uint64_t length = 0;

  std::byte* bytes() const { return memory->bytes.get(); }
};

inline Dm& object_of(ibv_dm* dm) { return *reinterpret_cast<Dm*>(dm); }

}  // namespace verbena::provider
