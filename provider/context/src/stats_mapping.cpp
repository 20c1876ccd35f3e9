// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/stats_mapping.hpp"

#include <sys/mman.h>

namespace verbena::provider {

StatsMapping::~StatsMapping() {
  if (page_ != nullptr) ::munmap(page_, control::kStatsPageSize);
}

void StatsMapping::map(int fd) noexcept {
  void* page = ::mmap(nullptr, control::kStatsPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) page_ = static_cast<control::StatsPage*>(page);
}

}  // namespace verbena::provider
