// SPDX-License-Identifier: BSD-2-Clause
// Knows which context has a shared ring to which. Makes a ring when a context asks for one, gives
// it to the reader and, when the reader looks into it, to the writer. Keeps it mapped, so that it
// can end the ring when either of them has died. Owned by the server, on its thread.
//
//   asked for --> offered to the reader --> given to the writer --> ended with either context
//
// A context that answers nothing leaves the other one on UDP, whose UC queue pairs then send little
// for a second. A context that answers nonsense ends no ring but its own.
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
  // The most rings of a context in each direction. Each costs a mapping here and may hold a
  // megabyte.
  static constexpr std::size_t kRingsPerContext = 128;
  // The descriptors of a ring until the writer has it: ours, and the one on its way to the reader.
  static constexpr std::size_t kDescriptorsPerRing = 2;

  explicit RingBroker(Shares& shares) : shares_(shares) {}

  // `reader` is the context that the request names, or null if there is none.
  void on_request(Session& writer, Session* reader, const control::RingRequest& request);
  void on_accepted(Session& writer, Session& reader, const control::RingAccepted& accepted,
                   const control::UniqueFd& handle);
  // Offers rings again to a reader that had no socket at this address when they were offered.
  void on_address_opened(Session& reader, const IpAddress& address);
  // Must be called while the session still has its context.
  void on_context_closed(Session& gone);
  std::size_t size() const { return rings_.size(); }

 private:
  // A ring counts in the share of the writer, which asked for it.
  struct Ring {
    Session* writer;
    Session* reader;
    link::SharedRing memory;
    control::UniqueFd fd;  // open until the writer has it
  };
  struct Key {
    Session::Id writer;
    Session::Id reader;
    IpAddress from;  // address of the writer's port
    IpAddress to;    // address of the reader's port
    auto operator<=>(const Key&) const = default;
  };
  using Rings = std::map<Key, Ring>;
  struct Count {
    std::size_t outbound = 0;
    std::size_t inbound = 0;
  };

  std::string reason_against(const Session& writer, const Session* reader) const;
  // Returns why there is no ring; empty: it is made and offered.
  std::string make(Session& writer, Session& reader, const Key& key);
  void offer(const Key& key, const Ring& ring);
  void give_back_descriptors(Ring& ring);
  Rings::iterator erase(Rings::iterator ring);

  Shares& shares_;
  Rings rings_;
  std::map<Session::Id, Count> counts_;
};

}  // namespace verbena::daemon
