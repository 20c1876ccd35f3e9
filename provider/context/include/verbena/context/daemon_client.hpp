// SPDX-License-Identifier: BSD-2-Clause
// An engine's connection to the daemon. Any thread may ask; who asks handles what comes before the
// answer, and the progress thread reads the rest. Messages are handled one at a time, under the
// lock here, which is taken before all others of a context.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "verbena/control/channel.hpp"
#include "verbena/link/uncancelled.hpp"

namespace verbena::provider {

// Who handles what the daemon says; both under the lock.
class DaemonListener {
 public:
  // May throw.
  virtual void on_message(control::Incoming&& message) = 0;
  // The daemon is gone, or does not speak our language.
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

  // A question and its answer; messages that come meanwhile are handled.
  template <typename Reply, typename Request>
  control::Outcome<Reply> ask(const Request& request) {
    const std::lock_guard guard(lock_);
    return ask_locked<Reply>(request);
  }
  // The same under the lock, for who must do something with the answer before the next message.
  template <typename Reply, typename Request>
  control::Outcome<Reply> ask_locked(const Request& request, Descriptors* fds = nullptr) {
    return channel_.call<Reply>(
        request, control::kDefaultTimeoutMs, fds,
        [this](control::Incoming&& message) { listener_.on_message(std::move(message)); });
  }
  // Before anybody else knows of the client: messages that come meanwhile are lost.
  control::Channel& channel() noexcept { return channel_; }
  // What awaits no answer, if the daemon takes it now; with any lock held. `sequence`: of the
  // question that it answers. False: it does not.
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
    const link::Uncancelled uncancelled;
    return control::send_packet(channel_.fd(), packet, fds, MSG_DONTWAIT).ok();
  }
  // An answer that is waited for to go; under the lock.
  template <typename Message>
  void answer(const Message& message, std::uint32_t sequence) {
    (void)channel_.send(message, sequence);
  }

  // Reads one message, if there is one. False: it cannot be read now, because a thread awaits an
  // answer.
  bool read_one() noexcept;

 private:
  std::mutex lock_;
  control::Channel channel_;
  DaemonListener& listener_;
};

}  // namespace verbena::provider
