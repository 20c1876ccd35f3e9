// SPDX-License-Identifier: BSD-2-Clause
// One client's connection: its bytes in and out, and what the daemon knows of it. The server
// decides what the messages mean, and owns the session.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reactor.hpp"
#include "shares.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/control/journal_ring.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/fabric/extension.hpp"
#include "verbena/fabric/port.hpp"

namespace verbena::daemon {

class Session {
 public:
  using Id = fabric::ClientId;

  struct Context {
    fabric::Port* port;
    std::uint32_t slot;
    std::vector<std::uint32_t> extra_slots;
    bool is_elsewhere = false;  // in another network namespace than the emulator

    bool has_slot(std::uint32_t number) const {
      return number == slot || std::ranges::find(extra_slots, number) != extra_slots.end();
    }
  };
  struct Events {
    std::function<void(Session&, control::Incoming)> on_message;
    // Called for bytes that are no message of this protocol, and at the end of the connection. The
    // server then removes the session.
    std::function<void(Session&, const control::Error&)> on_end;
  };

  // The most bytes that may wait for a client that does not read. All its connections together have
  // no more than its share.
  static constexpr std::size_t kBacklogBytesMax = 4u << 20;
  // A client for which more bytes wait is behind: other clients' requests are not passed on to it,
  // so that they cannot cause it to be cut off.
  static constexpr std::size_t kBehindBytes = 64u << 10;
  // The most messages without an answer that are taken in one turn, so that other sessions have
  // theirs.
  static constexpr int kBurst = 32;

  Session(Id session_id, control::UniqueFd fd, std::uint32_t pid, Reactor& reactor, Shares& shares,
          Events events);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start();

  template <typename Message>
  void send(const Message& message, std::uint32_t sequence, std::span<const int> fds = {}) {
    send_packet(control::encode(message, sequence), fds);
  }
  void send_packet(std::span<const std::uint8_t> packet, std::span<const int> fds);
  // Sends a message that matters only until a newer one of its kind is known. It replaces one that
  // was not read yet, so a client may be stopped for long, whatever happens meanwhile.
  template <typename Message>
  void send_news(Message message, std::uint32_t sequence, std::span<const int> fds = {}) {
    send_news(Message::kType, message, sequence, fds);
  }
  // Sends news in which `kind` names the messages that replace each other.
  template <typename Message>
  void send_news(control::MessageType kind, Message message, std::uint32_t sequence,
                 std::span<const int> fds) {
    const auto older = news_.find(kind);
    if (older == news_.end()) return send_kept(kind, control::encode(message, sequence), fds);
    if constexpr (requires { message.changes; }) {
      const auto before =
          control::decode<Message>(std::span(older->second->packet).subspan(control::kHeaderSize));
      if (before) message.changes |= before->changes;
    }
    replace(*older->second, control::encode(message, sequence), fds);
  }
  // Calls `then` once the client has read everything, never at once. Only one call may wait.
  void when_read(std::function<void()> then);
  bool is_behind() const { return backlog_bytes_ > kBehindBytes; }
  // Handles what has come up to now: the messages that await no answer and the next that does, or
  // all messages.
  enum class CatchUp : std::uint8_t { kPosted, kAll };
  void catch_up(CatchUp what = CatchUp::kPosted);
  // Sends only if the socket takes the message now. Returns true if it did.
  bool send_or_drop(std::span<const std::uint8_t> packet, std::span<const int> fds = {});
  void refuse(std::uint32_t sequence, const control::Error& error);
  // Answers with Ack, or refuses.
  void answer(std::uint32_t sequence, const control::Outcome<control::Done>& outcome);
  // Decodes a message. Refuses a malformed one.
  template <typename Message>
  std::optional<Message> decoded(const control::Incoming& in) {
    auto message = control::decode<Message>(in.payload);
    if (message) return std::move(*message);
    refuse(in.header.sequence, message.error());
    return std::nullopt;
  }
  // Closes the connection, because of this error.
  void end(const control::Error& error);
  // Returns the abstract name that the client's end is bound to; empty: none.
  std::string peer_name() const;

  const Id id;
  fabric::ClientInfo info;
  bool greeted = false;
  std::optional<Context> context;
  // State of the context: whether it is a further engine, the program's image that opened it
  // (process_stat.hpp), the journal that it writes, and how it said that it ends.
  bool is_further_engine = false;
  std::string image;
  control::JournalReader journal;
  std::optional<control::JournalKind> last_words;

 private:
  struct Waiting {
    std::vector<std::uint8_t> packet;
    std::vector<control::UniqueFd> fds;
    std::optional<control::MessageType> kind;  // kind of news, for a message that is news
    // Returns how much of the client's share the message takes.
    std::size_t size() const { return packet.size() + sizeof(Waiting); }
  };

  void on_readable();
  enum class Received : std::uint8_t { kNone, kPosted, kAny };
  Received receive();
  void keep_for_later(std::span<const std::uint8_t> packet, std::span<const int> fds,
                      std::optional<control::MessageType> kind = std::nullopt);
  void send_kept(control::MessageType kind, std::span<const std::uint8_t> packet,
                 std::span<const int> fds);
  void replace(Waiting& older, std::vector<std::uint8_t> packet, std::span<const int> fds);
  // Returns false if the client may have no more.
  bool take_share_of(const Waiting& waiting);
  void give_back_share_of(const Waiting& waiting);
  void flush();

  control::UniqueFd fd_;
  Reactor& reactor_;
  Shares& shares_;
  Events events_;
  std::deque<Waiting> backlog_;
  std::map<control::MessageType, Waiting*> news_;  // points into backlog_
  std::function<void()> on_read_;
  std::size_t backlog_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace verbena::daemon
