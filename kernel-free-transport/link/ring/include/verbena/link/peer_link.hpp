// SPDX-License-Identifier: BSD-2-Clause
// Chooses the path to each peer: a shared ring to a context on the same host that was given one,
// UDP to everybody else. Owned by a context in place of its UdpLink, which it owns in turn. Rings
// come and go at run time, by the emulator's word; the queue pairs notice nothing but speed.
//
// Order is kept when a peer moves from UDP to a ring: the first packet of a new ring waits until
// everything was read that UDP held when it was seen, and loopback delivers before a send returns.
// From there on nothing of that peer's comes by UDP, and who pretends is found out (hears_by_ring).
// A full ring means "later", not UDP. A ring that ends (its reader has died, or one side broke the
// rules) leads back to UDP.
//
// A reader that sleeps is woken by its waker, or, by a writer that has no handle of it, through
// its UDP socket. One that does not sleep is expected to read soon; a writer that waits for it may
// nudge it in the same way. While rings are busy, UDP is looked at less often.
//
// In a ring, several of a network's packets travel as one merged packet.
//
// Threads: as Link says; the ring administration at any time from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/drop_reason.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/link/further_addresses.hpp"
#include "verbena/link/link.hpp"
#include "verbena/link/ring_waker.hpp"
#include "verbena/link/shared_ring.hpp"
#include "verbena/link/udp_link.hpp"
#include "verbena/link/udp_rounds.hpp"

namespace verbena::link {

// A context, as its peers see it, and by which address of its own (Destination::source) one of them
// talks to it: the same two by other addresses are others, with rings of their own.
struct Peer {
  IpAddress address;
  std::uint32_t slot = 0;
  std::uint8_t source = 0;
  bool operator==(const Peer&) const = default;
};

enum class Carrier : std::uint8_t { kUdp, kRing };

// The ring to a peer, for who asks of it often: it is looked for again only when rings were added
// since. One thread at a time.
struct RingTo {
  Peer peer;
  std::uint32_t additions = 0;              // when it was looked for
  std::optional<std::uint16_t> place = {};  // where it was found
};

struct PeerStatistics {
  Counter ring_full;  // times that send() took less than all because of a ring
  Counter kicks;      // sleeping readers woken
  Counter nudges;     // readers woken who did not sleep and did not read
  OwnedCounter ring_packets_received;
  OwnedCounter rings_broken;  // ended because the peer broke the rules
};

class OutboundRings;

class PeerLink final : public Link {
 public:
  static constexpr std::size_t kPeersMax = 128;
  static constexpr std::size_t kSourcesMax = FurtherAddresses::kNumbersMax;

  // `self` is how the peers see this context. `ring_packets`: where the packets that go into rings
  // are counted, PortCounters::kRingPlaces of them; null: in a place of its own. Outlives it.
  PeerLink(std::unique_ptr<UdpLink> udp, const Peer& self, DropCounters& drops,
           OwnedCounter* ring_packets = nullptr);
  // Ends its rings.
  ~PeerLink() override;

