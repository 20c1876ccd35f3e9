#include "rdma_cm.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>

#include "cm_connection.hpp"
#include "discovery.hpp"
#include "real.hpp"
#include "trace.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/preload/rdma_cm_request.hpp"

namespace verbena::preload {
namespace {

using control::UniqueFd;

constexpr int kTimeoutMs = 10'000;
constexpr unsigned kMiscMajor = 10;

dev_t device_number(std::uint32_t) { return ::makedev(kMiscMajor, 0); }

// The channel's number for the emulator: the random one at the end of the node's own address, so
// that every process that has the descriptor knows it. 0 when it is no channel.
std::uint64_t channel_in(std::string_view own_name) {
  std::uint64_t number = 0;
  const std::size_t slash = own_name.rfind('/');
  if (slash == std::string_view::npos) return 0;
  const std::string_view digits = own_name.substr(slash + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return error == std::errc{} && end == digits.data() + digits.size() ? number : 0;
}

std::uint64_t channel_of(int fd) {
  sockaddr_un own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  constexpr std::size_t kPathAt = offsetof(sockaddr_un, sun_path);
  if (own.sun_family != AF_UNIX || size <= kPathAt + 1 || own.sun_path[0] != 0) return 0;
  return channel_in({own.sun_path + 1, size - kPathAt - 1});
}

int open_rdma_cm(const std::string&, const std::string& own_name, int flags) {
  UniqueFd fd = connect_to_emulator(own_name);
  if (!fd) return -1;
  control::Channel channel(std::move(fd));
  control::OpenCmChannel request;
  request.channel = channel_in(own_name);
  const auto welcome = control::say_hello(channel, control::ClientKind::kCm, kTimeoutMs);
  if (!welcome) {
    errno = welcome.error().code;
    return -1;
  }
  const auto opened = channel.call<control::Ack>(request, kTimeoutMs);
  if (!opened) {
    errno = opened.error().code;
    return -1;
  }
  if ((flags & O_CLOEXEC) == 0) (void)real::fcntl(channel.fd(), F_SETFD, 0);
  if ((flags & O_NONBLOCK) != 0) (void)real::fcntl(channel.fd(), F_SETFL, O_NONBLOCK);
  return channel.release();
}

// Memory of the program, read and written through the kernel: a wrong pointer is EFAULT.
bool copy_in(std::span<std::uint8_t> to, std::uint64_t address) {
  iovec local{to.data(), to.size()};
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), to.size()};
  const ssize_t n = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(to.size())) return true;
  if (n >= 0 || errno == EFAULT || address == 0) return false;
  std::memcpy(to.data(), remote.iov_base, to.size());  // a sandbox forbids the careful way
  return true;
}

bool copy_out(std::uint64_t address, std::span<const std::uint8_t> from) {
  if (from.empty()) return true;
  iovec local{const_cast<std::uint8_t*>(from.data()), from.size()};
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), from.size()};
  const ssize_t n = ::process_vm_writev(::getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(from.size())) return true;
  if (n >= 0 || errno == EFAULT || address == 0) return false;
  std::memcpy(remote.iov_base, from.data(), from.size());
  return true;
}

// One announcement off the channel. 0 or an errno, EAGAIN where there is none.
int take_announcement(int fd) {
  std::array<std::uint8_t, 64> message;
  const ssize_t n = ::recv(fd, message.data(), message.size(), MSG_DONTWAIT);
  if (n > 0) return 0;
  return n == 0 ? EIO : errno;  // EIO: the emulator is gone
}

int execute(int fd, const RdmaCmRequest& request, control::CmCommand& command) {
  if (request.value_length > kOptionValueMax) return EINVAL;
  command.attached.resize(request.value_length);
  if (request.value_length != 0 && !copy_in(command.attached, request.value_address)) {
    return EFAULT;
  }
  int announced_on = fd;
  if (request.names_channel) {
    announced_on = static_cast<int>(request.channel_fd);
    const std::optional<Node> node = node_of_fd(announced_on);
    if (!node || node->node_class != &kRdmaCmClass) return EINVAL;
    command.other = channel_of(announced_on);
  }
  const auto reply = send_cm_command(command);
  if (!reply) return reply.error().code;
  for (std::uint32_t i = 0; i < reply->withdrawn; ++i) {
    if (take_announcement(announced_on) != 0) break;
  }
  if (reply->code != 0) return static_cast<int>(reply->code);
  return copy_out(reply->response_address, reply->response) ? 0 : EFAULT;
}

// The announcement may have gone to another thread, or be for an event that was withdrawn: EAGAIN.
int get_event(int fd, const RdmaCmRequest& request, control::CmCommand& command) {
  const int code = take_announcement(fd);
  return code != 0 ? code : execute(fd, request, command);
}

bool awaits_message(const void* bytes, std::size_t size) {
  return bytes != nullptr &&
         parse_rdma_cm_write({static_cast<const std::uint8_t*>(bytes), size}).is_get_event;
}

ssize_t write_rdma_cm(int fd, std::uint32_t, const void* bytes, std::size_t size) {
  constexpr std::size_t kLongest = 4096;
  if (bytes == nullptr || size > kLongest) {
    errno = bytes == nullptr ? EFAULT : EINVAL;
    return -1;
  }
  control::CmCommand command;
  command.channel = channel_of(fd);
  const auto* begin = static_cast<const std::uint8_t*>(bytes);
  command.command.assign(begin, begin + size);
  const RdmaCmRequest request = parse_rdma_cm_write(command.command);
  const int code =
      request.is_get_event ? get_event(fd, request, command) : execute(fd, request, command);
  if (code == 0) return static_cast<ssize_t>(size);
  VERBENA_TRACE("rdma_cm: write of %zu bytes refused: errno %d", size, code);
  errno = code;
  return -1;
}

int ioctl_rdma_cm(int, std::uint32_t, unsigned long, void*) {
  errno = ENOTTY;
  return -1;
}

}  // namespace

constinit const NodeClass kRdmaCmClass{
    "rdma_cm",    false,         true,          device_number,
    open_rdma_cm, write_rdma_cm, ioctl_rdma_cm, awaits_message,
};

}  // namespace verbena::preload
