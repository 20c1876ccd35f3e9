// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/stats_mapping.hpp"

#include <sys/mman.h>

namespace verbena::provider {

StatsMapping::~StatsMapping() {
  if (shared_ != nullptr) ::munmap(shared_, sizeof *shared_);
}

void StatsMapping::map(int fd) noexcept {
  void* at = ::mmap(nullptr, sizeof *shared_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) shared_ = static_cast<control::SharedStats*>(at);
}

}  // namespace verbena::provider
