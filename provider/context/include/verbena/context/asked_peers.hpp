// SPDX-License-Identifier: BSD-2-Clause
// Remembers to which peers an engine has asked the emulator for a ring. The ring comes once the
// peer had a turn to accept it, and queue pairs that get the same peer meanwhile need not ask as
// well. But the second, the fourth, the eighth ... of them ask again, because a request may have
// been lost and a slot that was free may be taken by now. Any thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "verbena/base/types.hpp"
#include "verbena/link/peer_link.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

class AskedPeers {
 public:
  // Returns whether this queue pair is one that asks.
  bool must_ask(const link::Peer& peer, TimeNs now) {
    const std::lock_guard guard(lock_);
    Entry& entry = entry_of(peer);
    if (!(entry.peer == peer)) entry = {peer};
    if (!std::has_single_bit(++entry.times)) return false;
    if (entry.times == 1 || entry.is_refused) entry.since = now;
    entry.is_refused = false;
    return true;
  }
  // The emulator has answered that there will be no ring for now.
  void note_refusal(const link::Peer& peer) {
    const std::lock_guard guard(lock_);
    Entry& entry = entry_of(peer);
    if (entry.peer == peer) entry.is_refused = true;
  }
  // Returns whether a request for a ring to this peer may still be answered. A peer that has ended,
  // or cannot accept a ring, lets nobody know.
  bool is_waiting(const link::Peer& peer, TimeNs now) {
    const std::lock_guard guard(lock_);
    const Entry& entry = entry_of(peer);
    const bool has_asked = entry.peer == peer && entry.times != 0 && !entry.is_refused;
    return has_asked && now < entry.since + times::kRingAwaited;
  }
  // The ring is there, or the peer is gone: the next queue pair asks again.
  void forget(const link::Peer& peer) {
    const std::lock_guard guard(lock_);
    Entry& entry = entry_of(peer);
    if (entry.peer == peer) entry = {peer};
  }

 private:
  // Peers that share an entry cause a needless request at most.
  struct Entry {
    link::Peer peer;
    std::uint32_t times = 0;
    bool is_refused = false;
    TimeNs since = 0;  // of the first request that has no answer
  };
  Entry& entry_of(const link::Peer& peer) {
    return entries_[(peer.slot + peer.address.bytes.back()) % entries_.size()];
  }

  std::mutex lock_;
  std::array<Entry, 32> entries_;
};

}  // namespace verbena::provider
