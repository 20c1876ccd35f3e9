// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/paths.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace verbena::preload {
namespace {

constexpr std::array<std::pair<Root, std::string_view>, 5> kRoots{{
    {Root::kInfiniBand, "/sys/class/infiniband"},
    {Root::kVerbs, "/sys/class/infiniband_verbs"},
    {Root::kMad, "/sys/class/infiniband_mad"},
    {Root::kMisc, "/sys/class/misc"},
    {Root::kDev, "/dev/infiniband"},
}};

}  // namespace

std::string_view directory_of(Root root) {
  for (const auto& [candidate, directory] : kRoots) {
    if (candidate == root) return directory;
  }
  return {};
}

bool may_concern(const char* path) {
  constexpr const char* kWords[] = {"infiniband", "rdma_cm", "uverbs"};
  return std::ranges::any_of(
      kWords, [path](const char* word) { return std::strstr(path, word) != nullptr; });
}

std::string normalise(std::string_view absolute) {
  std::string out;
  out.reserve(absolute.size());
  std::size_t at = 0;
  while (at < absolute.size()) {
    const std::size_t end = std::min(absolute.find('/', at), absolute.size());
    const std::string_view part = absolute.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      out.resize(out.empty() ? 0 : out.rfind('/'));
      continue;
    }
    out += '/';
    out += part;
  }
  if (out.empty()) out.push_back('/');
  return out;
}

Place place_of(std::string_view normalised) {
  for (const auto& [root, directory] : kRoots) {
    if (!normalised.starts_with(directory)) continue;
    std::string_view below = normalised.substr(directory.size());
    if (below.empty()) return {root, {}, {}};
    if (below.front() != '/') continue;
    below.remove_prefix(1);
    const std::size_t slash = std::min(below.find('/'), below.size());
    return {root, below.substr(0, slash), below.substr(slash)};
  }
  return {};
}

bool is_counter(const Place& place) {
  return place.root == Root::kInfiniBand &&
         (place.rest.find("/counters") != std::string_view::npos ||
          place.rest.find("/hw_counters") != std::string_view::npos);
}

}  // namespace verbena::preload
