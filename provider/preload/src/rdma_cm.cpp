#include "rdma_cm.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "cm_connection.hpp"
#include "discovery.hpp"
#include "event_pages.hpp"
#include "fd_table.hpp"
#include "program_memory.hpp"
#include "real.hpp"
#include "trace.hpp"
#include "verbena/control/cm_answers.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/preload/cm_answer_cache.hpp"
#include "verbena/preload/rdma_cm_request.hpp"

namespace verbena::preload {
namespace {

using control::UniqueFd;

constexpr int kTimeoutMs = 10'000;
constexpr unsigned kMiscMajor = 10;

constinit CmAnswerCache answers;

dev_t device_number(std::uint32_t) { return ::makedev(kMiscMajor, 0); }

int open_rdma_cm(const std::string&, const std::string& own_name, int flags) {
  UniqueFd fd = connect_to_emulator(own_name);
  if (!fd) return -1;
  control::Channel channel(std::move(fd));
  const std::optional<Node> node = node_of_own_name(own_name);
  control::OpenCmChannel request;
  request.channel = node ? node->identity : 0;
  const auto welcome = control::say_hello(channel, control::ClientKind::kCm, kTimeoutMs);
  if (!welcome) {
    errno = welcome.error().code;
    return -1;
  }
  std::array<UniqueFd, control::kMaxFds> fds;
  const auto opened = channel.call<control::CmChannelOpened>(request, kTimeoutMs, &fds);
  if (!opened) {
    errno = opened.error().code;
    return -1;
  }
  event_pages::adopt(request.channel, channel.fd(), fds[0]);
  if ((flags & O_CLOEXEC) == 0) (void)real::fcntl(channel.fd(), F_SETFD, 0);
  if ((flags & O_NONBLOCK) != 0) (void)real::fcntl(channel.fd(), F_SETFL, O_NONBLOCK);
  return channel.release();
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
    command.other = node->identity;
  }
  const auto reply = send_cm_command(command);
  if (!reply) return reply.error().code;
  for (std::uint32_t i = 0; i < reply->withdrawn; ++i) {
    if (take_announcement(announced_on) != 0) break;
  }
  if (reply->code != 0) return static_cast<int>(reply->code);
  return copy_out(reply->response_address, reply->response) ? 0 : EFAULT;
}

int hand_over(const control::CmCommand& command, const RdmaCmRequest& request,
              const control::CmEventCopy& event) {
  if (event.answers_size != 0) {
    answers.keep({command.channel, event.id}, event.version, event.answers());
  }
  const std::size_t size = std::min<std::size_t>(event.event_size, request.event_room);
  return copy_out(request.event_address, event.event().first(size)) ? 0 : EFAULT;
}

// The announcement may have gone to another thread, or be for an event that was withdrawn: EAGAIN.
// Who has taken one that is not for the next event, because others were quicker, asks: then the
// emulator sees to it that there are as many as there should be.
int get_event(int fd, const RdmaCmRequest& request, control::CmCommand& command) {
  const bool may_look = request.event_room >= kEventRoomMin;
  control::CmEventCopy event;
  if (may_look && event_pages::take(command.channel, false, event)) {
    return hand_over(command, request, event);
  }
  if (const int code = take_announcement(fd)) return code;
  if (may_look && event_pages::take(command.channel, true, event)) {
    return hand_over(command, request, event);
  }
  return execute(fd, request, command);
}

// A question whose answer came with an event. It names an ID of the channel that was noted under
// this number, and answers are true no longer than that channel lives.
std::optional<ssize_t> answer_from_cache(int fd, const void* bytes, std::size_t size) {
  if (bytes == nullptr) return std::nullopt;
  const auto query = control::parse_cm_query({static_cast<const std::uint8_t*>(bytes), size});
  const std::uint64_t channel = query ? fd_table::identity(fd) : 0;
  if (channel == 0) return std::nullopt;
  const auto version = event_pages::version(channel, query->id);
  CmAnswer known;
  if (!version ||
      !answers.find({channel, query->id}, *version, query->question, query->room, known) ||
      !copy_out(query->response_address, std::span(known.bytes).first(known.size))) {
    return std::nullopt;
  }
  return static_cast<ssize_t>(size);
}

// Sends a command of which the event before has promised that it succeeds, and awaits nothing.
// False when there is no such promise: then only the emulator knows.
bool post_promised(int fd, const control::CmCommand& command) {
  const auto promised = control::parse_cm_promised(command.command);
  if (!promised) return false;
  const auto version = event_pages::version(command.channel, promised->id);
  CmAnswer longest;
  if (!version ||
      !answers.find({command.channel, promised->id}, *version, promised->question, 1, longest) ||
      longest.size != 1 || promised->private_data_size > longest.bytes[0]) {
    return false;
  }
  // Made once, kept once: the ID is another from now on, for whoever shares the channel.
  if (!event_pages::outdate(command.channel, promised->id, *version)) return false;
  answers.forget({command.channel, promised->id});
  control::CmPosted posted;
  posted.command = command.command;
  return static_cast<bool>(control::send_packet(fd, control::encode(posted, 0), {}, 0));
}

int answer(int fd, const RdmaCmRequest& request, control::CmCommand& command) {
  if (request.is_get_event) return get_event(fd, request, command);
  if (post_promised(fd, command)) return 0;
  return execute(fd, request, command);
}

bool awaits_message(const void* bytes, std::size_t size) {
  return bytes != nullptr &&
         parse_rdma_cm_write({static_cast<const std::uint8_t*>(bytes), size}).is_get_event;
}

ssize_t write_rdma_cm(int fd, const Node& node, const void* bytes, std::size_t size) {
  constexpr std::size_t kLongest = 4096;
  if (bytes == nullptr || size > kLongest) {
    errno = bytes == nullptr ? EFAULT : EINVAL;
    return -1;
  }
  control::CmCommand command;
  command.channel = node.identity;
  const auto* begin = static_cast<const std::uint8_t*>(bytes);
  command.command.assign(begin, begin + size);
  const RdmaCmRequest request = parse_rdma_cm_write(command.command);
  const int code = answer(fd, request, command);
  if (code == 0) return static_cast<ssize_t>(size);
  VERBENA_TRACE("rdma_cm: write of %zu bytes refused: errno %d", size, code);
  errno = code;
  return -1;
}

int ioctl_rdma_cm(int, const Node&, unsigned long, void*) {
  errno = ENOTTY;
  return -1;
}

}  // namespace

constinit const NodeClass kRdmaCmClass{
    "rdma_cm",     false,         true,           device_number,     open_rdma_cm,
    write_rdma_cm, ioctl_rdma_cm, awaits_message, answer_from_cache,
};

}  // namespace verbena::preload
