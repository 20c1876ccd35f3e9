// SPDX-License-Identifier: BSD-2-Clause
// One end of a control connection. It has no lock: one thread at a time sends and one at a time
// receives (they may be two threads); `call` does both. It never raises SIGPIPE and retries EINTR
// within its deadline. It has no background thread and no global state.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "verbena/control/codec.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::control {

inline constexpr int kWaitForever = -1;
inline constexpr int kDefaultTimeoutMs = 10'000;

// A message as it was received. Closes the descriptors that the receiver has not taken.
struct Incoming {
  Header header;
  std::vector<std::uint8_t> payload;
  std::array<UniqueFd, kMaxFds> fds;
  std::size_t fd_count = 0;

  MessageType type() const { return header.message_type(); }
};

// Calls `use` with the message, if it is of this type and complete.
template <typename Message, typename Use>
void handle(const Incoming& message, Use&& use) {
  if (message.type() != Message::kType) return;
  if (auto decoded = decode<Message>(message.payload)) use(std::move(*decoded));
}

// Send or receive one message without a Channel, for the daemon's own event loop. `flags` is 0 or
// MSG_DONTWAIT. Error codes: EAGAIN if nothing is there or the buffer is full, ECONNRESET if the
// other side has closed (in an orderly way or not), EPROTO if the bytes are no message of this
// protocol.
Outcome<Done> send_packet(int fd, std::span<const std::uint8_t> packet, std::span<const int> fds,
                          int flags);
Outcome<Incoming> receive_packet(int fd, int flags);
// Receives into the caller's buffer, which saves a system call. A message that does not fit is lost
// and gives EPROTO.
Outcome<Incoming> receive_packet(int fd, int flags, std::span<std::uint8_t> room);
// Receives nothing more. The caller uses it before a close whose reason the other side must read:
// if a socket is closed with unread messages, the kernel reports a reset to the other side in place
// of the last message.
void stop_receiving(int fd) noexcept;

class Channel {
 public:
  enum class Ownership { kOwned, kBorrowed };

  Channel() = default;
  explicit Channel(UniqueFd fd) : fd_(std::move(fd)) {}
  // With kBorrowed the descriptor stays open when the channel is destroyed.
  Channel(int fd, Ownership ownership) : fd_(fd), borrowed_(ownership == Ownership::kBorrowed) {}
  Channel(Channel&&) = default;
  Channel& operator=(Channel&& other) noexcept {
    if (borrowed_) (void)fd_.release();
    fd_ = std::move(other.fd_);
    borrowed_ = other.borrowed_;
    next_sequence_ = other.next_sequence_;
    return *this;
  }
  ~Channel() {
    if (borrowed_) (void)fd_.release();
  }

  int fd() const { return fd_.get(); }
  int release() { return fd_.release(); }
  bool is_open() const { return fd_.get() >= 0; }

  template <typename Message>
  Outcome<Done> send(const Message& message, std::uint32_t sequence,
                     std::span<const int> fds = {}) {
    return send_packet(fd_.get(), encode(message, sequence), fds, 0);
  }

  // Waits for one message. ETIMEDOUT if none comes in time.
  Outcome<Incoming> receive(int timeout_ms);

  // Called with what the daemon sends on its own (PortEvent, SetFault, ...) while a reply is
  // awaited.
  using Unasked = std::function<void(Incoming&&)>;

  // Sends a request and waits for its reply. A Refused becomes the error. `fds`, if given, receives
  // the reply's descriptors.
  template <typename Reply, typename Request>
  Outcome<Reply> call(const Request& request, int timeout_ms = kDefaultTimeoutMs,
                      std::array<UniqueFd, kMaxFds>* fds = nullptr,
                      const Unasked& unasked = nullptr) {
    Outcome<Incoming> reply =
        exchange(encode(request, next_sequence_), Reply::kType, timeout_ms, unasked);
    if (!reply) return Failure<Error>{reply.error()};
    if (fds != nullptr) *fds = std::move(reply->fds);
    return decode<Reply>(reply->payload);
  }

 private:
  Outcome<Incoming> exchange(std::span<const std::uint8_t> request, MessageType expected,
                             int timeout_ms, const Unasked& unasked);
  // Returns why the other side has closed the connection, if it said so.
  std::optional<Error> last_words();

  UniqueFd fd_;
  bool borrowed_ = false;
  std::uint32_t next_sequence_ = 1;
};

// Returns the error that a Refused carries.
Error refusal(const Incoming& message);

}  // namespace verbena::control
