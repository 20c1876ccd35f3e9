// SPDX-License-Identifier: BSD-2-Clause
#include "container_check.hpp"

#include <net/if.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {
namespace {

// Returns the name of the container engine; empty outside of a container.
std::string container_engine() {
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "Kubernetes";
  if (const char* name = std::getenv("container")) return name;
  if (::access("/run/.containerenv", F_OK) == 0) return "podman";
  if (::access("/.dockerenv", F_OK) == 0) return "Docker";
  return {};
}

// The id that a user has in the user namespace above this one, if it is mapped there. outer_user()
// returns nothing if the id is the same there.
struct OuterUser {
  bool is_mapped = false;
  std::uint64_t id = 0;
};
std::optional<OuterUser> outer_user(std::uint64_t user) {
  std::ifstream map("/proc/self/uid_map");
  if (!map.is_open()) return std::nullopt;
  std::uint64_t first = 0, outer = 0, count = 0;
  while (map >> first >> outer >> count) {
    if (user < first || user - first >= count) continue;
    if (outer == first) return std::nullopt;
    return OuterUser{true, outer + (user - first)};
  }
  return OuterUser{};
}

void check_user(Findings& findings) {
  const std::uint64_t user = ::geteuid();
  const auto outer = outer_user(user);
  if (!outer) return;
  const std::string who = "user id " + std::to_string(user);
  if (outer->is_mapped) {
    findings.ok("in a user namespace: " + who + " here is " + std::to_string(outer->id) +
                " outside");
  } else {
    findings.hint("in a user namespace that does not map you: you look like " + who,
                  "map your own user id, for example: unshare --map-root-user");
  }
}

void check_loopback(Findings& findings) {
  const control::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) {
    return findings.fault(std::string("a socket is refused: ") + std::strerror(errno),
                          "where descriptors are short, raise `ulimit -n`");
  }
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  const bool is_known = ::ioctl(fd.get(), SIOCGIFFLAGS, &request) == 0;
  if (is_known && (request.ifr_flags & IFF_UP) != 0) return;
  findings.fault(is_known ? "the loopback interface lo is down" : "there is no loopback interface",
                 "in this network namespace, as root: ip link set lo up");
}

void check_call(Findings& findings, const char* name, int result) {
  if (result >= 0) {
    ::close(result);
    return;
  }
  findings.fault(std::string(name) + " is refused: " + std::strerror(errno),
                 "where a seccomp filter forbids it: use the container engine's default profile");
}

}  // namespace

void check_container(Findings& findings) {
  const std::string engine = container_engine();
  if (!engine.empty()) findings.ok("in a container (" + engine + ")");
  check_user(findings);
  if (::access("/proc/self/exe", F_OK) != 0) {
    findings.fault("/proc is not mounted", "as root: mount -t proc proc /proc");
  }
  check_loopback(findings);
  check_call(findings, "memfd_create", ::memfd_create("verbena-doctor", MFD_CLOEXEC));
  check_call(findings, "eventfd", ::eventfd(0, EFD_CLOEXEC));
  check_call(findings, "timerfd_create", ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

std::string runtime_dir_remedy(const std::string& dir) {
  if (!dir.starts_with('/')) return "begin it with a slash, or unset it";
  struct stat st {};
  const bool is_anothers = ::lstat(dir.c_str(), &st) == 0 && st.st_uid != ::geteuid();
  if (is_anothers && (!container_engine().empty() || outer_user(::geteuid()))) {
    return "run the container as the user who started the emulator (podman run --user, --userns)";
  }
  return "then try again: verbena doctor";
}

}  // namespace verbena::cli
