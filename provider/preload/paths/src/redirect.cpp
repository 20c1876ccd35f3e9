// SPDX-License-Identifier: BSD-2-Clause
#include "paths/redirect.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "nodes/node.hpp"
#include "paths/discovery.hpp"
#include "paths/union_dir.hpp"
#include "real/real.hpp"
#include "real/section.hpp"
#include "real/trace.hpp"
#include "verbena/base/port_counters.hpp"

namespace verbena::preload {
namespace {

// Returns the absolute path of `dirfd`, or "" if it cannot be known.
std::string base_of(int dirfd) {
  char text[PATH_MAX];
  if (dirfd == AT_FDCWD) return ::getcwd(text, sizeof text) != nullptr ? text : "";
  const std::string link = "/proc/self/fd/" + std::to_string(dirfd);
  const ssize_t n = real::readlink(link.c_str(), static_cast<char*>(text), sizeof text);
  return n > 0 && text[0] == '/' ? std::string(text, static_cast<std::size_t>(n)) : "";
}

// Maps a path inside the shadow tree back to the path that it stands in for.
std::string undo_shadow(const std::string& absolute, const std::string& shadow) {
  if (absolute.starts_with(shadow + "/sys/") || absolute.starts_with(shadow + "/dev/")) {
    return absolute.substr(shadow.size());
  }
  return absolute;
}

bool exists(const std::string& path) {
  struct stat st {};
  return real::lstat(path.c_str(), &st) == 0;
}

bool is_ours(const Place& place, const std::string& shadow) {
  const std::string entry = std::string(directory_of(place.root)) + "/" + std::string(place.name);
  if (!exists(shadow + entry)) return false;
  const auto node = place.root == Root::kDev ? node_of_name(place.name) : std::nullopt;
  const bool yields = !node || !node->node_class->takes_over;
  if (yields && exists(real_directory(place.root) + "/" + std::string(place.name))) return false;
  // A node that this process has seen stays ours, even when the emulator is gone. Opening it fails
  // at once, while for a missing name libibverbs would wait five seconds.
  return is_emulator_alive() || (place.root == Root::kDev && has_listed_devices());
}

// Handles a path such as /dev/infiniband/.., which leads through a directory that may not exist.
Redirect find_behind(const std::string& path, std::string normalised) {
  if (place_of(path).root == Root::kNone || exists(path) || !is_emulator_alive()) return {};
  return {Redirect::Kind::kElsewhere, std::move(normalised), {}};
}

// The emulator's directory is out of reach. Says so if the path is a node's that the process has
// seen before.
void explain_lost_node(const char* path) {
  if (*path != '/' || !has_listed_devices()) return;
  const std::string absolute = normalise(path);
  const Place place = place_of(absolute);
  if (place.root == Root::kDev && node_of_name(place.name)) explain_unreachable(absolute);
}

Redirect find(int dirfd, const char* path, Purpose purpose) {
  const std::string shadow = shadow_directory();
  if (shadow.empty()) {
    explain_lost_node(path);
    return {};
  }
  std::string absolute = path;
  if (absolute.front() != '/') {
    const std::string base = base_of(dirfd);
    if (base.empty()) return {};
    absolute = base + "/" + absolute;
  }
  absolute = undo_shadow(normalise(absolute), shadow);
  const Place place = place_of(absolute);
  if (place.root == Root::kNone) return find_behind(path, std::move(absolute));
  if (place.is_root()) {
    if (!has_union(place.root) || !is_emulator_alive()) return {};
    std::string directory = union_directory(shadow, place.root);
    if (directory.empty()) return {};
    note_listed_devices();
    return {Redirect::Kind::kFile, std::move(directory), {}};
  }
  if (!is_ours(place, shadow)) return {};
  if (purpose == Purpose::kRead && is_counter(place)) refresh_counters(std::string(place.name));
  const bool is_node = place.root == Root::kDev && place.rest.empty();
  return {is_node ? Redirect::Kind::kNode : Redirect::Kind::kFile, shadow + absolute,
          std::string(place.name)};
}

// Returns whether a relative path looks like a counter's file. A program that has gone to a
// directory of counters opens it by such a path, and its content must be up to date.
bool names_a_counter(const char* path) {
  if (*path == '/') return false;
  const char* const slash = std::strrchr(path, '/');
  const std::string_view name = slash != nullptr ? slash + 1 : path;
  return name.starts_with("rx_drop_") || name == "port_xmit_data" || name == "port_rcv_data" ||
         std::find(kPortCounterNames.begin(), kPortCounterNames.end(), name) !=
             kPortCounterNames.end();
}

}  // namespace

bool concerns_us(const char* path) {
  return path != nullptr && *path != 0 && (may_concern(path) || names_a_counter(path)) &&
         !Section::is_inside();
}

Redirect redirect(int dirfd, const char* path, Purpose purpose) {
  const Section section;
  try {
    Redirect found = find(dirfd, path, purpose);
    if (!found.is_none()) VERBENA_TRACE("%s -> %s", path, found.path.c_str());
    return found;
  } catch (...) {
    return {};  // out of memory
  }
}

}  // namespace verbena::preload
