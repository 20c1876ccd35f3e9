// SPDX-License-Identifier: BSD-2-Clause
#include "outbound_rings.hpp"

#include <cstring>
#include <utility>

namespace verbena::link {
namespace {

constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

// Returns a key that is never 0. Different peers may share a key: the user of an entry compares the
// peer.
std::uint64_t key_of(const Peer& peer) {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  std::memcpy(&high, peer.address.bytes.data(), sizeof high);
  std::memcpy(&low, peer.address.bytes.data() + 8, sizeof low);
  const std::uint64_t context = peer.slot | std::uint64_t{peer.source} << Qpn::kSlotBits;
  std::uint64_t mixed = (high ^ (low + context * 0x100000001b3u)) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  return mixed | 1;
}

}  // namespace

// An entry keeps its key until another peer takes its place. Its ring comes and goes under the
// lock, which also makes all senders one writer.
struct OutboundRings::Entry {
  Published<std::uint64_t> key{0};
  Lock lock;
  Peer peer;
  std::optional<RingWriter> writer;
  WakerHandle handle;
  // Where the reader of a full ring stood when it was looked at, and since when.
  std::uint64_t stood_at = kNowhere;
  TimeNs stood_since = 0;

  bool has_ring_to(const Peer& other) const noexcept {
    return peer == other && writer && !writer->is_closed();
  }
  void drop_ring() noexcept {
    writer.reset();
    WakerHandle(std::move(handle));  // closes the handle
  }
};

OutboundRings::OutboundRings(PeerStatistics& statistics, OwnedCounter* packets_sent)
    : statistics_(statistics),
      entries_(std::make_unique<Entry[]>(kTableSize)),
      own_packets_sent_(packets_sent == nullptr ? std::make_unique<OwnedCounter[]>(kTableSize)
                                                : nullptr),
      packets_sent_(packets_sent != nullptr ? packets_sent : own_packets_sent_.get()) {}

OutboundRings::~OutboundRings() {
  for (std::size_t i = 0; i < kTableSize; ++i) {
    if (entries_[i].writer) entries_[i].writer->ring().close();
  }
}

bool OutboundRings::add(const Peer& peer, SharedRing ring, WakerHandle handle) {
  const Guard guard(change_lock_);
  Entry* entry = place_for(peer);
  if (entry == nullptr) return false;
  if (entry->key.read() == 0) {
    const std::size_t count = taken_count_.read();
    taken_[count] = static_cast<std::uint16_t>(entry - entries_.get());
    taken_count_.publish(count + 1);
  }
  {
    const Guard entry_guard(entry->lock);
    entry->peer = peer;
    entry->writer.emplace(std::move(ring));
    entry->handle = std::move(handle);
    entry->stood_at = kNowhere;
    entry->key.publish(key_of(peer));
  }
  has_any_.publish(true);
  return true;
}

void OutboundRings::remove(const Peer& peer) noexcept {
  Entry* entry = find(peer);
  if (entry == nullptr) return;
  const Guard guard(entry->lock);
  if (!(entry->peer == peer)) return;
  // If the reader is still there, it receives our packets by UDP from now on.
  if (entry->writer) entry->writer->ring().close();
  entry->drop_ring();
}

void OutboundRings::abandon() noexcept {
  has_any_.publish(false);
  for (std::size_t i = 0; i < kTableSize; ++i) {
    entries_[i].key.publish(0);
    entries_[i].drop_ring();
  }
}

OutboundRings::Entry* OutboundRings::find(const Peer& peer) const noexcept {
  const std::uint64_t key = key_of(peer);
  for (std::size_t step = 0; step < kTableSize; ++step) {
    Entry& entry = entries_[(key + step) % kTableSize];
    const std::uint64_t found = entry.key.read();
    if (found == key) return &entry;
    if (found == 0) break;
  }
  return nullptr;
}

// Returns the peer's entry; else the first on its probe path that has no ring; null if there are
// too many rings. Under change_lock_.
OutboundRings::Entry* OutboundRings::place_for(const Peer& peer) noexcept {
  if (Entry* known = find(peer)) return known;
  const std::uint64_t key = key_of(peer);
  std::size_t rings = 0;
  for (std::size_t i = 0; i < kTableSize; ++i) {
    const Guard guard(entries_[i].lock);
    if (entries_[i].writer) ++rings;
  }
  if (rings >= PeerLink::kPeersMax) return nullptr;
  for (std::size_t step = 0; step < kTableSize; ++step) {
    Entry& entry = entries_[(key + step) % kTableSize];
    const Guard guard(entry.lock);
    if (!entry.writer) return &entry;
  }
  return nullptr;
}

std::optional<OutboundRings::Put> OutboundRings::put(const wire::TxBatch& batch, std::size_t first,
                                                     std::size_t count, const Peer& peer) noexcept {
  Entry* entry = find(peer);
  if (entry == nullptr) return std::nullopt;
  const Guard guard(entry->lock);
  if (!leads_to(*entry, peer)) return std::nullopt;
  Put put;
  put.taken = entry->writer->put(batch, first, count);
  count_sent(*entry, batch.packets().subspan(first, put.taken));
  if (put.taken < count) statistics_.ring_full.add();
  put.needs_datagram = needs_datagram(*entry);
  return put;
}

bool OutboundRings::leads_to(Entry& entry, const Peer& peer) noexcept {
  if (!(entry.peer == peer) || !entry.writer) return false;
  if (!entry.writer->is_closed()) return true;
  entry.drop_ring();
  return false;
}

bool OutboundRings::needs_datagram(Entry& entry) noexcept {
  if (!entry.writer->should_wake_reader()) return false;
  statistics_.kicks.add();
  return !entry.handle.wake();
}

std::optional<Peer> OutboundRings::nudge(TimeNs now) noexcept {
  const std::size_t count = taken_count_.read();
  if (count == 0) return std::nullopt;
  const std::size_t place = taken_[++looks_ % count];
  Waiting& waiting = waiting_[place];
  if (const std::uint64_t sent = packets_sent_[place].read(); sent != waiting.sent) {
    waiting = {sent, now, false};
    return std::nullopt;
  }
  if (waiting.is_over || now < waiting.since + kPatience) return std::nullopt;
  waiting.is_over = true;
  Entry& entry = entries_[place];
  const Guard guard(entry.lock);
  if (!entry.writer || entry.writer->is_closed() || !entry.writer->is_unread()) return std::nullopt;
  statistics_.nudges.add();
  return entry.handle.wake() ? std::nullopt : std::optional(entry.peer);
}

OwnedCounter& OutboundRings::sent_to(const Entry& entry) noexcept {
  return packets_sent_[static_cast<std::size_t>(&entry - entries_.get())];
}

void OutboundRings::count_sent(const Entry& entry,
                               std::span<const wire::TxBatch::Packet> packets) noexcept {
  std::uint64_t count = packets.size();
  for (const wire::TxBatch::Packet& p : packets) {
    if (p.psns != 0) count += p.psns - 1;
  }
  sent_to(entry).add(count);
}

template <typename Answer, typename Look>
Answer OutboundRings::of_ring(const Peer& peer, Answer otherwise, Look&& look) const noexcept {
  Entry* entry = find(peer);
  if (entry == nullptr) return otherwise;
  const Guard guard(entry->lock);
  return entry->has_ring_to(peer) ? look(*entry) : otherwise;
}

std::optional<Packs> OutboundRings::reader_packs(const Peer& peer) const noexcept {
  return of_ring(peer, std::optional<Packs>(),
                 [](Entry& entry) { return std::optional(entry.writer->reader_packs()); });
}

std::optional<wire::Path::Reading> OutboundRings::reading(const Peer& peer) const noexcept {
  return of_ring(peer, std::optional<wire::Path::Reading>(),
                 [](Entry& entry) { return std::optional(entry.writer->reading()); });
}

wire::Path::Room OutboundRings::room(const Peer& peer, TimeNs now) const noexcept {
  using Room = wire::Path::Room;
  return of_ring(peer, Room::kUnknown, [now](Entry& entry) {
    if (entry.writer->is_half_empty()) return Room::kSome;
    if (const std::uint64_t tail = entry.writer->reader_position(); tail != entry.stood_at) {
      entry.stood_at = tail;
      entry.stood_since = now;
    }
    return now < entry.stood_since + PeerLink::kStuckAfter ? Room::kNone : Room::kSome;
  });
}

std::uint64_t OutboundRings::packets_sent() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kTableSize; ++i) sum += packets_sent_[i].read();
  return sum;
}

}  // namespace verbena::link
