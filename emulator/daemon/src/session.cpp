// SPDX-License-Identifier: BSD-2-Clause
#include "session.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <exception>
#include <string>
#include <utility>

#include "verbena/control/cm_messages.hpp"
#include "verbena/control/connect.hpp"

namespace verbena::daemon {

using control::Error;

Session::Session(Id session_id, control::UniqueFd fd, std::uint32_t pid, Reactor& reactor,
                 Shares& shares, Events events)
    : id(session_id),
      fd_(std::move(fd)),
      reactor_(reactor),
      shares_(shares),
      events_(std::move(events)) {
  info.pid = pid;
}

Session::~Session() {
  reactor_.unwatch(fd_.get());
  for (const Waiting& waiting : backlog_) give_back_share_of(waiting);
}

void Session::start() {
  reactor_.watch(fd_.get(), [this] { on_readable(); });
}

// The loop calls this again while there are more messages, after the other sessions had their turn.
void Session::on_readable() {
  for (int i = 0; i < kBurst && !ended_ && receive() == Received::kPosted; ++i) {
  }
}

// Receives one message. A client that waits for an answer has only one under way, and to look for a
// second would cost a system call for nothing.
Session::Received Session::receive() {
  static std::array<std::uint8_t, control::kMaxMessage> room;  // the loop has one thread
  auto in = control::receive_packet(fd_.get(), MSG_DONTWAIT, room);
  if (!in) {
    if (in.error().code != EAGAIN) end(in.error());
    return Received::kNone;
  }
  const bool is_posted = in->type() == control::kCmPosted;
  const control::MessageType type = in->type();
  try {
    events_.on_message(*this, std::move(*in));
  } catch (const std::exception& e) {
    // The end of the client takes back what is half done.
    end({EIO, std::string(control::message_name(type)) + " failed: " + e.what()});
  }
  return is_posted ? Received::kPosted : Received::kAny;
}

void Session::catch_up(CatchUp what) {
  // More messages than a socket holds, which is a few hundred.
  constexpr int kHeld = 4096;
  for (int i = 0; i < kHeld && !ended_; ++i) {
    const Received received = receive();
    if (received == Received::kNone) return;
    if (received == Received::kAny && what == CatchUp::kPosted) return;
  }
}

void Session::send_packet(std::span<const std::uint8_t> packet, std::span<const int> fds) {
  if (ended_) return;
  if (!backlog_.empty()) return keep_for_later(packet, fds);
  const auto sent = control::send_packet(fd_.get(), packet, fds, MSG_DONTWAIT);
  if (sent) return;
  if (sent.error().code == EAGAIN) return keep_for_later(packet, fds);
  end(sent.error());
}

void Session::send_kept(control::MessageType kind, std::span<const std::uint8_t> packet,
                        std::span<const int> fds) {
  if (ended_) return;
  if (backlog_.empty()) {
    const auto sent = control::send_packet(fd_.get(), packet, fds, MSG_DONTWAIT);
    if (sent) return;
    if (sent.error().code != EAGAIN) return end(sent.error());
  }
  keep_for_later(packet, fds, kind);
}

void Session::replace(Waiting& older, std::vector<std::uint8_t> packet, std::span<const int> fds) {
  give_back_share_of(older);
  older.packet = std::move(packet);
  older.fds.clear();
  for (const int fd : fds) older.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!take_share_of(older)) end({ENOBUFS, "the client does not read"});
}

void Session::when_read(std::function<void()> then) {
  if (backlog_.empty()) return reactor_.at_end_of_turn(std::move(then));
  on_read_ = std::move(then);
}

bool Session::send_or_drop(std::span<const std::uint8_t> packet, std::span<const int> fds) {
  if (ended_ || !backlog_.empty()) return false;
  return control::send_packet(fd_.get(), packet, fds, MSG_DONTWAIT).ok();
}

std::string Session::peer_name() const {
  return control::abstract_name(fd_.get(), control::End::kPeer);
}

void Session::refuse(std::uint32_t sequence, const Error& error) {
  send(control::Refused{static_cast<std::uint32_t>(error.code), error.text}, sequence);
}

void Session::answer(std::uint32_t sequence, const control::Outcome<control::Done>& outcome) {
  if (!outcome) return refuse(sequence, outcome.error());
  send(control::Ack{}, sequence);
}

void Session::keep_for_later(std::span<const std::uint8_t> packet, std::span<const int> fds,
                             std::optional<control::MessageType> kind) {
  Waiting waiting{{packet.begin(), packet.end()}, {}, kind};
  for (const int fd : fds) {
    waiting.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!waiting.fds.back()) return end({EMFILE, "no descriptor left for a client's answer"});
  }
  backlog_.push_back(std::move(waiting));
  if (kind) news_[*kind] = &backlog_.back();
  if (!take_share_of(backlog_.back())) return end({ENOBUFS, "the client does not read"});
  if (backlog_.size() == 1) reactor_.when_writable(fd_.get(), [this] { flush(); });
}

bool Session::take_share_of(const Waiting& waiting) {
  const bool may_take = backlog_bytes_ + waiting.size() <= kBacklogBytesMax &&
                        shares_.unread.may_take(info.pid, waiting.size());
  backlog_bytes_ += waiting.size();
  shares_.unread.take(info.pid, waiting.size());
  shares_.descriptors.take(info.pid, waiting.fds.size());
  return may_take;
}

void Session::give_back_share_of(const Waiting& waiting) {
  backlog_bytes_ -= waiting.size();
  shares_.unread.give_back(info.pid, waiting.size());
  shares_.descriptors.give_back(info.pid, waiting.fds.size());
}

void Session::flush() {
  while (!backlog_.empty() && !ended_) {
    const Waiting& first = backlog_.front();
    std::vector<int> fds;
    for (const control::UniqueFd& fd : first.fds) fds.push_back(fd.get());
    const auto sent = control::send_packet(fd_.get(), first.packet, fds, MSG_DONTWAIT);
    if (!sent && sent.error().code == EAGAIN) {
      return reactor_.when_writable(fd_.get(), [this] { flush(); });
    }
    if (!sent) return end(sent.error());
    give_back_share_of(first);
    if (first.kind) news_.erase(*first.kind);
    backlog_.pop_front();
  }
  if (!ended_ && on_read_) std::exchange(on_read_, nullptr)();
}

void Session::end(const Error& error) {
  if (ended_) return;
  ended_ = true;
  reactor_.unwatch(fd_.get());
  control::stop_receiving(fd_.get());
  events_.on_end(*this, error);
}

}  // namespace verbena::daemon
