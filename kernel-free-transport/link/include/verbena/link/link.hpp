// SPDX-License-Identifier: BSD-2-Clause
// Carries datagrams between ports: a UDP socket, a shared ring, or a decorator around one of them.
// A link belongs to one context (one slot) and lives as long as the context. It promises no more
// than a network does: packets may be lost, doubled or overtake each other, but what arrives is
// what was sent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::link {

// Takes what receive() finds.
class RxSink {
 public:
  // `datagram.bytes` are valid during the call only.
  virtual void on_datagram(const wire::RxDatagram& datagram) noexcept = 0;
  // Takes several datagrams at once.
  virtual void on_run(const wire::RxRun& run) noexcept {
    for (std::uint32_t i = 0; i < run.count; ++i) on_datagram(run.at(i));
  }

 protected:
  ~RxSink() = default;
};

// Which bit of a packet to flip after it was sealed; taken modulo the packet's length.
struct Damage {
  std::uint32_t bit = 0;
};

class Link {
 public:
  virtual ~Link() = default;

  // Sends the batch's packets in order and returns how many were taken. Fewer than all means that
  // the way out is full, and the caller offers the rest again later. A packet for which there is no
  // path (no route, a message from a firewall) counts as taken: a network loses packets. Any
  // thread. Calls for one `flow` (the sending queue pair) are serialised by the caller, calls for
  // different flows run concurrently. The packets' bytes stay, their ICRC room is written.
  virtual std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept = 0;

  // Sends the batch's packets so that the receiver must notice damage and drop them. A link whose
  // medium cannot damage anything loses them at once.
  virtual std::size_t send_damaged(wire::TxBatch& batch, Qpn, Damage) noexcept {
    return batch.size();
  }

  // Does what send() does, for packets that an injected rule has changed, repeated or held back.
  virtual std::size_t send_ruled(wire::TxBatch& batch, Qpn flow) noexcept {
    return send(batch, flow);
  }

  // Says that an injected fault took this packet of the batch, so that it will not be sent. For a
  // link that keeps a record.
  virtual void note_lost(const wire::TxBatch&, const wire::TxBatch::Packet&, Qpn) noexcept {}

  // Receives what is there and gives each packet to the sink: at least one packet if there is any,
  // and about `budget` at most (a coalesced buffer is not split). Returns how many packets were
  // taken off the link, dropped ones included: 0 means that nothing was there, anything else that
  // more may be. One thread at a time (the caller's receive lock).
  virtual std::size_t receive(RxSink& sink, std::size_t budget) noexcept = 0;

  // Readable (level) while receive() would find something, for a thread that called
  // prepare_wait().
  virtual int wait_fd() const noexcept = 0;
  // A second descriptor, through which peers may wake such a thread; it stays readable until
  // silence(). -1 if peers have no such way. It does not change in the link's life.
  virtual int wake_fd() const noexcept { return -1; }
  // Replaces wake_fd() for an epoll that looks for edges: each wake-up is an edge.
  virtual int wake_edges() const noexcept { return -1; }
  // Called before prepare_wait() if the thread is going to block on wake_fd().
  virtual void silence() noexcept {}

  // Called under the receive lock before a thread blocks on the two descriptors. Returns false if
  // there is something to receive now. After true, the thread calls end_wait() when it is awake,
  // also under the lock.
  virtual bool prepare_wait() noexcept { return true; }
  virtual void end_wait() noexcept {}

  // The moment at which receive() has to be called even though wait_fd() is quiet, for links that
  // give up packets by time alone. To be read after send() and after receive(). Any thread.
  virtual TimeNs next_timeout() const noexcept { return kNever; }

  // The address that packets with this Destination::source are sent from.
  virtual IpAddress address_of(std::uint8_t /*source*/) const noexcept { return {}; }

  // How many packets of this size (BTH .. pad) the receiving side holds while it does not read. A
  // window may be that large if the far end is made like this one.
  virtual std::uint32_t capacity_packets(std::size_t packet_bytes) const noexcept = 0;

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

 protected:
  Link() = default;
};

}  // namespace verbena::link
