// SPDX-License-Identifier: BSD-2-Clause
#include "parts.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>

#include "private_dirs.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using control::fail;
using control::Outcome;

constexpr char kSeparators[] = ": ;";  // separators of the loader and of libibverbs

// Returns `first` and then the parts that `name` holds already, however they are separated there.
// Leaves out parts of another Verbena installation: a program cannot have two.
std::string prepended(const std::string& first, const char* name) {
  const fs::path ours = fs::path(first).filename();
  const char* const value = std::getenv(name);
  std::string_view left = value != nullptr ? value : "";
  std::string list = first;
  while (!left.empty()) {
    const std::string part(left.substr(0, left.find_first_of(kSeparators)));
    left.remove_prefix(std::min(part.size() + 1, left.size()));
    // The bare name of our driver means the one that libibverbs finds in its own folder.
    const bool is_ours = fs::path(part).filename() == ours || part == "verbena";
    if (!part.empty() && !is_ours) list += ":" + part;
  }
  return list;
}

// Returns true if the variables can hold the path. The loader splits LD_PRELOAD at colons and
// blanks, libibverbs RDMAV_DRIVERS at colons and semicolons, and neither knows quoting.
bool is_nameable(const std::string& path) { return path.find_first_of(kSeparators) == path.npos; }

// Makes the link under another name and renames it, because several processes may do so at once.
bool make_link(const std::string& target, const std::string& link) {
  std::error_code error;
  if (fs::read_symlink(link, error) == target) return true;
  const std::string part = link + ".part." + std::to_string(::getpid());
  if (::symlink(target.c_str(), part.c_str()) != 0) return false;
  return ::rename(part.c_str(), link.c_str()) == 0;
}

}  // namespace

Outcome<Parts> find_parts() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error)
    return fail(error.value(),
                "cannot find out where verbena is installed: /proc/self/exe: " + error.message());
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

Outcome<Parts> nameable(const Parts& parts) {
  if (is_nameable(parts.lib_dir)) return parts;
  const std::string common = common_dir();
  if (!is_nameable(common)) {
    return fail(EINVAL, "the path " + parts.lib_dir + " and the runtime directory " + common +
                            " hold a blank, a colon or a semicolon, which LD_PRELOAD or "
                            "RDMAV_DRIVERS cannot");
  }
  const auto made = control::make_runtime_dir(common);
  if (!made) return Failure<control::Error>{made.error()};
  Parts linked = parts;
  linked.lib_dir = common + "/lib-" + std::to_string(std::hash<std::string>{}(parts.lib_dir));
  if (!make_link(parts.lib_dir, linked.lib_dir)) {
    const int code = errno;
    return fail(code, "cannot make the link " + linked.lib_dir + ": " + std::strerror(code));
  }
  return linked;
}

Outcome<Environment> device_environment(const Parts& parts, const std::string& runtime_dir) {
  const auto checked = control::check_is_absolute(runtime_dir);
  if (!checked) return Failure<control::Error>{checked.error()};
  if (::access(parts.preload().c_str(), R_OK) != 0) {
    const int code = errno;
    return fail(code, parts.preload() + ": " + std::strerror(code) +
                          "; install Verbena again, or see `verbena doctor`");
  }
  const auto named = nameable(parts);
  if (!named) return fail(named.error().code, named.error().text + "; install Verbena elsewhere");
  Environment environment = bare_environment(*named, runtime_dir);
  for (auto& [name, value] : environment) {
    if (name != "VERBENA_RUNTIME_DIR") value = prepended(value, name.c_str());
  }
  return environment;
}

}  // namespace verbena::cli
