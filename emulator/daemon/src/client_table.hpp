// SPDX-License-Identifier: BSD-2-Clause
// Knows the clients by their numbers and the contexts by port and slot. It also numbers what the
// daemon tells and asks them. All parts of the server find their clients here: they keep the number
// of a client, and find none by it when that client has gone. Owned by the server, on its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reactor.hpp"
#include "session.hpp"
#include "shares.hpp"
#include "verbena/base/address.hpp"

namespace verbena::daemon {

class ClientTable final : public fabric::Clients {
 public:
  using Contexts = std::map<std::pair<const fabric::Port*, std::uint32_t>, Session*>;

  ClientTable(Reactor& reactor, Shares& shares) : reactor_(reactor), shares_(shares) {}

  Session& add(control::UniqueFd fd, std::uint32_t pid, Session::Events events);
  // Removes a client, to which nothing is sent from then on. Returns null if it had gone.
  std::unique_ptr<Session> remove(Session::Id id);
  // Returns null if the client has gone.
  Session* find(Session::Id id) const;
  std::size_t size() const { return sessions_.size(); }

  // Called when a session has got its context, and before it loses it.
  void add_context(Session& session);
  void remove_context(const Session& session);
  const Contexts& contexts() const { return contexts_; }
  // Returns the contexts of one device, or of all if `device` is empty.
  std::vector<Session*> contexts_of(const std::string& device) const;
  // Returns the context whose first slot at this address is `slot`; null: none.
  Session* context_of(const IpAddress& address, std::uint32_t slot) const;
  // Returns the context that owns a slot of the port, be it the first or an extra one; null: none.
  Session* context_with_slot(const fabric::Port& port, std::uint32_t slot) const;

  // Returns the number of a message that the daemon sends on its own.
  std::uint32_t next_sequence() { return control::kDaemonSequence | next_sequence_++; }
  // Returns a new ticket, which is never 0.
  std::uint32_t next_ticket() {
    if (next_ticket_ == 0) ++next_ticket_;
    return next_ticket_++;
  }
  // Sends news to the contexts. It replaces news of the same kind that a context has not read.
  template <typename Message>
  void tell_contexts(const std::string& device, const Message& message) {
    const std::uint32_t sequence = next_sequence();
    for (Session* const session : contexts_of(device)) session->send_news(message, sequence);
  }

  const fabric::ClientInfo* info(fabric::ClientId client) const override;
  bool is_called(fabric::ClientId client, const std::string& name) const override;
  void send(fabric::ClientId client, std::span<const std::uint8_t> packet,
            std::span<const int> fds) override;
  void catch_up(fabric::ClientId client) override;

 private:
  Reactor& reactor_;
  Shares& shares_;
  std::map<Session::Id, std::unique_ptr<Session>> sessions_;
  Session::Id next_id_ = 1;
  Contexts contexts_;
  std::uint32_t next_sequence_ = 1;
  std::uint32_t next_ticket_ = 1;
};

}  // namespace verbena::daemon
