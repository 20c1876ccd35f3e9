// SPDX-License-Identifier: BSD-2-Clause
// Who is connected: clients by their numbers, contexts by port and slot. Also the numbers of what
// the daemon tells and asks them. All parts of the server know their clients from here: they keep
// the number of a client, and find nobody by it when that one has gone. Owned by the server, on its
// thread.
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
  // Nothing is sent to it from here on. Null: it had gone.
  std::unique_ptr<Session> remove(Session::Id id);
  // Null: it has gone.
  Session* find(Session::Id id) const;
  std::size_t size() const { return sessions_.size(); }

  // The session has, or is about to lose, its context.
  void add_context(Session& session);
  void remove_context(const Session& session);
  const Contexts& contexts() const { return contexts_; }
  // Of one device; empty: of all.
  std::vector<Session*> contexts_of(const std::string& device) const;
  // Whose first slot at this address that is; null: nobody's.
  Session* context_of(const IpAddress& address, std::uint32_t slot) const;
  // The same of any slot.
  Session* context_with_slot(const fabric::Port& port, std::uint32_t slot) const;

  // Numbers of what the daemon sends on its own.
  std::uint32_t next_sequence() { return control::kDaemonSequence | next_sequence_++; }
  // Never 0.
  std::uint32_t next_ticket() {
    if (next_ticket_ == 0) ++next_ticket_;
    return next_ticket_++;
  }
  // The news takes the place of what a context has not read of its kind.
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
