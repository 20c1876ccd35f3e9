#include "cm_connection.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "discovery.hpp"
#include "real.hpp"
#include "verbena/control/connect.hpp"

namespace verbena::preload {
namespace {

constexpr int kTimeoutMs = 30'000;

struct Connection {
  control::Channel channel;
  pid_t process = 0;
  ino_t inode = 0;

  // The descriptor is still the socket that we opened.
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
  auto welcome = control::say_hello(connection->channel, control::ClientKind::kCm, kTimeoutMs);
  if (!welcome) return Failure<control::Error>{welcome.error()};
  return connection;
}

std::unique_ptr<Connection> take_kept() {
  for (std::atomic<Connection*>& place : kept) {
    if (place.load(std::memory_order_relaxed) == nullptr) continue;
    std::unique_ptr<Connection> found(place.exchange(nullptr, std::memory_order_acquire));
    if (!found) continue;
    if (!found->is_intact()) {
      (void)found->channel.release();  // the number is somebody else's now
      continue;
    }
    if (found->process == ::getpid()) return found;
    // The parent's: closing our copy of the descriptor leaves it the other.
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

}  // namespace

control::Outcome<control::CmReply> send_cm_command(const control::CmCommand& command) {
  // A kept connection may have died with an emulator before this one.
  for (std::unique_ptr<Connection> used = take_kept(); used; used = take_kept()) {
    auto reply = used->channel.call<control::CmReply>(command, kTimeoutMs);
    const int code = reply ? 0 : reply.error().code;
    if (code == ECONNRESET || code == EPIPE) continue;
    if (code != ETIMEDOUT && code != EPROTO) keep(std::move(used));
    return reply;
  }
  auto fresh = connect_anew();
  if (!fresh) return Failure<control::Error>{fresh.error()};
  auto reply = (*fresh)->channel.call<control::CmReply>(command, kTimeoutMs);
  if (reply) keep(std::move(*fresh));
  return reply;
}

}  // namespace verbena::preload
