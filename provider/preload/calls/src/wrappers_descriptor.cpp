// SPDX-License-Identifier: BSD-2-Clause
// Wraps calls on descriptors: what is written to a node, and where a node's duplicates go. close is
// not wrapped: fd_table.hpp notices that a number was closed when it is next asked about.
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <ctime>
#include <optional>

#include "calls/await_message.h"
#include "calls/channel_reads.hpp"
#include "netlink/netlink.hpp"
#include "nodes/node.hpp"
#include "real/export.hpp"
#include "real/fd_table.hpp"
#include "real/real.hpp"
#include "real/section.hpp"

namespace verbena::preload {
namespace {

constexpr unsigned kRdmaIoctlMagic = 0x1b;

// Runs `call` as our own work. If it fails, the caller sees its errno.
template <typename Call>
auto in_section(Call call) {
  Section section;
  decltype(call()) result = -1;
  try {
    result = call();
    if (result < 0) section.set_errno(errno);
  } catch (...) {
    section.set_errno(ENOMEM);
  }
  return result;
}

std::optional<Node> checked_node(int fd) {
  if (fd_table::noted(fd) != fd_table::Kind::kNode || Section::is_inside()) return std::nullopt;
  const auto node = node_of_fd(fd);
  if (!node) fd_table::mark(fd, fd_table::Kind::kNone);
  return node;
}

// Returns whether the kernel answers this request for every file, whatever its driver is.
bool is_for_every_file(unsigned long request) {
  return request == FIONBIO || request == FIOCLEX || request == FIONCLEX;
}

// Asks the kernel about every descriptor, since RDMA requests are rare and a node may have come by
// execve.
std::optional<Node> node_for_ioctl(int fd, unsigned long request) {
  if (is_for_every_file(request)) return std::nullopt;
  if (((request >> 8) & 0xff) == kRdmaIoctlMagic && !Section::is_inside()) return node_of_fd(fd);
  return checked_node(fd);
}

ssize_t receive(int fd, void* bytes, size_t size, int flags) {
  return real::recv(fd, bytes, size, flags);
}

// Writes, and sleeps until a message comes; a signal or O_NONBLOCK ends the wait with an errno. It
// holds the node by a descriptor of its own, as a sleeping system call does: a thread that closes
// the node meanwhile neither wakes it nor makes it fail. The message can be gone by the time it is
// fetched; then the next one is awaited.
//
// The thread may be cancelled in the wait, so nothing in this frame may need to be cleaned up.
ssize_t write_awaiting(int fd, const Node& node, const void* bytes, size_t size) {
  int own = real::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int held = own >= 0 ? own : fd;
  ssize_t done = -1;
  do {
    done = verbena_await_message(held, &own, receive);
    if (done < 0) break;
    done = in_section([&] { return node.node_class->write(held, node, bytes, size); });
  } while (done < 0 && errno == EAGAIN);
  const int code = errno;
  if (own >= 0) ::close(own);
  errno = code;
  return done;
}

// Delays the EBADF of a call that came too late. A program that ends, such as rping, closes its
// event channel while one of its threads is between two events. On hardware that thread almost
// always sleeps in the kernel by then; here the way to the sleep is longer. The process ends during
// the delay, before the thread could report an error. The delay may be cancelled, so nothing in
// this frame may need to be cleaned up.
ssize_t late(ssize_t done) {
  constexpr timespec kWhile{1, 0};
  if (done >= 0 || errno != EBADF) return done;
  ::nanosleep(&kWhile, nullptr);
  errno = EBADF;
  return done;
}

// Delays the EIO of a channel whose emulator is gone. Such a channel stays readable, so that
// whoever waits learns of the end. A thread that ignores the error, such as those of rsockets, asks
// again and again, and would never rest. The delay may be cancelled, as above.
ssize_t rested(ssize_t done) {
  constexpr timespec kRest{0, 20'000'000};
  if (done >= 0 || errno != EIO) return done;
  ::nanosleep(&kRest, nullptr);
  errno = EIO;
  return done;
}

std::optional<ssize_t> known(int fd, const void* bytes, size_t size) {
  Section section;
  try {
    const auto done = write_known(fd, bytes, size);
    if (done && *done < 0) section.set_errno(errno);
    return done;
  } catch (...) {
    return std::nullopt;
  }
}

ssize_t write_node(int fd, const Node& node, const void* bytes, size_t size) {
  const bool may_sleep = node.node_class->awaits(bytes, size);
  const ssize_t done = in_section([&] { return node.node_class->write(fd, node, bytes, size); });
  if (!may_sleep) return done;
  const bool must_sleep = done < 0 && errno == EAGAIN;
  return rested(late(must_sleep ? write_awaiting(fd, node, bytes, size) : done));
}

int noting_duplicate(int from, int to) {
  if (to >= 0) fd_table::copy(from, to);
  return to;
}

bool makes_duplicate(int command) { return command == F_DUPFD || command == F_DUPFD_CLOEXEC; }

}  // namespace
}  // namespace verbena::preload

using namespace verbena::preload;

VERBENA_EXPORT VERBENA_NOTHING_TO_CLEAN_UP ssize_t read(int fd, void* bytes, size_t size) {
  const fd_table::Kind kind = fd_table::noted(fd);
  if (kind == fd_table::Kind::kNone || Section::is_inside()) [[likely]]
    return real::read(fd, bytes, size);
  if (kind == fd_table::Kind::kChannel) return channel_reads::read(fd, bytes, size);
  if (!checked_node(fd)) return real::read(fd, bytes, size);
  errno = EINVAL;  // such a device has nothing to read, and the bytes in our socket are for us
  return -1;
}

VERBENA_EXPORT ssize_t write(int fd, const void* bytes, size_t size) {
  const fd_table::Kind kind = fd_table::noted(fd);
  if (kind == fd_table::Kind::kNone || Section::is_inside()) [[likely]]
    return real::write(fd, bytes, size);
  if (kind == fd_table::Kind::kNode) {
    ::pthread_testcancel();
    if (const auto done = known(fd, bytes, size)) return *done;
  }
  if (const auto node = checked_node(fd)) return write_node(fd, *node, bytes, size);
  if (const auto sent = netlink::send(fd, bytes, size)) return *sent;
  const ssize_t done = real::write(fd, bytes, size);
  return kind == fd_table::Kind::kNode && any_class_awaits(bytes, size) ? late(done) : done;
}

VERBENA_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (const auto node = node_for_ioctl(fd, request)) {
    return in_section([&] { return node->node_class->ioctl(fd, *node, request, argument); });
  }
  return real::ioctl(fd, request, argument);
}

VERBENA_EXPORT int dup(int fd) noexcept { return noting_duplicate(fd, real::dup(fd)); }

VERBENA_EXPORT int dup2(int fd, int to) noexcept {
  return noting_duplicate(fd, real::dup2(fd, to));
}

VERBENA_EXPORT int dup3(int fd, int to, int flags) noexcept {
  return noting_duplicate(fd, real::dup3(fd, to, flags));
}

VERBENA_EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const int rc = real::fcntl(fd, command, argument);
  return makes_duplicate(command) ? noting_duplicate(fd, rc) : rc;
}

// Locks have the same form by both names.
static_assert(sizeof(struct flock) == sizeof(struct flock64));
VERBENA_EXPORT int fcntl64(int fd, int command, ...) VERBENA_ALIAS_OF(fcntl);
