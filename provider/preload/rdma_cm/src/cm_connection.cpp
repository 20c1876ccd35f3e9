// SPDX-License-Identifier: BSD-2-Clause
#include "rdma_cm/cm_connection.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "paths/discovery.hpp"
#include "real/real.hpp"
#include "verbena/control/connect.hpp"

namespace verbena::preload {
namespace {

constexpr int kCallTimeoutMs = 30'000;
constexpr std::size_t kLongestReply = 2048;
constexpr unsigned kTurnUs = 1000;
constexpr int kTurnsMax = 5000;

// How many connections this process has, those that a thread uses just now included.
constinit std::atomic<int> connections{0};

struct Connection {
  Connection() { connections.fetch_add(1); }
  ~Connection() { connections.fetch_sub(1); }
  Connection(const Connection&) = delete;

  control::Channel channel;  // its receive sleeps for at most kCallTimeoutMs
  std::uint32_t next_sequence = 1;
  pid_t process = 0;
  ino_t inode = 0;

  // Returns whether the descriptor is still the socket that we opened.
  bool is_intact() const {
    struct stat st {};
    return real::fstat(channel.fd(), &st) == 0 && st.st_ino == inode;
  }
};

constexpr std::size_t kKept = 8;
constinit std::array<std::atomic<Connection*>, kKept> kept{};

control::Outcome<std::unique_ptr<Connection>> connect_anew() {
  control::UniqueFd fd = connect_to_emulator();
  if (!fd) return control::fail(errno, std::strerror(errno));
  struct stat st {};
  if (real::fstat(fd.get(), &st) != 0) return control::fail(errno, std::strerror(errno));
  auto connection = std::make_unique<Connection>();
  connection->channel = control::Channel(std::move(fd));
  connection->process = ::getpid();
  connection->inode = st.st_ino;
  auto welcome = control::say_hello(connection->channel, control::ClientKind::kCm, kCallTimeoutMs);
  if (!welcome) return Failure<control::Error>{welcome.error()};
  const timeval longest{kCallTimeoutMs / 1000, 0};
  if (::setsockopt(connection->channel.fd(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest) !=
      0) {
    return control::fail(errno, std::strerror(errno));
  }
  return connection;
}

// Does what Channel::call does, in two system calls instead of four: answers are small, and nothing
// else comes on such a connection. `is_refused` says that the emulator refused the command with
// some error, and that the connection is still usable.
control::Outcome<control::CmReply> ask(Connection& connection, const control::CmCommand& command,
                                       bool& is_refused) {
  const int fd = connection.channel.fd();
  const std::uint32_t sequence = connection.next_sequence;
  connection.next_sequence = (sequence + 1) & ~control::kDaemonSequence;
  const auto sent = control::send_packet(fd, control::encode(command, sequence), {}, 0);
  if (!sent) return Failure<control::Error>{sent.error()};
  for (;;) {
    std::array<std::uint8_t, kLongestReply> room;
    const auto in = control::receive_packet(fd, 0, room);
    if (!in && in.error().code == EAGAIN) {
      return control::fail(ETIMEDOUT, "the emulator does not answer");
    }
    if (!in) return Failure<control::Error>{in.error()};
    if (in->type() == control::MessageType::kRefused) {
      is_refused = true;
      return Failure<control::Error>{control::refusal(*in)};
    }
    if (in->header.sequence != sequence) continue;  // the late answer to a command that timed out
    if (in->type() != control::kCmReply) return control::malformed(in->type());
    return control::decode<control::CmReply>(in->payload);
  }
}

std::unique_ptr<Connection> take_kept() {
  for (std::atomic<Connection*>& place : kept) {
    if (place.load(std::memory_order_relaxed) == nullptr) continue;
    std::unique_ptr<Connection> found(place.exchange(nullptr, std::memory_order_acquire));
    if (!found) continue;
    if (!found->is_intact()) {
      (void)found->channel.release();  // the number is another file now
      continue;
    }
    if (found->process == ::getpid()) return found;
    // The connection is the parent's. Closing our copy of the descriptor leaves the parent's open.
  }
  return nullptr;
}

void keep(std::unique_ptr<Connection> connection) {
  for (std::atomic<Connection*>& place : kept) {
    Connection* none = nullptr;
    if (place.compare_exchange_strong(none, connection.get(), std::memory_order_release)) {
      (void)connection.release();
      return;
    }
  }
}

// Returns nothing if no connection is kept.
std::optional<control::Outcome<control::CmReply>> send_by_kept(const control::CmCommand& command) {
  // A kept connection may have died with an earlier emulator.
  for (std::unique_ptr<Connection> used = take_kept(); used; used = take_kept()) {
    bool is_refused = false;
    auto reply = ask(*used, command, is_refused);
    const int code = reply || is_refused ? 0 : reply.error().code;
    if (code == ECONNRESET || code == EPIPE) continue;
    if (code != ETIMEDOUT && code != EPROTO) keep(std::move(used));
    return reply;
  }
  return std::nullopt;
}

// The codes of connect_to_emulator when the program may not, or cannot, see the directory.
bool is_out_of_reach(const control::Error& error) {
  return error.code == ENOENT || error.code == EACCES;
}

control::Outcome<control::CmReply> send_by_fresh(std::unique_ptr<Connection> fresh,
                                                 const control::CmCommand& command) {
  bool is_refused = false;
  auto reply = ask(*fresh, command, is_refused);
  if (reply || is_refused) keep(std::move(fresh));
  return reply;
}

}  // namespace

// A program that has changed its user or its root directory cannot connect any more. Its threads
// then take turns with the connections that there are. A forked child may count one that a thread
// of its parent has used, so the wait has an end.
control::Outcome<control::CmReply> send_cm_command(const control::CmCommand& command) {
  for (int turns = 0;; ++turns) {
    if (auto reply = send_by_kept(command)) return std::move(*reply);
    auto fresh = connect_anew();
    if (fresh) return send_by_fresh(std::move(*fresh), command);
    const bool may_wait = connections.load() != 0 && turns < kTurnsMax;
    if (!is_out_of_reach(fresh.error()) || !may_wait) {
      return Failure<control::Error>{fresh.error()};
    }
    ::usleep(kTurnUs);
  }
}

}  // namespace verbena::preload
