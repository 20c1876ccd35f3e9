// SPDX-License-Identifier: BSD-2-Clause
#include "uverbs/uverbs.hpp"

#include <fcntl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "paths/discovery.hpp"
#include "paths/shadow_gids.hpp"
#include "real/fd_table.hpp"
#include "real/real.hpp"
#include "real/trace.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/control/device_info.hpp"
#include "verbena/preload/uverbs_request.hpp"

namespace verbena::preload {
namespace {

using control::UniqueFd;

dev_t device_number(std::uint32_t number) {
  return ::makedev(control::kUverbsMajor, control::kUverbsMinorBase + number);
}

// Returns a socket whose other end is closed. libibverbs sees a device that opens and then refuses,
// and gives up at once. For a device that vanished it would wait five seconds.
UniqueFd dead_connection() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 || !beyond_streams(pair)) {
    return {};
  }
  ::close(pair[1]);
  return UniqueFd(pair[0]);
}

int open_uverbs(const std::string&, const std::string& own_name, int flags) {
  UniqueFd fd = connect_to_emulator(own_name);
  if (!fd) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) return -1;
    fd = dead_connection();
    if (!fd) return -1;
  }
  const timeval no_limit{0, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &no_limit, sizeof no_limit);
  if ((flags & O_CLOEXEC) == 0) (void)real::fcntl(fd.get(), F_SETFD, 0);
  if ((flags & O_NONBLOCK) != 0) (void)real::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd.release();
}

// Makes a datagram socket that is connected to itself. It stands in for a pipe where /proc is out
// of reach, because the program has called chroot() (the plugin's pipe_end.hpp). A socket that is
// connected takes nothing from others; what came before is dropped.
int make_event_socket() {
  UniqueFd fd(beyond_streams(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  socklen_t size = sizeof own;
  // A bind without a path has the kernel choose an abstract address.
  if (!fd || ::bind(fd.get(), address, sizeof own.sun_family) != 0 ||
      ::getsockname(fd.get(), address, &size) != 0 || ::connect(fd.get(), address, size) != 0) {
    return -1;
  }
  std::array<char, 16> dropped;
  while (::recv(fd.get(), dropped.data(), dropped.size(), MSG_DONTWAIT) >= 0) {
  }
  return fd.release();
}

// Makes a pipe with both ends in one descriptor. It is readable like the kernel's event files. A
// writer opens an end of its own through /proc/self/fd, so the reader's O_NONBLOCK affects only the
// reader. The flags mark the descriptor as such a pipe (fd_table.hpp).
int make_event_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0 || !beyond_streams(ends)) return -1;
  // The pipe belongs to the user that the process has now. After setuid() the process still opens
  // it anew. Others have no name for it: /proc hides it from them.
  (void)::fchmod(ends[0], 0666);
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
  constexpr int kFlags = O_RDWR | O_CLOEXEC;
  int fd = real::open(static_cast<const char*>(path), kFlags | fd_table::kSealFlags);
  if (fd < 0) fd = real::open(static_cast<const char*>(path), kFlags);
  fd = beyond_streams(fd);
  const int code = errno;
  ::close(ends[0]);
  ::close(ends[1]);
  if (fd < 0 && (code == ENOENT || code == EACCES)) return make_event_socket();
  errno = code;
  return fd;
}

