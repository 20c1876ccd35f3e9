// SPDX-License-Identifier: BSD-2-Clause
#include "parts.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using control::fail;
using control::Outcome;

// `first`, then what `name` holds already, each part once, however it is separated there. What
// another installation of ours has put there goes: a program cannot have two of them.
std::string prepended(const std::string& first, const char* name) {
  constexpr std::string_view kSeparators = ": ;";  // the loader's, and those of libibverbs
  const fs::path ours = fs::path(first).filename();
  const char* const value = std::getenv(name);
  std::string_view left = value != nullptr ? value : "";
  std::string list = first;
  while (!left.empty()) {
    const std::string part(left.substr(0, left.find_first_of(kSeparators)));
    left.remove_prefix(std::min(part.size() + 1, left.size()));
    // A driver's bare name is of the one that libibverbs finds among its own.
    const bool is_ours = fs::path(part).filename() == ours || part == "verbena";
    if (!part.empty() && !is_ours) list += ":" + part;
  }
  return list;
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
  for (const char* dir : {VERBENA_LIBDIR, "lib", "lib64"}) {
    if (fs::exists(prefix / dir / "libverbena-preload.so", error)) {
      parts.lib_dir = (prefix / dir).string();
      break;
    }
  }
  return parts;
}

Environment bare_environment(const Parts& parts, const std::string& runtime_dir) {
  return {
      {"LD_PRELOAD", parts.preload()},
      {"RDMAV_DRIVERS", parts.driver()},
      {"VERBENA_RUNTIME_DIR", runtime_dir},
  };
}

// The loader splits LD_PRELOAD at colons and blanks, libibverbs RDMAV_DRIVERS at colons and
// semicolons, and neither knows quoting.
std::string wrong_place(const Parts& parts) {
  if (parts.lib_dir.find_first_of(": ;") == std::string::npos) return {};
  return "the path " + parts.lib_dir +
         " holds a blank, a colon or a semicolon, which LD_PRELOAD or RDMAV_DRIVERS cannot";
}

Outcome<Environment> device_environment(const Parts& parts, const std::string& runtime_dir) {
  if (::access(parts.preload().c_str(), R_OK) != 0) {
    const int code = errno;
    return fail(code, parts.preload() + ": " + std::strerror(code) +
                          "; install Verbena again, or see `verbena doctor`");
  }
  if (const std::string wrong = wrong_place(parts); !wrong.empty()) {
    return fail(EINVAL, wrong + "; install Verbena elsewhere");
  }
  Environment environment = bare_environment(parts, runtime_dir);
  for (auto& [name, value] : environment) {
    if (name != "VERBENA_RUNTIME_DIR") value = prepended(value, name.c_str());
  }
  return environment;
}

}  // namespace verbena::cli
