// SPDX-License-Identifier: BSD-2-Clause
// Who has a shared ring to whom. Makes a ring when a context asks for one, gives it to the reader
// and, when that one looks into it, to the writer; keeps it mapped, so that it can end it when
// either has died. Owned by the server, on its thread.
//
//   asked for --> offered to the reader --> given to the writer --> ended with either context
//
// A context that answers nothing leaves the other one on UDP; one that answers nonsense ends no
// ring but its own.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>

#include "session.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/ring_messages.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/link/shared_ring.hpp"

namespace verbena::daemon {

class RingBroker {
 public:
  // In each direction; each ring costs a mapping here and may hold a megabyte.
  static constexpr std::size_t kRingsPerContext = 128;
  // Until the writer has it: ours, and the one that is on its way to the reader.
  static constexpr std::size_t kDescriptorsPerRing = 2;

  explicit RingBroker(Shares& shares) : shares_(shares) {}

  // `reader` is the context that the request names, or null if there is none.
  void on_request(Session& writer, Session* reader, const control::RingRequest& request);
  void on_accepted(Session& writer, Session& reader, const control::RingAccepted& accepted,
                   const control::UniqueFd& handle);
  // The reader had no socket there, and so no use for a ring, when it was offered one.
  void on_address_opened(Session& reader, const IpAddress& address);
  // While it still has its context.
  void on_context_closed(Session& gone);
  std::size_t size() const { return rings_.size(); }

 private:
  // Of the writer's share, who asked for it.
  struct Ring {
    Session* writer;
    Session* reader;
    link::SharedRing memory;
    control::UniqueFd fd;  // until the writer has it
  };
  struct Key {
    Session::Id writer;
    Session::Id reader;
    IpAddress from;  // an address of the writer's port
    IpAddress to;    // and one of the reader's
    auto operator<=>(const Key&) const = default;
  };
  using Rings = std::map<Key, Ring>;
  struct Count {
    std::size_t outbound = 0;
    std::size_t inbound = 0;
  };

  std::string reason_against(const Session& writer, const Session* reader) const;
  // Returns why there is none; empty: it is made and offered.
  std::string make(Session& writer, Session& reader, const Key& key);
  void offer(const Key& key, const Ring& ring);
  void give_back_descriptors(Ring& ring);
  Rings::iterator erase(Rings::iterator ring);

  Shares& shares_;
  Rings rings_;
  std::map<Session::Id, Count> counts_;
};

}  // namespace verbena::daemon