template <typename T>
T* pointer_to(std::uint64_t address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

// Carries out requests. Each call returns 0 or an errno. `attributes` is null for write().
class Executor {
 public:
  Executor(std::uint32_t number, ib_uverbs_attr* attributes)
      : number_(number), attributes_(attributes) {}

  int operator()(const RefusedRequest& refused) const { return refused.code; }
  int operator()(const AreYouThere&) const { return 0; }

  int operator()(const CreateCompChannel& request) const {
    if (request.response == 0) return EFAULT;
    const int fd = make_event_pipe();
    if (fd < 0) return errno;
    VERBENA_TRACE("uverbs%u: completion channel is descriptor %d", number_, fd);
    const auto number = static_cast<std::uint32_t>(fd);
    std::memcpy(pointer_to<void>(request.response), &number, sizeof number);
    if (attributes_ != nullptr) note_output_by_address(request.response);
    return 0;
  }

  int operator()(const AllocateAsyncEvents& request) const {
    if (attributes_ == nullptr) return EINVAL;
    const int fd = make_event_pipe();
    if (fd < 0) return errno;
    VERBENA_TRACE("uverbs%u: event channel is descriptor %d", number_, fd);
    attributes_[request.attribute].data_s64 = fd;
    note_output(request.attribute);
    return 0;
  }

  int operator()(const QueryGidEntry& request) const {
    if (request.flags != 0) return EINVAL;
    if (request.response == 0) return EFAULT;
    UverbsGidEntry entry{};
    const int code = ShadowGids(number_).read(request.port, request.index, entry);
    if (code != 0) return code;
    std::memcpy(pointer_to<void>(request.response), &entry, sizeof entry);
    note_output(request.response_attribute);
    return 0;
  }

  int operator()(const QueryGidTable& request) const {
    if (request.flags != 0) return EINVAL;
    if (request.count == 0 || (request.entries == 0 && request.max_entries != 0)) return EFAULT;
    const ShadowGids gids(number_);
    auto* out = pointer_to<std::uint8_t>(request.entries);
    std::uint64_t count = 0;
    for (std::uint64_t index = 0;; ++index) {
      UverbsGidEntry entry{};
      const int code = gids.read(control::kPortNumber, index, entry);
      if (code == ENODATA) continue;
      if (code == EINVAL) break;  // the end of the table
      if (code != 0) return code;
      if (count == request.max_entries) return EINVAL;
      write_entry({out + count * request.entry_size, request.entry_size}, entry);
      ++count;
    }
    std::memcpy(pointer_to<void>(request.count), &count, sizeof count);
    note_output(request.entries_attribute);
    note_output(request.count_attribute);
    return 0;
  }

 private:
  // Fills one entry of the caller, which may be of an older or a newer size than ours.
  static void write_entry(std::span<std::uint8_t> out, const UverbsGidEntry& entry) {
    const std::size_t known = std::min(out.size(), sizeof entry);
    std::memcpy(out.data(), &entry, known);
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(known), out.end(), 0);
  }
  void note_output(std::size_t attribute) const {
    attributes_[attribute].flags |= kAttributeOutputIsValid;
  }
  void note_output_by_address(std::uint64_t address) const {
    const auto* header = reinterpret_cast<const ib_uverbs_ioctl_hdr*>(
        reinterpret_cast<const std::uint8_t*>(attributes_) - sizeof(ib_uverbs_ioctl_hdr));
    for (std::size_t i = 0; i < header->num_attrs; ++i) {
      if (attributes_[i].data == address) note_output(i);
    }
  }

  std::uint32_t number_;
  ib_uverbs_attr* attributes_;
};

ssize_t write_uverbs(int, const Node& node, const void* bytes, std::size_t size) {
  if (bytes == nullptr) {
    errno = EFAULT;
    return -1;
  }
  const UverbsRequest request = parse_uverbs_write({static_cast<const std::uint8_t*>(bytes), size});
  const int code = std::visit(Executor(node.number, nullptr), request);
  if (code == 0) return static_cast<ssize_t>(size);
  VERBENA_TRACE("uverbs%u: write of %zu bytes refused: errno %d", node.number, size, code);
  errno = code;
  return -1;
}

int ioctl_uverbs(int, const Node& node, unsigned long request, void* argument) {
  int code = ENOTTY;
  if (request == RDMA_VERBS_IOCTL && argument != nullptr) {
    const auto* bytes = static_cast<const std::uint8_t*>(argument);
    const auto length = uverbs_ioctl_length({bytes, kIoctlHeaderSize});
    auto* attributes =
        reinterpret_cast<ib_uverbs_attr*>(static_cast<std::uint8_t*>(argument) + kIoctlHeaderSize);
    code = length
               ? std::visit(Executor(node.number, attributes), parse_uverbs_ioctl({bytes, *length}))
               : EINVAL;
  }
  if (code == 0) return 0;
  VERBENA_TRACE("uverbs%u: ioctl 0x%lx refused: errno %d", node.number, request, code);
  errno = code;
  return -1;
}

}  // namespace

constinit const NodeClass kUverbsClass{
    "uverbs", true, false, device_number, open_uverbs, write_uverbs, ioctl_uverbs,
};

}  // namespace verbena::preload
