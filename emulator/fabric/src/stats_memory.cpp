// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/stats_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace verbena::fabric {

control::Outcome<StatsMemory> StatsMemory::create(std::uint32_t slot) {
  const auto failed = [](const char* what) {
    const int code = errno;
    std::string text = std::string(what) + " for the counters of a context: " + std::strerror(code);
    if (code == EFBIG) text += "; raise `ulimit -f` before `verbena up`";
    return control::fail(code, std::move(text));
  };
  control::UniqueFd fd(::memfd_create("verbena-stats", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failed("cannot make a memory file");
  if (::ftruncate(fd.get(), sizeof(control::SharedStats)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed("cannot size a memory file");
  }
  control::MappedStats shared = control::map_stats(fd.get());
  if (!shared) return failed("cannot map a memory file");
  // Does not value-initialise, so that the journal's pages are allocated only as it fills.
  new (shared.get()) control::SharedStats;
  shared->page.slot = slot;
  return StatsMemory(std::move(fd), std::move(shared));
}

}  // namespace verbena::fabric
