// SPDX-License-Identifier: BSD-2-Clause
// Advice to the kernel (Linux 5.14) that makes pages present at once. Older headers lack its names,
// and older kernels refuse it, which costs a fault for each page and nothing else.
#pragma once

#include <sys/mman.h>

namespace verbena::provider {

#ifdef MADV_POPULATE_READ
inline constexpr int kPopulateRead = MADV_POPULATE_READ;
inline constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
inline constexpr int kPopulateRead = 22;
inline constexpr int kPopulateWrite = 23;
#endif

}  // namespace verbena::provider
