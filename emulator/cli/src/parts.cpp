// SPDX-License-Identifier: BSD-2-Clause
#include "parts.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using control::fail;
using control::Outcome;

// `first`, then what `name` holds already, each part once.
std::string prepended(const std::string& first, const char* name) {
  const char* now = std::getenv(name);
  std::string list = first;
  std::string part;
  for (const char* c = now != nullptr ? now : "";; ++c) {
    if (*c != ':' && *c != '\0') {
      part += *c;
      continue;
    }
    if (!part.empty() && part != first) list += ":" + part;
    part.clear();
    if (*c == '\0') return list;
  }
}

}  // namespace

Outcome<Parts> find_parts() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail(error.value(), "cannot find my own place: " + error.message());
  Parts parts;
  parts.bin_dir = self.parent_path().string();
  const fs::path prefix = self.parent_path().parent_path();
  parts.lib_dir = (prefix / "lib").string();
  for (const char* dir : {"lib", "lib64"}) {
    if (fs::exists(prefix / dir / "libverbena-preload.so", error)) {
      parts.lib_dir = (prefix / dir).string();
      break;
    }
  }
  return parts;
}

Outcome<Environment> device_environment(const Parts& parts, const std::string& runtime_dir) {
  if (::access(parts.preload().c_str(), R_OK) != 0) {
    const int code = errno;
    return fail(code, parts.preload() + ": " + std::strerror(code) +
                          "; install Verbena again, or see `verbena doctor`");
  }
  // The loader splits LD_PRELOAD at colons and blanks and knows no quoting.
  if (parts.lib_dir.find_first_of(": ") != std::string::npos) {
    return fail(EINVAL, "the path " + parts.lib_dir +
                            " holds a blank or a colon, which LD_PRELOAD cannot; install Verbena "
                            "elsewhere");
  }
  return Environment{
      {"LD_PRELOAD", prepended(parts.preload(), "LD_PRELOAD")},
      {"RDMAV_DRIVERS", prepended(parts.driver(), "RDMAV_DRIVERS")},
      {"VERBENA_RUNTIME_DIR", runtime_dir},
  };
}

}  // namespace verbena::cli
