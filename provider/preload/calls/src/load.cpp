// SPDX-License-Identifier: BSD-2-Clause
// Runs when the library is loaded. It looks up the real functions, which would otherwise be looked
// up at their first use (nothing depends on this; other libraries' constructors may run before),
// remembers the settings, and looks at the descriptors that the program inherited.
#include <dirent.h>
#include <fcntl.h>

#include <charconv>
#include <cstring>

#include "nodes/node.hpp"
#include "real/real.hpp"
#include "real/settings.hpp"
#include "verbena/base/standard_streams.hpp"

namespace verbena::preload {
namespace {

// Standard input, output and error are never nodes.
constexpr int kFirstOfInterest = 3;

void notice_inherited() {
  const int opened =
      beyond_streams(real::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const folder = ::fdopendir(opened);
  if (folder == nullptr) return;
  const int own = ::dirfd(folder);
  while (const dirent* entry = ::readdir(folder)) {
    int fd = -1;
    std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), fd);
    if (fd >= kFirstOfInterest && fd != own) notice(fd);
  }
  ::closedir(folder);
}

__attribute__((constructor)) void on_load() {
  look_up_all_real_functions();
  remember_settings();
  notice_inherited();
}

}  // namespace
}  // namespace verbena::preload
