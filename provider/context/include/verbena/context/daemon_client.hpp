// SPDX-License-Identifier: BSD-2-Clause
// An engine's connection to the daemon. Any thread may ask. A thread that asks handles the messages
// that come before its answer; the progress thread reads the others. Messages are handled one at a
// time, under this client's lock, which is taken before all other locks of a context.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "verbena/base/lock.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/link/uncancelled.hpp"

namespace verbena::provider {

// Handles what the daemon says. Both functions are called under the client's lock.
class DaemonListener {
 public:
  // May throw.
  virtual void on_message(control::Incoming&& message) = 0;
  // The daemon is gone, or does not speak our version of the protocol.
  virtual void on_lost(const char* reason) noexcept = 0;

 protected:
  ~DaemonListener() = default;
};

class DaemonClient {
 public:
  using Descriptors = std::array<control::UniqueFd, control::kMaxFds>;

  DaemonClient(control::Channel channel, DaemonListener& listener)
      : channel_(std::move(channel)), listener_(listener) {}

  int fd() const noexcept { return channel_.fd(); }
  std::mutex& lock() noexcept { return lock_; }

  // Asks a question and returns the answer. Handles messages that come meanwhile.
  template <typename Reply, typename Request>
  control::Outcome<Reply> ask(const Request& request) {
    const std::lock_guard guard(lock_);
    return ask_locked<Reply>(request);
  }
  // Asks under the caller's lock, if something must be done with the answer before the next
  // message.
  template <typename Reply, typename Request>
  control::Outcome<Reply> ask_locked(const Request& request, Descriptors* fds = nullptr) {
    if (is_cut_off_.read()) return control::fail(EBADF, "the connection was closed here");
    return channel_.call<Reply>(
        request, control::kDefaultTimeoutMs, fds,
        [this](control::Incoming&& message) { listener_.on_message(std::move(message)); });
  }
  // For use before other threads know of the client: messages that come meanwhile are lost.
  control::Channel& channel() noexcept { return channel_; }
  // Sends a message that has no answer, if the daemon can take it now; any lock may be held.
  // `sequence` is that of the question that this message answers. Returns false if it was not sent.
  template <typename Message>
  bool tell(const Message& message, std::uint32_t sequence = 0,
            std::span<const int> fds = {}) noexcept {
    try {
      return tell_packet(control::encode(message, sequence), fds);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  bool tell_packet(std::span<const std::uint8_t> packet, std::span<const int> fds = {}) noexcept {
    if (is_cut_off_.read()) return false;
    const link::Uncancelled uncancelled;
    return control::send_packet(channel_.fd(), packet, fds, MSG_DONTWAIT).ok();
  }
  // Sends an answer, and waits until it can be sent; under the lock.
  template <typename Message>
  void answer(const Message& message, std::uint32_t sequence) {
    (void)channel_.send(message, sequence);
  }

  // The program has closed the descriptor. The connection does not use its number any more.
  void cut_off() noexcept { is_cut_off_.publish(true); }

  // Reads one message, if there is one. Returns false if it cannot be read now because another
  // thread awaits an answer.
  bool read_one() noexcept;

 private:
  std::mutex lock_;
  Published<bool> is_cut_off_{false};
  control::Channel channel_;
  DaemonListener& listener_;
};

}  // namespace verbena::provider
