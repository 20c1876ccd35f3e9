// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/runtime_dir.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace verbena::control {

std::string runtime_dir_path(const char* (*look_up)(const char* name)) {
  const char* const own = look_up("VERBENA_RUNTIME_DIR");
  if (own != nullptr && *own != '\0') return own;
  const char* const common = look_up("XDG_RUNTIME_DIR");
  if (common != nullptr && *common == '/') return std::string(common) + "/verbena";
  return "/tmp/verbena-" + std::to_string(::geteuid());
}

std::string runtime_dir_path() {
  return runtime_dir_path([](const char* name) -> const char* { return ::secure_getenv(name); });
}

Outcome<Done> check_is_absolute(const std::string& dir) {
  if (dir.starts_with('/')) return Done{};
  return fail(EINVAL, "VERBENA_RUNTIME_DIR=" + dir + " is no absolute path");
}

Outcome<Done> check_runtime_dir(const std::string& dir) {
  if (auto checked = check_is_absolute(dir); !checked) return checked;
  struct stat st {};
  if (::lstat(dir.c_str(), &st) != 0) {
    const int code = errno;
    return fail(code, "runtime directory " + dir + ": " + std::strerror(code));
  }
  if (!S_ISDIR(st.st_mode)) {
    return fail(ENOTDIR, "runtime directory " + dir +
                             " is not a directory; remove it or set VERBENA_RUNTIME_DIR");
  }
  if (st.st_uid != ::geteuid()) {
    return fail(EACCES, "runtime directory " + dir + " belongs to user id " +
                            std::to_string(st.st_uid) + ", not to you (" +
                            std::to_string(::geteuid()) +
                            "); set VERBENA_RUNTIME_DIR to a directory of your own");
  }
  if ((st.st_mode & 077) != 0) {
    return fail(EACCES,
                "runtime directory " + dir + " is open to other users; run: chmod 700 " + dir);
  }
  return Done{};
}

Outcome<Done> make_runtime_dir(const std::string& dir) {
  if (auto checked = check_is_absolute(dir); !checked) return checked;
  if (::mkdir(dir.c_str(), 0700) == 0) {
    // The umask may have removed bits that are needed.
    (void)::chmod(dir.c_str(), 0700);
  } else if (errno != EEXIST) {
    const int code = errno;
    return fail(code, "cannot make the runtime directory " + dir + ": " + std::strerror(code) +
                          "; set VERBENA_RUNTIME_DIR to a directory that you may write");
  }
  return check_runtime_dir(dir);
}

}  // namespace verbena::control