  // A further address of the port: what has its number as Destination::source is sent by this link,
  // and what comes there is received with the rest. Once for each number, from 1 on below
  // kSourcesMax. False: the system has nothing left to wait on it.
  bool add_source(std::uint8_t source, std::unique_ptr<UdpLink> udp);
  // Packets to `peer` go into this ring from the next send on. False if there are kPeersMax.
  // `handle` is that of the peer's waker.
  bool add_outbound(const Peer& peer, SharedRing ring, WakerHandle handle = {});
  // Packets in this ring come from `peer`.
  void add_inbound(const Peer& peer, SharedRing ring);
  // In both directions. What is in the inbound ring is received before the ring goes: a peer that
  // ends in an orderly way says its last words there.
  void remove(const Peer& peer);
  // In a forked child, where the rings are not mapped and the locks may be held by threads that
  // are not there: no ring is touched from here on.
  void abandon_rings() noexcept;
  // The ring to this peer, if there is one, has room for a batch. Of a reader that has read nothing
  // of a full ring for kStuckAfter nobody expects it, and what is sent to it is lost.
  static constexpr TimeNs kStuckAfter = 200'000'000;
  wire::Path::Room room(RingTo& ring, TimeNs now) noexcept;
  // How far the ring to this peer was written and read; nothing without one.
  std::optional<wire::Path::Reading> reading(RingTo& ring) noexcept;
  Carrier carrier_to(const Peer& peer) noexcept;
  // Under the receive lock: this peer has begun to write to its ring, and has not ended it. Until
  // then, and afterwards, its packets may come by UDP.
  bool hears_by_ring(const Peer& peer) const noexcept;
  // Which packets of rings may stand for several, out and in; at first, all. What peers have sent
  // otherwise until they see it still comes in.
  void set_packs(Packs allowed);
  wire::Path::Packing packing(RingTo& ring) noexcept;

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override;
  // A ring damages nothing: its packets are lost at once.
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept override;
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept override;
  // Under the receive lock, for an application that does nothing but poll: looks at the rings for
  // about as long as an empty receive() takes, so that a packet is seen when it comes and not in
  // the next poll. True: one is there. It buys 15 to 18% of ib_write_lat and ib_send_lat of 8 B.
  bool linger() noexcept;
  // Under the receive lock, as UdpLink says.
  void want_header_fields() noexcept;
  // Under the receive lock: the next empty round looks at UDP, too.
  void look_at_udp() noexcept { udp_rounds_.look_soon(); }
  // For whoever polls in vain, under the receive lock: a reader that does not sleep, and before
  // whom something of ours has lain for long, is woken as if it slept.
  void nudge(TimeNs now) noexcept;
  int wait_fd() const noexcept override { return udp_->wait_fd(); }
  // The same for what comes to further addresses; -1: there are none.
  int further_wait_fd() const noexcept { return further_.wait_fd(); }
  int wake_fd() const noexcept override { return waker_.fd(); }
  int wake_edges() const noexcept override { return waker_.edges(); }
  void silence() noexcept override;
  bool prepare_wait() noexcept override;
  void end_wait() noexcept override;
  std::uint32_t capacity_packets(std::size_t packet_bytes) const noexcept override {
    return udp_->capacity_packets(packet_bytes);
  }

  IpAddress address_of(std::uint8_t source) const noexcept override;

  const PeerStatistics& statistics() const { return statistics_; }
  std::uint64_t ring_packets_sent() const noexcept;
  UdpLink& udp() { return *udp_; }
  const Peer& self() const { return self_; }
  // For writers of rings to this link; -1: none.
  int waker_handle() const noexcept { return waker_.handle(); }

 private:
  struct Inbound;
  struct Pending;

  UdpLink& udp_from(std::uint8_t source) const noexcept {
    return source == 0 ? *udp_ : udp_from_further(source);
  }
  UdpLink& udp_from_further(std::uint8_t source) const noexcept;
  void kick(const Peer& peer) noexcept { udp_from(peer.source).kick(peer.address, peer.slot); }

  // What both ends of the ring to this peer take; nothing without a ring.
  std::optional<Packs> packs_to(RingTo& ring) const noexcept;
  std::optional<std::size_t> send_by_ring(const wire::TxBatch& batch, std::size_t first,
                                          std::size_t count, const Peer& peer) noexcept;
  std::size_t send_by_udp(wire::TxBatch& batch, std::size_t first, std::size_t count,
                          Qpn flow) noexcept;
  void change(Pending change);
  [[gnu::cold]] std::size_t adopt_changes(RxSink& sink) noexcept;
  std::size_t announce_sleep_again(RxSink& sink, std::size_t budget) noexcept;
  std::size_t receive_from_udp(RxSink& sink, std::size_t budget) noexcept;
  std::size_t receive_from_rings(RxSink& sink, std::size_t budget) noexcept;
  std::size_t receive_from(Inbound& in, RxSink& sink, std::size_t budget) noexcept;
  // Returns how many packets came by UDP.
  [[gnu::cold]] std::size_t greet(Inbound& in, RxSink& sink) noexcept;
  [[gnu::cold]] void forget_broken() noexcept;

  std::unique_ptr<UdpLink> udp_;
  RingWaker waker_;
  Peer self_;
  DropCounters& drops_;
  PeerStatistics statistics_;

  std::unique_ptr<OutboundRings> outbound_;
  Lock change_lock_;  // guards the list of changes
  Published<Packs> packs_{Packs::kMerged};
  std::vector<Pending> pending_;
  Published<bool> has_pending_{false};
  FurtherAddresses further_;

  // Under the receive lock.
  std::vector<Inbound> inbound_;
  Published<bool> has_had_rings_{false};
  UdpRounds udp_rounds_;
  bool is_sleeping_ = false;  // between prepare_wait() and end_wait()
  bool has_read_udp_ = false;
};

}  // namespace verbena::link
