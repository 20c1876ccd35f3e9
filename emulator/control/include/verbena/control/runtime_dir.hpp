// SPDX-License-Identifier: BSD-2-Clause
// Where a user's emulator lives: $VERBENA_RUNTIME_DIR, else $XDG_RUNTIME_DIR/verbena, else
// /tmp/verbena-<uid>. The directory must be a real directory, owned by this user, with mode 0700:
// below /tmp anybody could have made it first.
#pragma once

#include <string>

#include "verbena/control/error.hpp"

namespace verbena::control {

// The path only; nothing is touched.
std::string runtime_dir_path();

// Checks owner and mode. ENOENT when there is none, which is how "no emulator" looks.
Outcome<Done> check_runtime_dir(const std::string& dir);

// Makes it (0700) if it is not there, then checks it.
Outcome<Done> make_runtime_dir(const std::string& dir);

inline std::string control_socket_path(const std::string& dir) { return dir + "/control.sock"; }
inline std::string start_lock_path(const std::string& dir) { return dir + "/start.lock"; }
inline std::string daemon_lock_path(const std::string& dir) { return dir + "/daemon.lock"; }
inline std::string daemon_log_path(const std::string& dir) { return dir + "/daemon.log"; }
// What did not fit into it.
inline std::string older_daemon_log_path(const std::string& dir) { return dir + "/daemon.1.log"; }
// Stands in for /sys and /dev; class/infiniband and so on below `shadow/sys`.
inline std::string shadow_path(const std::string& dir) { return dir + "/shadow"; }

}  // namespace verbena::control
