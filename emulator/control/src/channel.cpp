// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "verbena/base/standard_streams.hpp"

namespace verbena::control {
namespace {

Failure<Error> system_failure(const char* what) {
  const int code = errno == EWOULDBLOCK ? EAGAIN : errno;
  if (code == EPIPE) return fail(ECONNRESET, "the emulator is gone");
  // EAGAIN is no failure, and its text is never shown: a caller that polls gets it after each last
  // message.
  if (code == EAGAIN) return fail(EAGAIN, "not now");
  return fail(code, std::string(what) + ": " + std::strerror(code));
}

std::int64_t now_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

// Returns true if the descriptor is readable or hung up, false at the deadline.
Outcome<bool> wait_readable(int fd, std::int64_t deadline_ms) {
  for (;;) {
    int left = -1;
    if (deadline_ms >= 0) {
      left = static_cast<int>(std::max<std::int64_t>(0, deadline_ms - now_ms()));
    }
    pollfd p{fd, POLLIN, 0};
    const int n = ::poll(&p, 1, left);
    if (n > 0) return true;
    if (n == 0) return false;
    if (errno != EINTR) return system_failure("poll");
  }
}

// Takes the descriptors out of a received control message. Closes those beyond kMaxFds.
void take_fds(msghdr& m, Incoming& in) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      UniqueFd owned(beyond_streams(fd));
      if (owned && in.fd_count < kMaxFds) in.fds[in.fd_count++] = std::move(owned);
    }
  }
}

}  // namespace

Outcome<Done> send_packet(int fd, std::span<const std::uint8_t> packet, std::span<const int> fds,
                          int flags) {
  if (packet.size() > kMaxMessage) return fail(EMSGSIZE, "control message too long");
  if (fds.size() > kMaxFds) return fail(EINVAL, "too many descriptors for one control message");
  iovec io{const_cast<std::uint8_t*>(packet.data()), packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  if (!fds.empty()) {
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  for (;;) {
    if (::sendmsg(fd, &m, flags | MSG_NOSIGNAL) >= 0) return Done{};
    if (errno != EINTR) return system_failure("cannot send to the emulator");
  }
}

Outcome<Incoming> receive_packet(int fd, int flags) {
  // Looks at the size first: most messages are small, so a context needs no buffer of 64 KiB.
  ssize_t size = 0;
  do {
    size = ::recv(fd, nullptr, 0, flags | MSG_PEEK | MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return system_failure("cannot receive from the emulator");
  std::vector<std::uint8_t> room(
      std::min<std::size_t>(static_cast<std::size_t>(size), kMaxMessage));
  return receive_packet(fd, flags, room);
}

Outcome<Incoming> receive_packet(int fd, int flags, std::span<std::uint8_t> room) {
  Incoming in;
  iovec io{room.data(), room.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  ssize_t n = 0;
  do {
    n = ::recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC);
    // ECONNRESET says that the other side closed with unread messages. The kernel reports it once,
    // before the messages that came from there.
  } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
  if (n < 0) return system_failure("cannot receive from the emulator");
  take_fds(m, in);
  if (n == 0) return fail(ECONNRESET, "the other side closed the control connection");
  // Descriptors may also be missing because this process has no more left. The message is still
  // good.
  const bool too_many = (m.msg_flags & MSG_CTRUNC) != 0 && in.fd_count == kMaxFds;
  if ((m.msg_flags & MSG_TRUNC) != 0 || too_many) {
    return fail(EPROTO, "control message too long or with too many descriptors");
  }
  const auto packet = room.first(static_cast<std::size_t>(n));
  Outcome<Header> header = decode_header(packet);
  if (!header) return Failure<Error>{header.error()};
  in.header = *header;
  in.payload.assign(packet.begin() + kHeaderSize, packet.end());
  return in;
}

void stop_receiving(int fd) noexcept {
  (void)::shutdown(fd, SHUT_RD);
  char byte = 0;
  while (::recv(fd, &byte, sizeof byte, MSG_DONTWAIT) > 0) {
  }
}

Outcome<Incoming> Channel::receive(int timeout_ms) {
  const std::int64_t deadline = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
  for (;;) {
    const Outcome<bool> ready = wait_readable(fd_.get(), deadline);
    if (!ready) return Failure<Error>{ready.error()};
    if (!*ready) return fail(ETIMEDOUT, "the emulator does not answer");
    // Another thread may have taken the message meanwhile: wait on.
    Outcome<Incoming> in = receive_packet(fd_.get(), MSG_DONTWAIT);
    if (in || in.error().code != EAGAIN) return in;
  }
}

Outcome<Incoming> Channel::exchange(std::span<const std::uint8_t> request, MessageType expected,
                                    int timeout_ms, const Unasked& unasked) {
  const std::uint32_t sequence = next_sequence_;
  next_sequence_ = (next_sequence_ + 1) & ~kDaemonSequence;
  const Outcome<Done> sent = send_packet(fd_.get(), request, {}, 0);
  if (!sent) return Failure<Error>{last_words().value_or(sent.error())};
  const std::int64_t deadline = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
  for (;;) {
    const int left = deadline < 0
                         ? kWaitForever
                         : static_cast<int>(std::max<std::int64_t>(0, deadline - now_ms()));
    Outcome<Incoming> in = receive(left);
    if (!in) return in;
    const bool is_unasked = in->header.is_from_daemon_itself();
    // An answer to a call that timed out. Sequence 0 is none: with it, the connection is refused.
    const bool is_late = !is_unasked && in->header.sequence != sequence && in->header.sequence != 0;
    if (in->type() == MessageType::kRefused && !is_late) return Failure<Error>{refusal(*in)};
    if (in->header.version != kProtocolVersion) {
      return fail(EPROTO, "the emulator speaks another protocol version; restart it: verbena down");
    }
    if (is_unasked) {
      if (unasked) unasked(std::move(*in));
      continue;
    }
    if (in->header.sequence != sequence) continue;
    if (in->type() != expected) return malformed(in->type());
    return in;
  }
}

std::optional<Error> Channel::last_words() {
  for (;;) {
    const Outcome<Incoming> in = receive_packet(fd_.get(), MSG_DONTWAIT);
    if (!in) return std::nullopt;
    if (in->type() == MessageType::kRefused) return refusal(*in);
  }
}

Error refusal(const Incoming& message) {
  Outcome<Refused> refused = decode<Refused>(message.payload);
  if (!refused) return refused.error();
  const int code = refused->code == 0 ? EPROTO : static_cast<int>(refused->code);
  return Error{code, std::move(refused->text)};
}

}  // namespace verbena::control
