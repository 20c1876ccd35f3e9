// SPDX-License-Identifier: BSD-2-Clause
// The rings to the peers of a PeerLink: which peers have one, and what is put into it. Any thread
// may put, add and remove.
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
  // `packets_sent`: kTableSize counters, one for each entry; null: this object has its own.
  OutboundRings(PeerStatistics& statistics, OwnedCounter* packets_sent);
  // Closes the rings.
  ~OutboundRings();

  // Returns whether no ring was added or expected yet.
  bool is_empty() const noexcept { return !has_any_.read(); }
  // From now on the link looks where each packet goes, even if there is no ring.
  void expect_some() noexcept { has_any_.publish(true); }
  // Returns false if there are too many rings.
  bool add(const Peer& peer, SharedRing ring, WakerHandle handle);
  void remove(const Peer& peer) noexcept;
  // Forgets all rings and leaves them to the parent. For a forked child.
  void abandon() noexcept;

  struct Put {
    std::size_t taken = 0;
    bool needs_datagram = false;  // the reader sleeps, and only a datagram wakes it
  };
  // Puts packets [first, first + count), as many as there is room for. Returns nothing if there is
  // no ring to this peer (any more).
  std::optional<Put> put(const wire::TxBatch& batch, std::size_t first, std::size_t count,
                         const Peer& peer) noexcept;

  // For one thread at a time, when it can only wait for an answer: each call looks after one ring.
  // Wakes a reader that does not sleep but has left packets unread for kPatience. Returns the
  // reader's peer if only a datagram can wake it.
  static constexpr TimeNs kPatience = 32'000;
  std::optional<Peer> nudge(TimeNs now) noexcept;

  // Returns what the reader at the other end accepts; nothing without a ring.
  std::optional<Packs> reader_packs(const Peer& peer) const noexcept;
  wire::Path::Room room(const Peer& peer, TimeNs now) const noexcept;
  std::optional<wire::Path::Reading> reading(const Peer& peer) const noexcept;
  std::uint64_t packets_sent() const noexcept;

  static constexpr std::size_t kTableSize = PortCounters::kRingPlaces;

 private:
  struct Entry;

  // How many packets an entry has sent, since when that number stands, and whether its reader was
  // looked after since then.
  struct Waiting {
    std::uint64_t sent = 0;
    TimeNs since = 0;
    bool is_over = false;
  };
  static_assert(kTableSize >= 2 * PeerLink::kPeersMax);

  Entry* find(const Peer& peer) const noexcept;
  // Returns what `look` says of the entry of the ring to this peer, under its lock; `otherwise`
  // without a ring.
  template <typename Answer, typename Look>
  Answer of_ring(const Peer& peer, Answer otherwise, Look&& look) const noexcept;
  Entry* place_for(const Peer& peer) noexcept;
  // Returns whether the entry's ring leads to this peer, and drops a ring that has ended. Under the
  // entry's lock.
  static bool leads_to(Entry& entry, const Peer& peer) noexcept;
  // Returns true if only a datagram will wake the reader. Under the entry's lock, after packets
  // were put.
  bool needs_datagram(Entry& entry) noexcept;
  void count_sent(const Entry& entry, std::span<const wire::TxBatch::Packet> packets) noexcept;
  OwnedCounter& sent_to(const Entry& entry) noexcept;

  PeerStatistics& statistics_;
  Lock change_lock_;                  // guards which peers stand in the table
  std::unique_ptr<Entry[]> entries_;  // a hash table with linear probing
  // Packets sent by each entry, to all the peers that it has had; side by side, because they are
  // often summed.
  std::unique_ptr<OwnedCounter[]> own_packets_sent_;
  OwnedCounter* packets_sent_;
  Published<bool> has_any_{false};
  // For nudge(): the entries that were ever taken, in that order; the number of looks so far; and
  // what was seen of each entry.
  std::array<std::uint16_t, kTableSize> taken_{};
  Published<std::size_t> taken_count_{0};
  std::uint64_t looks_ = 0;
  std::array<Waiting, kTableSize> waiting_{};
};

}  // namespace verbena::link
