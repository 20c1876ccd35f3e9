// SPDX-License-Identifier: BSD-2-Clause
// Whom an engine has asked the emulator for a ring to. The ring comes once the peer has had a turn
// to accept it; queue pairs that get the same peer meanwhile need not ask as well. The second, the
// fourth, the eighth ... of them do: a request may have been lost, and a slot that was nobody's may
// be somebody's by now. Any thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "verbena/link/peer_link.hpp"

namespace verbena::provider {

class AskedPeers {
 public:
  // Whether this queue pair is one that asks.
  bool must_ask(const link::Peer& peer) {
    const std::lock_guard guard(lock_);
    Entry& entry = entry_of(peer);
    if (!(entry.peer == peer)) entry = {peer, 0};
    return std::has_single_bit(++entry.times);
  }
  // The ring is there, or the peer is gone: the next asks.
  void forget(const link::Peer& peer) {
    const std::lock_guard guard(lock_);
    Entry& entry = entry_of(peer);
    if (entry.peer == peer) entry.times = 0;
  }

 private:
  // Peers that share a place ask once too often, no more.
  struct Entry {
    link::Peer peer;
    std::uint32_t times = 0;
  };
  Entry& entry_of(const link::Peer& peer) {
    return entries_[(peer.slot + peer.address.bytes.back()) % entries_.size()];
  }

  std::mutex lock_;
  std::array<Entry, 32> entries_;
};

}  // namespace verbena::provider
