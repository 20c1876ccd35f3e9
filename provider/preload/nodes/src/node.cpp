// SPDX-License-Identifier: BSD-2-Clause
#include "nodes/node.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>

#include "real/fd_table.hpp"
#include "real/section.hpp"
#include "real/trace.hpp"
#include "verbena/control/device_info.hpp"

namespace verbena::preload {
namespace {

constexpr std::string_view kMark = "verbena-node/";

template <typename Number = std::uint32_t>
std::optional<Number> number_in(std::string_view digits, int base = 10) {
  Number number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::string mark_for(const std::string& name) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    random = reinterpret_cast<std::uintptr_t>(&random) ^ static_cast<std::uint64_t>(::getpid());
  }
  char tail[20];
  std::snprintf(tail, sizeof tail, "/%016llx", static_cast<unsigned long long>(random));
  return std::string(kMark) + name + tail;
}

// The two parts of a socket's own address that follow the mark.
struct OwnName {
  std::string_view name;
  std::string_view random;
};
OwnName parse_own_name(std::string_view own) {
  if (!own.starts_with(kMark)) return {};
  own.remove_prefix(kMark.size());
  const std::size_t slash = own.find('/');
  if (slash == std::string_view::npos) return {};
  return {own.substr(0, slash), own.substr(slash + 1)};
}

}  // namespace

std::optional<Node> node_of_name(std::string_view name) {
  for (const NodeClass* node_class : kNodeClasses) {
    if (!name.starts_with(node_class->prefix)) continue;
    const std::string_view tail = name.substr(node_class->prefix.size());
    if (!node_class->is_numbered) {
      if (tail.empty()) return Node{node_class};
      continue;
    }
    if (const auto number = number_in(tail)) return Node{node_class, *number};
  }
  return std::nullopt;
}

std::optional<Node> node_of_own_name(std::string_view own) {
  const OwnName parts = parse_own_name(own);
  std::optional<Node> node = node_of_name(parts.name);
  if (node) node->identity = number_in<std::uint64_t>(parts.random, 16).value_or(0);
  return node;
}

std::optional<Node> node_of_fd(int fd) {
  const Section section;
  sockaddr_un own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return std::nullopt;
  constexpr std::size_t kPathAt = offsetof(sockaddr_un, sun_path);
  if (own.sun_family != AF_UNIX || size <= kPathAt + 1 || own.sun_path[0] != 0) {
    return std::nullopt;
  }
  return node_of_own_name({own.sun_path + 1, size - kPathAt - 1});
}

void notice(int fd) {
  if (const auto node = node_of_fd(fd)) fd_table::mark(fd, fd_table::Kind::kNode, node->identity);
}

int open_node(const std::string& name, int flags) {
  Section section;
  const std::optional<Node> node = node_of_name(name);
  int fd = -1;
  std::uint64_t identity = 0;
  errno = ENXIO;
  try {
    const std::string own_name = mark_for(name);
    if (node) fd = node->node_class->open(name, own_name, flags);
    if (fd >= 0) identity = node_of_own_name(own_name)->identity;
  } catch (...) {
    errno = ENOMEM;
  }
  if (fd < 0) {
    VERBENA_TRACE("open of %s: errno %d", name.c_str(), errno);
    section.set_errno(errno);
    return -1;
  }
  fd_table::mark(fd, fd_table::Kind::kNode, identity);
  return fd;
}

bool any_class_awaits(const void* bytes, std::size_t size) {
  return std::ranges::any_of(
      kNodeClasses, [&](const NodeClass* node_class) { return node_class->awaits(bytes, size); });
}

std::optional<ssize_t> write_known(int fd, const void* bytes, std::size_t size) {
  for (const NodeClass* node_class : kNodeClasses) {
    if (node_class->write_known == nullptr) continue;
    if (const auto done = node_class->write_known(fd, bytes, size)) return done;
  }
  return std::nullopt;
}

dev_t device_number_of(std::string_view name) {
  if (const auto node = node_of_name(name)) {
    return node->node_class->device_number(node->number);
  }
  constexpr std::string_view kUmad = "umad";
  if (name.starts_with(kUmad)) {
    if (const auto number = number_in(name.substr(kUmad.size()))) {
      return ::makedev(control::kUmadMajor, *number);
    }
  }
  return ::makedev(10, 0);
}

}  // namespace verbena::preload
