// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/peer_link.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "outbound_rings.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/wire/bth.hpp"

namespace verbena::link {
namespace {

// Packets that are taken from one ring before the next ring is read.
constexpr std::size_t kRingTurn = 64;
// Bytes that are taken from one ring before the next ring is read. A requester that READs asks for
// more when it learns that something has come (README.md).
constexpr std::size_t kRingTurnBytes = 32 * 1024;
constexpr std::size_t kDrainMax = 4096;
// How often linger() looks, and at how many rings at most. A look at one ring takes some 3 ns.
constexpr int kLooks = 16;
constexpr std::size_t kLingerRingsMax = 4;
// The most packets that are read from a ring before it goes: as many as a ring of ours holds.
constexpr std::size_t kLastWordsMax = SharedRing::kDefaultCapacity / 64;

Peer peer_of(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet) {
  const wire::Destination& to = batch.destination(packet);
  return {to.address, wire::BthView(batch.start_of(packet).data()).dest_qp().slot(), to.source};
}

}  // namespace

// Aligned to 128 bytes because processors fetch cache lines in pairs. Otherwise two engines'
// readers would share a pair, and each packet of one would slow the other.
struct alignas(128) PeerLink::Inbound {
  Peer peer;
  RingReader reader;
  wire::RxDatagram datagram;  // the last one; its addresses are the same for all
  bool is_new = true;
};

// A change that the receiving thread makes: a ring to read, or, without a ring, a peer to forget.
struct PeerLink::Pending {
  Peer peer;
  std::optional<SharedRing> ring;
};

PeerLink::PeerLink(std::unique_ptr<UdpLink> udp, const Peer& self, DropCounters& drops,
                   OwnedCounter* ring_packets)
    : udp_(std::move(udp)),
      self_(self),
      drops_(drops),
      outbound_(std::make_unique<OutboundRings>(statistics_, ring_packets)) {}

PeerLink::~PeerLink() {
  for (Inbound& in : inbound_) in.reader.ring().close();
  for (Pending& p : pending_) {
    if (p.ring) p.ring->close();
  }
}

bool PeerLink::add_source(std::uint8_t source, std::unique_ptr<UdpLink> udp) {
  if (!further_.add(source, std::move(udp))) return false;
  outbound_->expect_some();
  {
    const Guard guard(change_lock_);
    has_pending_.publish(true);
  }
  udp_->kick(self_.address, self_.slot);
  return true;
}

// A number that was never given leads to the port's own link.
UdpLink& PeerLink::udp_from_further(std::uint8_t source) const noexcept {
  UdpLink* further = further_.udp(source);
  return further != nullptr ? *further : *udp_;
}

IpAddress PeerLink::address_of(std::uint8_t source) const noexcept {
  const IpAddress* further = further_.address(source);
  return further != nullptr ? *further : self_.address;
}

void PeerLink::want_header_fields() noexcept {
  udp_->want_header_fields();
  further_.want_header_fields();
}

bool PeerLink::add_outbound(const Peer& peer, SharedRing ring, WakerHandle handle) {
  return outbound_->add(peer, std::move(ring), std::move(handle));
}

void PeerLink::add_inbound(const Peer& peer, SharedRing ring) { change({peer, std::move(ring)}); }

void PeerLink::remove(const Peer& peer) {
  outbound_->remove(peer);
  change({peer, std::nullopt});
}

void PeerLink::abandon_rings() noexcept {
  outbound_->abandon();
  inbound_.clear();
  pending_.clear();
  has_pending_.publish(false);
}

// Wakes a sleeping receiver, because it must see the new ring before a writer can ask to wake it.
void PeerLink::change(Pending change) {
  {
    const Guard guard(change_lock_);
    pending_.push_back(std::move(change));
    has_pending_.publish(true);
  }
  udp_->kick(self_.address, self_.slot);
}

std::optional<Packs> PeerLink::packs_to(const Peer& peer) const noexcept {
  const auto there = outbound_->reader_packs(peer);
  if (!there) return std::nullopt;
  return packs_.read() == Packs::kNothing ? Packs::kNothing : *there;
}

Carrier PeerLink::carrier_to(const Peer& peer) noexcept {
  return packs_to(peer) ? Carrier::kRing : Carrier::kUdp;
}

void PeerLink::leave_sockets() noexcept {
  const int nothing =
      beyond_streams(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (nothing < 0) return;
  udp_->leave_socket_for(nothing);
  further_.leave_sockets_for(nothing);
  ::close(nothing);
}

bool PeerLink::hears_by_ring(const Peer& peer) const noexcept {
  return std::any_of(inbound_.begin(), inbound_.end(), [&](const Inbound& in) {
    return in.peer == peer && !in.is_new && !in.reader.is_closed();
  });
}

wire::Path::Packing PeerLink::packing(const Peer& peer) noexcept {
  wire::Path::Packing packing;
  packing.is_inspected = packs_.read() == Packs::kNothing;
  const auto packs = packs_to(peer);
  if (!packs) {
    packing.is_sealed = true;
    packing.is_bundled = udp_from(peer.source).takes_bundles(peer.address);
    return packing;
  }
  packing.borrowed_least = wire::Path::Packing::kBorrowedLeast;
  if (*packs == Packs::kMerged) packing.merged_most = wire::kMergedMost;
  return packing;
}

void PeerLink::set_packs(Packs allowed) {
  {
    const Guard guard(change_lock_);
    if (packs_.read() == allowed) return;
    packs_.publish(allowed);
    has_pending_.publish(true);
  }
  udp_->kick(self_.address, self_.slot);
}

std::size_t PeerLink::send(wire::TxBatch& batch, Qpn flow) noexcept {
  if (outbound_->is_empty()) return udp_->send(batch, flow);
  const auto packets = batch.packets();
  std::size_t taken = 0;
  while (taken < packets.size()) {
    const Peer peer = peer_of(batch, packets[taken]);
    std::size_t end = taken + 1;
    while (end < packets.size() && packets[end].destination == packets[taken].destination &&
           peer_of(batch, packets[end]).slot == peer.slot) {
      ++end;
    }
    const std::size_t count = end - taken;
    const auto by_ring = send_by_ring(batch, taken, count, peer);
    const std::size_t sent = by_ring ? *by_ring : send_by_udp(batch, taken, count, flow);
    taken += sent;
    if (sent < count) break;
  }
  return taken;
}

// A merged packet was made for a ring that has gone since: it is lost here, and the queue pair
// repeats it as ordinary packets.
std::size_t PeerLink::send_by_udp(wire::TxBatch& batch, std::size_t first, std::size_t count,
                                  Qpn flow) noexcept {
  const auto packets = batch.packets().subspan(first, count);
  UdpLink& udp = udp_from(batch.destination(packets.front()).source);
  const auto is_packed = [](const wire::TxBatch::Packet& p) { return p.psns != 0; };
  std::size_t taken = 0;
  while (taken < count) {
    if (is_packed(packets[taken])) {
      ++taken;
      continue;
    }
    const auto rest = packets.subspan(taken);
    const auto whole =
        static_cast<std::size_t>(std::find_if(rest.begin(), rest.end(), is_packed) - rest.begin());
    const std::size_t sent = udp.send_part(batch, first + taken, whole, flow);
    taken += sent;
    if (sent < whole) break;
  }
  return taken;
}

// Returns nothing if there is no ring to this peer.
std::optional<std::size_t> PeerLink::send_by_ring(const wire::TxBatch& batch, std::size_t first,
                                                  std::size_t count, const Peer& peer) noexcept {
  const auto put = outbound_->put(batch, first, count, peer);
  if (!put) return std::nullopt;
  if (put->needs_datagram) kick(peer);
  return put->taken;
}

wire::Path::Room PeerLink::room(const Peer& peer, TimeNs now) noexcept {
  return outbound_->room(peer, now);
}

std::optional<wire::Path::Reading> PeerLink::reading(const Peer& peer) noexcept {
  return outbound_->reading(peer);
}

void PeerLink::nudge(TimeNs now) noexcept {
  if (outbound_->is_empty()) return;
  const auto without_handle = outbound_->nudge(now);
  if (without_handle) kick(*without_handle);
}

std::uint64_t PeerLink::ring_packets_sent() const noexcept { return outbound_->packets_sent(); }

std::size_t PeerLink::send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept {
  if (batch.empty() || carrier_to(peer_of(batch, batch.packets().front())) != Carrier::kUdp) {
    for (std::size_t i = 0; i < batch.size(); ++i) drops_.count(DropReason::kInjected);
    return batch.size();
  }
  return udp_from(batch.destination(batch.packets().front()).source)
      .send_damaged(batch, flow, damage);
}

std::size_t PeerLink::receive(RxSink& sink, std::size_t budget) noexcept {
  std::size_t count = has_pending_.read() ? adopt_changes(sink) : 0;
  if (!inbound_.empty()) count += receive_from_rings(sink, budget);
  if (udp_rounds_.is_due(count > 0)) {
    const std::size_t from_udp = receive_from_udp(sink, budget);
    udp_rounds_.looked(from_udp > 0 || inbound_.empty());
    count += from_udp;
  }
  if (is_sleeping_ && has_read_udp_) count += announce_sleep_again(sink, budget);
  return count;
}

bool PeerLink::linger() noexcept {
  if (inbound_.size() > kLingerRingsMax) return false;
  const auto has_packet = [](const Inbound& in) { return in.reader.has_packet(); };
  for (int look = 0; look < kLooks; ++look) {
    if (std::any_of(inbound_.begin(), inbound_.end(), has_packet)) return true;
    look_anew();
  }
  return false;
}

// This thread may have read a datagram that was to wake another thread, which therefore sleeps on.
// The writer does not wake a reader twice in one sleep, so a new sleep is announced here; what came
// meanwhile is read afterwards.
std::size_t PeerLink::announce_sleep_again(RxSink& sink, std::size_t budget) noexcept {
  has_read_udp_ = false;
  for (Inbound& in : inbound_) in.reader.begin_sleep();
  return receive_from_rings(sink, budget);
}

std::size_t PeerLink::receive_from_udp(RxSink& sink, std::size_t budget) noexcept {
  const std::size_t count = udp_->receive(sink, budget) + further_.receive(sink, budget);
  if (count > 0) has_read_udp_ = true;
  return count;
}

std::size_t PeerLink::receive_from_rings(RxSink& sink, std::size_t budget) noexcept {
  std::size_t count = 0;
  bool has_broken = false;
  for (Inbound& in : inbound_) {
    count += receive_from(in, sink, std::min(budget, kRingTurn));
    has_broken = has_broken || in.reader.is_broken();
  }
  if (has_broken) forget_broken();
  return count;
}

void PeerLink::forget_broken() noexcept {
  drops_.count(DropReason::kMalformed);
  statistics_.rings_broken.add(
      std::erase_if(inbound_, [](const Inbound& in) { return in.reader.is_broken(); }));
}

std::size_t PeerLink::receive_from(Inbound& in, RxSink& sink, std::size_t budget) noexcept {
  std::size_t from_udp = 0;
  if (in.is_new) {
    if (!in.reader.has_packet()) return 0;
    from_udp = greet(in, sink);
  }
  wire::RxDatagram& datagram = in.datagram;
  std::size_t count = 0;
  std::size_t length = 0;
  while (count < budget && length < kRingTurnBytes) {
    if (!in.reader.take(datagram)) break;
    const std::size_t size = datagram.bytes.size();
    sink.on_datagram(datagram);
    ++count;
    length += size;
  }
  in.reader.release();
  statistics_.ring_packets_received.add(count);
  return from_udp + count;
}

// Everything that the peer sent earlier by UDP is in the socket by now, because loopback delivers
// at once, but for what another thread of the peer is just sending: that is lost.
std::size_t PeerLink::greet(Inbound& in, RxSink& sink) noexcept {
  std::size_t count = 0;
  while (count < kDrainMax) {
    const std::size_t n = receive_from_udp(sink, kRingTurn);
    if (n == 0) break;
    count += n;
  }
  in.is_new = false;
  return count;
}

// Returns how many packets were read from rings that are gone now.
std::size_t PeerLink::adopt_changes(RxSink& sink) noexcept {
  std::vector<Pending> changes;
  {
    const Guard guard(change_lock_);
    changes.swap(pending_);
    has_pending_.publish(false);
  }
  further_.adopt();
  std::size_t count = 0;
  for (Pending& p : changes) {
    for (Inbound& in : inbound_) {
      if (!(in.peer == p.peer)) continue;
      for (std::size_t left = kLastWordsMax; left != 0;) {
        const std::size_t words = receive_from(in, sink, left);
        if (words == 0) break;
        count += words;
        left -= std::min(left, words);
      }
    }
    std::erase_if(inbound_, [&](const Inbound& in) { return in.peer == p.peer; });
    if (!p.ring) continue;
    wire::RxDatagram datagram;
    datagram.source = p.peer.address;
    datagram.destination = address_of(p.peer.source);
    datagram.came_by_ring = true;
    inbound_.push_back({p.peer, RingReader(std::move(*p.ring)), datagram});
    has_had_rings_.publish(true);
    if (is_sleeping_) inbound_.back().reader.begin_sleep();
  }
  for (Inbound& in : inbound_) in.reader.ring().set_packs(packs_.read());
  return count;
}

bool PeerLink::prepare_wait() noexcept {
  is_sleeping_ = true;
  has_read_udp_ = false;
  for (Inbound& in : inbound_) in.reader.begin_sleep();
  const auto has_packet = [](const Inbound& in) { return in.reader.has_packet(); };
  if (!has_pending_.read() && std::none_of(inbound_.begin(), inbound_.end(), has_packet)) {
    return true;
  }
  end_wait();
  return false;
}

// A peer that once had a ring to this link still has a handle and may have used it since.
void PeerLink::silence() noexcept {
  if (has_had_rings_.read_relaxed()) waker_.silence();
}

// Makes the next receive() look everywhere.
void PeerLink::end_wait() noexcept {
  is_sleeping_ = false;
  for (Inbound& in : inbound_) in.reader.end_sleep();
  udp_rounds_ = {};
}

}  // namespace verbena::link
