// SPDX-License-Identifier: BSD-2-Clause
// The rings to the peers of a PeerLink: who has one, and what is put into it. Any thread may put,
// add and remove.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "verbena/base/port_counters.hpp"
#include "verbena/link/peer_link.hpp"

namespace verbena::link {

class OutboundRings {
 public:
  // `packets_sent`: of kTableSize places, each its own to add to; null: some of its own.
  OutboundRings(PeerStatistics& statistics, OwnedCounter* packets_sent);
  // Closes them.
  ~OutboundRings();

  // Nobody was ever given one, or was expected to be.
  bool is_empty() const noexcept { return !has_any_.read(); }
  // Each packet is looked at from here on, for whom it is.
  void expect_some() noexcept { has_any_.publish(true); }
  // False: there are too many.
  bool add(const Peer& peer, SharedRing ring, WakerHandle handle);
  void remove(const Peer& peer) noexcept;
  // In a forked child: forgets them all, and leaves them to the parent.
  void abandon() noexcept;

  struct Put {
    std::size_t taken = 0;
    bool needs_datagram = false;  // to wake the reader, which sleeps and has no waker for us
  };
  // Packets [first, first + count), as many as there is room for. Nothing: there is no ring to this
  // peer (any more).
  std::optional<Put> put(const wire::TxBatch& batch, std::size_t first, std::size_t count,
                         const Peer& peer) noexcept;

  // For one thread at a time, when it has nothing to do but to wait for an answer: each call looks
  // after one ring. A reader before whom something has lain for kPatience, and who does not sleep,
  // is woken; by a datagram to the one who is returned.
  static constexpr TimeNs kPatience = 32'000;
  std::optional<Peer> nudge(TimeNs now) noexcept;

  // What the reader at the other end takes; nothing without a ring.
  std::optional<Packs> reader_packs(RingTo& ring) const noexcept;
  wire::Path::Room room(RingTo& ring, TimeNs now) const noexcept;
  std::optional<wire::Path::Reading> reading(RingTo& ring) const noexcept;
  std::uint64_t packets_sent() const noexcept;

  static constexpr std::size_t kTableSize = PortCounters::kRingPlaces;

 private:
  struct Entry;

  // What was last put into an entry's ring, and since when it has been that.
  struct Waiting {
    std::uint64_t sent = 0;
    TimeNs since = 0;
    bool is_over = false;
  };
  static_assert(kTableSize >= 2 * PeerLink::kPeersMax);

  Entry* find(const Peer& peer) const noexcept;
  // What `look` says of the ring's entry, under its lock; `otherwise` without a ring.
  template <typename Answer, typename Look>
  Answer of_ring(RingTo& ring, Answer otherwise, Look&& look) const noexcept;
  Entry* place_for(const Peer& peer) noexcept;
  // Under the entry's lock. Whether its ring leads to this peer; one that has ended is given up.
  static bool leads_to(Entry& entry, const Peer& peer) noexcept;
  // So, too, after packets were put. True: only a datagram will wake the reader.
  bool needs_datagram(Entry& entry) noexcept;
  void count_sent(const Entry& entry, std::span<const wire::TxBatch::Packet> packets) noexcept;
  OwnedCounter& sent_to(const Entry& entry) noexcept;

  PeerStatistics& statistics_;
  Lock change_lock_;                  // guards who stands in the table
  std::unique_ptr<Entry[]> entries_;  // a hash table that is probed onwards
  // By each entry's rings, whoever its peers were; side by side, because they are summed often.
  std::unique_ptr<OwnedCounter[]> own_packets_sent_;
  OwnedCounter* packets_sent_;
  Published<bool> has_any_{false};
  Published<std::uint32_t> additions_{0};
  // The places that were ever taken, in that order; how often it was looked, and what was seen of
  // each place.
  std::array<std::uint16_t, kTableSize> taken_{};
  Published<std::size_t> taken_count_{0};
  std::uint64_t looks_ = 0;
  std::array<Waiting, kTableSize> waiting_{};
};

}  // namespace verbena::link
