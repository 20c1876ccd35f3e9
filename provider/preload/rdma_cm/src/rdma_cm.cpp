// SPDX-License-Identifier: BSD-2-Clause
#include "rdma_cm/rdma_cm.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "paths/discovery.hpp"
#include "rdma_cm/cm_connection.hpp"
#include "rdma_cm/destroyed_ids.hpp"
#include "rdma_cm/event_pages.hpp"
#include "rdma_cm/failing_calls.hpp"
#include "rdma_cm/program_memory.hpp"
#include "rdma_cm/words.hpp"
#include "real/fd_table.hpp"
#include "real/real.hpp"
#include "real/trace.hpp"
#include "verbena/control/cm_answers.hpp"
#include "verbena/control/connect.hpp"
#include "verbena/preload/cm_answer_cache.hpp"
#include "verbena/preload/rdma_cm_request.hpp"

namespace verbena::preload {
namespace {

using control::UniqueFd;

constexpr int kOpenTimeoutMs = 10'000;
constexpr unsigned kMiscMajor = 10;

constinit CmAnswerCache answers;

dev_t misc_device_number(std::uint32_t) { return ::makedev(kMiscMajor, 0); }

int open_rdma_cm(const std::string&, const std::string& own_name, int flags) {
  if (const int error = failing_calls::error_of_opening(); error != 0) {
    errno = error;
    return -1;
  }
  UniqueFd fd = connect_to_emulator(own_name);
  if (!fd) return -1;
  control::Channel channel(std::move(fd));
  const std::optional<Node> node = node_of_own_name(own_name);
  control::OpenCmChannel request;
  request.channel = node ? node->identity : 0;
  const auto welcome = control::say_hello(channel, control::ClientKind::kCm, kOpenTimeoutMs);
  if (!welcome) {
    errno = welcome.error().code;
    return -1;
  }
  std::array<UniqueFd, control::kMaxFds> fds;
  const auto opened = channel.call<control::CmChannelOpened>(request, kOpenTimeoutMs, &fds);
  if (!opened) {
    errno = opened.error().code;
    return -1;
  }
  event_pages::adopt(request.channel, channel.fd(), fds[0]);
  if ((flags & O_CLOEXEC) == 0) (void)real::fcntl(channel.fd(), F_SETFD, 0);
  if ((flags & O_NONBLOCK) != 0) (void)real::fcntl(channel.fd(), F_SETFL, O_NONBLOCK);
  return channel.release();
}

// Takes one message off the channel. Returns 0 or an errno, EAGAIN if there is no message.
int take_announcement(int fd) {
  std::array<std::uint8_t, 64> message;
  const ssize_t n = ::recv(fd, message.data(), message.size(), MSG_DONTWAIT);
  if (n > 0) return 0;
  return n == 0 ? EIO : errno;  // EIO: the emulator is gone
}

// Returns whether the emulator of this channel is gone. Its last messages may still be there.
bool is_over(int fd) {
  pollfd channel{fd, 0, 0};
  return ::poll(&channel, 1, 0) == 1 && (channel.revents & POLLHUP) != 0;
}

// Answers for an emulator that is gone, and its IDs and memberships with it: 0 events were
// reported, so the library waits for none.
int give_back(const RdmaCmRequest& request) {
  const std::array<std::uint8_t, sizeof(std::uint32_t)> none{};
  return copy_out(request.response_address, none) ? 0 : EFAULT;
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
  if (request.leaving_id != 0) {
    answers.forget({request.names_channel ? command.other : command.channel, request.leaving_id});
  }
  const auto reply = send_cm_command(command);
  if (!reply && request.gives_back && is_over(fd)) return give_back(request);
  if (!reply) {
    explain_refused_command(reply.error());
    return reply.error().code;
  }
  for (std::uint32_t i = 0; i < reply->withdrawn; ++i) {
    if (take_announcement(announced_on) != 0) break;
  }
  if (reply->code != 0) {
    explain_cm_refusal(command.command, static_cast<int>(reply->code));
    return static_cast<int>(reply->code);
  }
  if (reply->destroyed_events != 0) {
    destroyed_ids::note(reply->destroyed_at, reply->destroyed_events);
  }
  if (request.is_get_event) explain_cm_event(command.channel, reply->response);
  return copy_out(reply->response_address, reply->response) ? 0 : EFAULT;
}

using Written = std::span<const std::uint8_t>;

int hand_over(std::uint64_t channel, const RdmaCmRequest& request,
              const control::CmEventCopy& event) {
  if (event.answers_size != 0) {
    answers.keep({channel, event.id}, event.version, event.answers());
  }
  explain_cm_event(channel, event.event());
  const std::size_t size = std::min<std::size_t>(event.event_size, request.event_room);
  return copy_out(request.event_address, event.event().first(size)) ? 0 : EFAULT;
}

// Takes the next event if no message has to be taken off the channel for it. Returns 0 or an errno,
// or nothing if there is no such event.
std::optional<int> take_unannounced(std::uint64_t channel, const RdmaCmRequest& request) {
  control::CmEventCopy event;
  if (request.event_room < kEventRoomMin || !event_pages::take(channel, false, event)) {
    return std::nullopt;
  }
  return hand_over(channel, request, event);
}

// Gets the next event. EAGAIN means that another thread took the message, or that its event was
// withdrawn. A thread may have taken a message that does not belong to the next event, because
// other threads were quicker. It asks the emulator, which then corrects the number of messages.
int get_event(int fd, const RdmaCmRequest& request, control::CmCommand& command) {
  if (const auto taken = take_unannounced(command.channel, request)) return *taken;
  if (const int code = take_announcement(fd)) return code;
  control::CmEventCopy event;
  if (request.event_room >= kEventRoomMin && event_pages::take(command.channel, true, event)) {
    return hand_over(command.channel, request, event);
  }
  return execute(fd, request, command);
}

// Answers a question if its answer came with an event.
bool answer_query(std::uint64_t channel, const control::CmQuery& query) {
  const auto version = event_pages::version(channel, query.id);
  CmAnswer known;
  return version &&
         answers.find({channel, query.id}, *version, query.question, query.room, known) &&
         copy_out(query.response_address, std::span(known.bytes).first(known.size));
}

// Sends a command that the last event has promised to succeed, and awaits no answer. Returns false
// when there is no such promise: then the emulator must be asked.
bool post_promised(int fd, std::uint64_t channel, const control::CmPromised& promised,
                   Written command) {
  const CmAnswerCache::About about{channel, promised.id};
  const auto version = event_pages::version(channel, promised.id);
  CmAnswer longest;
  if (!version || !answers.find(about, *version, promised.question, 1, longest) ||
      longest.size != 1 || promised.private_data_size > longest.bytes[0]) {
    return false;
  }
  // A promise is used once: the command changes the ID, also for processes that share the channel.
  if (!event_pages::outdate(channel, promised.id, *version)) return false;
  answers.forget(about);
  control::CmPosted posted;
  posted.command.assign(command.begin(), command.end());
  return static_cast<bool>(control::send_packet(fd, control::encode(posted, 0), {}, 0));
}

// Does what needs no question to the emulator: answers that came with an event, promised commands
// and events that lie in shared memory. All of them belong to the channel that was noted under this
// number and end with that channel. If the number is another file by now, a promised command goes
// to the file that the program wrote it to.
std::optional<ssize_t> write_at_once(int fd, const void* bytes, std::size_t size) {
  if (bytes == nullptr) return std::nullopt;
  const Written command(static_cast<const std::uint8_t*>(bytes), size);
  const std::uint64_t channel = fd_table::identity(fd);
  if (channel == 0) return std::nullopt;
  if (const int error = failing_calls::error_of_command(command); error != 0) {
    errno = error;
    return -1;
  }
  bool done = false;
  if (const auto query = control::parse_cm_query(command)) {
    done = answer_query(channel, *query);
  } else if (const auto promised = control::parse_cm_promised(command)) {
    done = post_promised(fd, channel, *promised, command);
  } else if (const RdmaCmRequest request = parse_rdma_cm_write(command); request.is_get_event) {
    const auto taken = take_unannounced(channel, request);
    done = taken == 0;
    if (taken == EFAULT) {
      errno = EFAULT;
      return -1;
    }
  }
  return done ? std::optional(static_cast<ssize_t>(size)) : std::nullopt;
}

int answer(int fd, const RdmaCmRequest& request, control::CmCommand& command) {
  return request.is_get_event ? get_event(fd, request, command) : execute(fd, request, command);
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
    "rdma_cm",     false,         true,           misc_device_number, open_rdma_cm,
    write_rdma_cm, ioctl_rdma_cm, awaits_message, write_at_once,
};

}  // namespace verbena::preload
