// SPDX-License-Identifier: BSD-2-Clause
#include "listener.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace verbena::daemon {

using control::UniqueFd;

namespace {

UniqueFd spare_descriptor() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// Refuses a client in such a way that it reads the reason, whether it has sent nothing yet or many
// messages.
void turn_away(int client, int code, std::string text) {
  const control::Refused refused{static_cast<std::uint32_t>(code), std::move(text)};
  control::stop_receiving(client);
  (void)control::send_packet(client, control::encode(refused, 0), {}, MSG_DONTWAIT);
}

}  // namespace

Listener::Listener(Reactor& reactor, const ClientTable& clients,
                   const limits::FairShare& descriptors, Accept accept)
    : reactor_(reactor),
      clients_(clients),
      descriptors_(descriptors),
      accept_(std::move(accept)),
      spare_(spare_descriptor()) {}

void Listener::start(UniqueFd listening) {
  stop();
  listening_ = std::move(listening);
  reactor_.watch(listening_.get(), [this] { accept_all(); });
}

void Listener::stop() {
  if (listening_) reactor_.unwatch(listening_.get());
  listening_.reset();
}

void Listener::accept_all() {
  // Accepts a bounded number in a turn: two hundred clients at once must not keep the others
  // waiting.
  for (int i = 0; i < 64; ++i) {
    if (!accept_one()) return;
  }
}

bool Listener::accept_one() {
  UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) {
    if (errno == EMFILE || errno == ENFILE) refuse_for_want_of_descriptors();
    return errno == EINTR || errno == ECONNABORTED;
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return true;
  if (peer.uid != ::geteuid()) {
    spdlog::warn("refused a client of user id {} (pid {})", peer.uid, peer.pid);
    turn_away(fd.get(), EACCES, "this emulator belongs to user id " + std::to_string(::geteuid()));
    return true;
  }
  const auto pid = static_cast<std::uint32_t>(peer.pid);
  if (const auto reason = reason_against(pid)) {
    turn_away(fd.get(), reason->code, reason->text);
    return true;
  }
  accept_(std::move(fd), pid);
  return true;
}

std::optional<control::Error> Listener::reason_against(std::uint32_t pid) const {
  if (descriptors_.may_take(pid)) return std::nullopt;
  return control::Error{EMFILE, "process " + std::to_string(pid) + " has " +
                                    std::to_string(descriptors_.held_by(pid)) +
                                    " descriptors of this emulator, and " +
                                    std::to_string(descriptors_.left()) +
                                    " are left for all others: no process may have more than that"};
}

void Listener::refuse_for_want_of_descriptors() {
  if (!spare_) return pause();
  spare_.reset();
  const UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (fd) {
    spdlog::error("out of descriptors with {} clients; raise `ulimit -n`", clients_.size());
    turn_away(fd.get(), EMFILE,
              "the emulator has no descriptor left; raise `ulimit -n` before `verbena up`");
  }
  spare_ = spare_descriptor();
}

void Listener::pause() {
  reactor_.unwatch(listening_.get());
  reactor_.after(kPauseNs, [this] {
    if (!listening_) return;
    if (!spare_) spare_ = spare_descriptor();
    reactor_.watch(listening_.get(), [this] { accept_all(); });
  });
}

}  // namespace verbena::daemon
