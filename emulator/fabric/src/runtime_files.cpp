// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/runtime_files.hpp"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "verbena/control/runtime_dir.hpp"

namespace verbena::fabric {

// Removes the locks last: a process that has one open sees that it is gone, and starts again.
void remove_runtime_files(const std::string& dir) {
  const std::string shadow = control::shadow_path(dir);
  std::error_code ignored;
  for (const std::string& path : {control::control_socket_path(dir), control::daemon_log_path(dir),
                                  control::older_daemon_log_path(dir), shadow, shadow + ".new",
                                  control::daemon_lock_path(dir), control::start_lock_path(dir)}) {
    std::filesystem::remove_all(path, ignored);
  }
  ::rmdir(dir.c_str());
}

}  // namespace verbena::fabric
