// SPDX-License-Identifier: BSD-2-Clause
// Chooses the path to each peer: a shared ring to a context on the same host if the emulator made
// one, UDP to all others. Owned by a context in place of its UdpLink, which it owns in turn. Rings
// come and go at run time, as the emulator decides; the queue pairs notice only the speed.
//
// Order is kept when a peer moves from UDP to a ring: the first packet of a new ring waits until
// everything was read that UDP held when that packet was seen (loopback delivers before a send
// returns). From then on no packet of that peer comes by UDP, and a UDP packet in its name is
// detected as false (hears_by_ring). A full ring means "later", not UDP. After a ring has ended
// (its reader has died, or one side broke the rules), packets go by UDP again.
//
// A sleeping reader is woken by its waker or, if the writer has no handle of the waker, through its
// UDP socket. A reader that is awake is expected to read soon; a writer that waits for it may nudge
// it in the same way. While rings are busy, UDP is looked at less often.
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

// A context as one of its peers sees it, and the address of that peer (Destination::source) that
// talks to it. The same context seen from another address is another Peer, with rings of its own.
struct Peer {
  IpAddress address;
  std::uint32_t slot = 0;
  std::uint8_t source = 0;
  bool operator==(const Peer&) const = default;
};

enum class Carrier : std::uint8_t { kUdp, kRing };

struct PeerStatistics {
  Counter ring_full;  // times that send() took less than all because of a ring
  Counter kicks;      // sleeping readers woken
  Counter nudges;     // awake readers that were woken because they did not read
  OwnedCounter ring_packets_received;
  OwnedCounter rings_broken;  // rings that ended because the peer broke the rules
};

class OutboundRings;

class PeerLink final : public Link {
 public:
  static constexpr std::size_t kPeersMax = 128;
  static constexpr std::size_t kSourcesMax = FurtherAddresses::kNumbersMax;

  // `self` is how the peers see this context. `ring_packets`: PortCounters::kRingPlaces counters
  // for the packets that go into rings, which outlive the link; null: the link has its own.
  PeerLink(std::unique_ptr<UdpLink> udp, const Peer& self, DropCounters& drops,
           OwnedCounter* ring_packets = nullptr);
  // Ends the link's rings.
  ~PeerLink() override;

  // Adds a further address of the port: this link sends what has the address's number as
  // Destination::source, and receives what comes there. Once for each number, from 1 on and below
  // kSourcesMax. Returns false if the system cannot wait on the socket.
  bool add_source(std::uint8_t source, std::unique_ptr<UdpLink> udp);
  // Packets to `peer` go into this ring from the next send on. Returns false if there are kPeersMax
  // rings. `handle` belongs to the peer's waker.
  bool add_outbound(const Peer& peer, SharedRing ring, WakerHandle handle = {});
  // Packets in this ring come from `peer`.
  void add_inbound(const Peer& peer, SharedRing ring);
  // Removes the rings in both directions. What the inbound ring holds is received first: a peer
  // that ends in an orderly way leaves its last packets there.
  void remove(const Peer& peer);
  // Receives nothing by UDP any more, so that others can have the port. The numbers of the
  // descriptors stay taken. Uses nothing but system calls.
  void leave_sockets() noexcept;
  // Touches no ring from here on. For a forked child, where the rings are not mapped and threads
  // that do not exist there may hold the locks.
  void abandon_rings() noexcept;
  // Says whether the ring to this peer, if there is one, has room for a batch. If the reader of a
  // full ring has read nothing for kStuckAfter, this link stops waiting for it and answers kSome;
  // what is then sent is lost.
  static constexpr TimeNs kStuckAfter = 200'000'000;
  wire::Path::Room room(const Peer& peer, TimeNs now) noexcept;
  // Says how far the ring to this peer was written and read; nothing without a ring.
  std::optional<wire::Path::Reading> reading(const Peer& peer) noexcept;
  Carrier carrier_to(const Peer& peer) noexcept;
  // Returns whether this peer has begun to write to its ring and has not ended it. Before and
  // afterwards its packets may come by UDP. Under the receive lock.
  bool hears_by_ring(const Peer& peer) const noexcept;
  // Sets whether packets of rings may stand for several, in both directions; at first they may.
  // What peers send before they see the change is still received.
  void set_packs(Packs allowed);
  wire::Path::Packing packing(const Peer& peer) noexcept;

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override;
  // A ring cannot damage packets: those that would go into one are lost at once.
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept override;
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept override;
  // Looks at the rings for about as long as an empty receive() takes, so that a packet is seen when
  // it comes and not in the next poll. Returns whether a packet is there. For an application that
  // does nothing but poll, under the receive lock. Saves 15 to 18% of ib_write_lat and ib_send_lat
  // of 8 B.
  bool linger() noexcept;
  // Does what UdpLink::want_header_fields() does, for all addresses. Under the receive lock.
  void want_header_fields() noexcept;
  // Makes the next empty round look at UDP as well. Under the receive lock.
  void look_at_udp() noexcept { udp_rounds_.look_soon(); }
  // Wakes a reader that does not sleep but has left packets of ours unread for long, as if it
  // slept. For a thread that polls in vain, under the receive lock.
  void nudge(TimeNs now) noexcept;

  // Readable (level) while receive() would find something, for a thread that called
  // prepare_wait().
  int wait_fd() const noexcept { return udp_->wait_fd(); }
  // Readable when something came to a further address; -1 if there are none.
  int further_wait_fd() const noexcept { return further_.wait_fd(); }
  // A further descriptor, through which peers may wake such a thread; it stays readable until
  // silence(). -1 if peers have no such way. It does not change in the link's life.
  int wake_fd() const noexcept { return waker_.fd(); }
  // Replaces wake_fd() for an epoll that looks for edges: each wake-up is an edge.
  int wake_edges() const noexcept { return waker_.edges(); }
  // Called before prepare_wait() if the thread is going to block on wake_fd().
  void silence() noexcept;
  // Called under the receive lock before a thread blocks on these descriptors. Returns false if
  // there is something to receive now. After true, the thread calls end_wait() when it is awake,
  // also under the lock.
  bool prepare_wait() noexcept;
  void end_wait() noexcept;

  IpAddress address_of(std::uint8_t source) const noexcept override;

  const PeerStatistics& statistics() const { return statistics_; }
  std::uint64_t ring_packets_sent() const noexcept;
  UdpLink& udp() { return *udp_; }
  const Peer& self() const { return self_; }
  // The handle of this link's waker, for the writers of rings to it; -1: none.
  int waker_handle() const noexcept { return waker_.handle(); }

 private:
  struct Inbound;
  struct Pending;

  UdpLink& udp_from(std::uint8_t source) const noexcept {
    return source == 0 ? *udp_ : udp_from_further(source);
  }
  UdpLink& udp_from_further(std::uint8_t source) const noexcept;
  void kick(const Peer& peer) noexcept { udp_from(peer.source).kick(peer.address, peer.slot); }

  // Returns what both ends of the ring to this peer accept; nothing without a ring.
  std::optional<Packs> packs_to(const Peer& peer) const noexcept;
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

  // The members below are used under the receive lock.
  std::vector<Inbound> inbound_;
  Published<bool> has_had_rings_{false};
  UdpRounds udp_rounds_;
  bool is_sleeping_ = false;  // between prepare_wait() and end_wait()
  bool has_read_udp_ = false;
};

}  // namespace verbena::link
