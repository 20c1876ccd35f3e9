// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/connect.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "verbena/base/standard_streams.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace verbena::control {
namespace {

std::string own_comm() {
  char text[32] = {};
  const UniqueFd fd(beyond_streams(::open("/proc/self/comm", O_RDONLY | O_CLOEXEC)));
  if (!fd) return {};
  const ssize_t n = ::read(fd.get(), text, sizeof text - 1);
  std::string comm(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  while (!comm.empty() && comm.back() == '\n') comm.pop_back();
  return comm;
}

bool set_options(int fd, const ConnectOptions& options) {
  if (options.send_timeout_s != 0) {
    const timeval limit{options.send_timeout_s, 0};
    (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  if (options.own_name.empty()) return true;
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  if (options.own_name.size() + 1 > sizeof own.sun_path) return false;
  std::memcpy(own.sun_path + 1, options.own_name.data(), options.own_name.size());
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + options.own_name.size());
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&own), size) == 0;
}

}  // namespace

Outcome<Channel> connect_to_daemon(const std::string& dir, const ConnectOptions& options) {
  const Outcome<Done> checked = check_runtime_dir(dir);
  if (!checked) return Failure<Error>{checked.error()};
  const std::string path = control_socket_path(dir);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, "the path " + path + " is too long for a socket (" +
                                  std::to_string(sizeof address.sun_path - 1) +
                                  " bytes); set VERBENA_RUNTIME_DIR to a shorter one");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(beyond_streams(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
  if (!fd || !set_options(fd.get(), options)) {
    const int code = errno;
    return fail(code, std::string("cannot make a socket: ") + std::strerror(code));
  }
  int rc = 0;
  do {
    rc = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) {
    const int code = errno;
    if (code == ENOENT || code == ECONNREFUSED) {
      return fail(code, "no emulator is running; start one with: verbena up");
    }
    return fail(code, "cannot connect to " + path + ": " + std::strerror(code));
  }
  return Channel(std::move(fd));
}

Outcome<Welcome> say_hello(Channel& channel, ClientKind kind, int timeout_ms) {
  Hello hello;
  hello.kind = kind;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  hello.comm = own_comm();
  hello.version = VERBENA_VERSION;
  return channel.call<Welcome>(hello, timeout_ms);
}

std::uint64_t network_namespace() {
  struct stat there {};
  return ::stat("/proc/thread-self/ns/net", &there) == 0 ? there.st_ino : 0;
}

std::string abstract_name(int socket, End end) {
  sockaddr_un name{};
  socklen_t size = sizeof name;
  auto* const address = reinterpret_cast<sockaddr*>(&name);
  const int rc = end == End::kOwn ? ::getsockname(socket, address, &size)
                                  : ::getpeername(socket, address, &size);
  constexpr std::size_t kPathAt = offsetof(sockaddr_un, sun_path);
  if (rc != 0 || name.sun_family != AF_UNIX || size <= kPathAt + 1 || name.sun_path[0] != 0)
    return {};
  return {name.sun_path + 1, size - kPathAt - 1};
}

}  // namespace verbena::control
