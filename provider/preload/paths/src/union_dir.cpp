// SPDX-License-Identifier: BSD-2-Clause
#include "paths/union_dir.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "real/real.hpp"
#include "real/settings.hpp"
#include "real/trace.hpp"
#include "verbena/base/standard_streams.hpp"

namespace verbena::preload {
namespace {

// Returns the names in a directory, sorted, without `.` and `..`.
std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  DIR* dir = ::fdopendir(
      beyond_streams(real::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (dir == nullptr) return names;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

struct Link {
  std::string name;
  std::string target;
};

// A foreign entry wins over one of ours with the same name: we never hide a real device.
std::vector<Link> links_of(const std::string& ours, const std::string& foreign) {
  std::vector<Link> links;
  const std::vector<std::string> foreign_names = names_in(foreign);
  const std::vector<std::string> own_names = names_in(ours);
  links.reserve(foreign_names.size() + own_names.size());
  const auto add = [&](const std::string& name, std::string target) {
    target += '/';
    links.push_back({name, target += name});
  };
  for (const std::string& name : foreign_names) add(name, foreign);
  for (const std::string& name : own_names) {
    if (!std::binary_search(foreign_names.begin(), foreign_names.end(), name)) add(name, ours);
  }
  return links;
}

// FNV-1a.
std::uint64_t hash_of(const std::vector<Link>& links) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](const std::string& text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ 0xffu) * 0x100000001b3u;
  };
  for (const Link& link : links) {
    mix(link.name);
    mix(link.target);
  }
  return hash;
}

void remove_links(const std::string& directory, const std::vector<Link>& links) {
  for (const Link& link : links) (void)::unlink((directory + "/" + link.name).c_str());
  (void)::rmdir(directory.c_str());
}

bool fill(const std::string& directory, const std::vector<Link>& links) {
  for (const Link& link : links) {
    if (::symlink(link.target.c_str(), (directory + "/" + link.name).c_str()) != 0) return false;
  }
  const timespec fixed[2] = {{1, 0}, {1, 0}};
  return ::utimensat(AT_FDCWD, directory.c_str(), fixed, 0) == 0;
}

bool build(const std::string& parent, const std::string& final_path,
           const std::vector<Link>& links) {
  (void)::mkdir(parent.c_str(), 0700);
  std::string aside = parent + "/new-XXXXXX";
  if (::mkdtemp(aside.data()) == nullptr) return false;
  if (fill(aside, links) && ::rename(aside.c_str(), final_path.c_str()) == 0) return true;
  // Another process has made it (a directory that is not empty is not replaced), or the disk is
  // full.
  const bool is_there = errno == ENOTEMPTY || errno == EEXIST;
  remove_links(aside, links);
  return is_there;
}

}  // namespace

std::string real_directory(Root root) {
  const char* prefix = setting("VERBENA_PRELOAD_REAL_ROOT");
  return std::string(prefix != nullptr ? prefix : "") + std::string(directory_of(root));
}

std::string union_directory(const std::string& shadow, Root root) {
  std::string ours = shadow + std::string(directory_of(root));
  const std::string foreign = real_directory(root);
  if (names_in(ours).empty()) return {};
  const std::vector<std::string> foreign_names = names_in(foreign);
  // A lone abi_version belongs to a class without devices. Our directory has the same abi_version.
  const bool is_alone = std::all_of(foreign_names.begin(), foreign_names.end(),
                                    [](const std::string& name) { return name == "abi_version"; });
  if (is_alone) return ours;
  const std::vector<Link> links = links_of(ours, foreign);
  char name[20];
  std::snprintf(name, sizeof name, "/%016llx", static_cast<unsigned long long>(hash_of(links)));
  const std::string parent = shadow + "/union";
  std::string path = parent + name;
  struct stat st {};
  if (real::lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return path;
  if (build(parent, path, links)) return path;
  VERBENA_TRACE("cannot make %s; only foreign devices are listed", path.c_str());
  return {};
}

}  // namespace verbena::preload
