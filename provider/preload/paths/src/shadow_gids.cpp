// SPDX-License-Identifier: BSD-2-Clause
#include "paths/shadow_gids.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include "paths/device_files.hpp"
#include "paths/discovery.hpp"
#include "real/real.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/preload/paths.hpp"

namespace verbena::preload {
namespace {

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// Returns the first line of a small file.
std::optional<std::string> read_line(const std::string& path) {
  const control::UniqueFd fd(beyond_streams(real::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  if (!fd) return std::nullopt;
  char text[256];
  const ssize_t n = ::read(fd.get(), text, sizeof text);
  if (n < 0) return std::nullopt;
  return first_line({text, static_cast<std::size_t>(n)});
}

}  // namespace

ShadowGids::ShadowGids(std::uint32_t uverbs_number) {
  const std::string shadow = shadow_directory();
  const std::string node = "uverbs" + std::to_string(uverbs_number);
  if (shadow.empty()) {
    node_ = node;
    return;
  }
  const std::string verbs = shadow + std::string(directory_of(Root::kVerbs));
  const auto name = read_line(verbs + "/" + node + "/ibdev");
  if (!name || name->empty()) return;
  device_ = shadow + std::string(directory_of(Root::kInfiniBand)) + "/" + *name;
}

std::optional<std::string> ShadowGids::line_of(const std::string& file) const {
  if (!device_.empty()) return read_line(device_ + "/" + file);
  const auto content = device_file(node_, file);
  if (!content) return std::nullopt;
  return first_line(*content);
}

int ShadowGids::read(std::uint32_t port, std::uint64_t index, UverbsGidEntry& entry) const {
  if (device_.empty() && node_.empty()) return ENODEV;
  const std::string base = "ports/" + std::to_string(port);
  const std::string at = std::to_string(index);
  const auto gid = line_of(base + "/gids/" + at);
  entry = {};
  if (!gid || ::inet_pton(AF_INET6, gid->c_str(), entry.gid.data()) != 1) return EINVAL;
  const bool is_free =
      std::all_of(entry.gid.begin(), entry.gid.end(), [](std::uint8_t byte) { return byte == 0; });
  if (is_free) return ENODATA;
  entry.index = static_cast<std::uint32_t>(index);
  entry.port = port;
  const auto type = line_of(base + "/gid_attrs/types/" + at);
  const auto layer = line_of(base + "/link_layer");
  if (type && *type == "RoCE v2") {
    entry.type = 2;
  } else {
    entry.type = layer && *layer == "Ethernet" ? 1 : 0;
  }
  if (const auto interface = line_of(base + "/gid_attrs/ndevs/" + at)) {
    entry.if_index = ::if_nametoindex(interface->c_str());
  }
  return 0;
}

}  // namespace verbena::preload
