// SPDX-License-Identifier: BSD-2-Clause
// Memory regions.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "verbena/abi/objects.hpp"

namespace verbena::provider {

class Context;
struct DeviceBytes;
struct Pd;

struct Mr {
  using Public = abi::PrivateMr;
  abi::PrivateMr mr{};
  Context* context = nullptr;
  Pd* domain = nullptr;
  std::uint32_t key = 0;
  std::uint64_t host_address = 0;
  std::uint64_t base = 0;    // the address by which its keys access it
  bool foreign = false;      // another process's memory, under a key of our own
  bool is_exported = false;  // another process has asked for it; under the exports' lock
  std::shared_ptr<DeviceBytes> device_memory;  // null for other memory
};

inline Mr& object_of(ibv_mr* mr) { return *reinterpret_cast<Mr*>(mr); }
inline Mr& object_of(abi::PrivateMr* mr) { return *reinterpret_cast<Mr*>(mr); }

}  // namespace verbena::provider
