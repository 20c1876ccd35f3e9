// SPDX-License-Identifier: BSD-2-Clause
// The numbers of objects, for `verbena status`. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::provider {

struct ObjectCounts {
  std::atomic<std::uint32_t> pds{0}, cqs{0}, qps{0}, mrs{0}, srqs{0};
};

}  // namespace verbena::provider
