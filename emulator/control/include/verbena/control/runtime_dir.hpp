// SPDX-License-Identifier: BSD-2-Clause
// The directory of a user's emulator: $VERBENA_RUNTIME_DIR, else $XDG_RUNTIME_DIR/verbena, else
// /tmp/verbena-<uid>. It must be a real directory with mode 0700 that this user owns, because
// another user could have made it first below /tmp.
#pragma once

#include <string>

#include "verbena/control/error.hpp"

namespace verbena::control {

// Returns the path only and touches nothing. `look_up` returns the value of an environment
// variable, or null.
std::string runtime_dir_path(const char* (*look_up)(const char* name));
// Looks into the environment, unless the program has more rights than its caller, which must not
// lead it to a directory.
std::string runtime_dir_path();

// Refuses a relative path. By such a path a program that changes its working directory would reach
// another emulator, or none.
Outcome<Done> check_is_absolute(const std::string& dir);

// Checks that the name is absolute, and owner and mode. ENOENT if there is no directory, which
// means that no emulator runs.
Outcome<Done> check_runtime_dir(const std::string& dir);

// Makes the directory (0700) if it does not exist, then checks it.
Outcome<Done> make_runtime_dir(const std::string& dir);

inline std::string control_socket_path(const std::string& dir) { return dir + "/control.sock"; }
inline std::string start_lock_path(const std::string& dir) { return dir + "/start.lock"; }
inline std::string daemon_lock_path(const std::string& dir) { return dir + "/daemon.lock"; }
inline std::string daemon_log_path(const std::string& dir) { return dir + "/daemon.log"; }
// The older part of the log, which did not fit into daemon.log.
inline std::string older_daemon_log_path(const std::string& dir) { return dir + "/daemon.1.log"; }
// The directory that stands in for /sys and /dev; class/infiniband and so on are below
// `shadow/sys`.
inline std::string shadow_path(const std::string& dir) { return dir + "/shadow"; }

}  // namespace verbena::control
