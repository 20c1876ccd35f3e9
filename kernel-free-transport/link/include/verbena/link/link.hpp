// SPDX-License-Identifier: BSD-2-Clause
// What carries datagrams between ports: a UDP socket, a shared ring, or a decorator around one of
// them. A link belongs to one context (one slot) and lives as long as it. It promises no more than
// a network does: packets may be lost, doubled or overtake each other, but what arrives is what was
// sent.
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
  // The same for several at once.
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

  // Sends the batch's packets in order and returns how many were taken; fewer than all means that
  // the way out is full, and the caller offers the rest again later. A packet for which there is
  // no path (no route, a message from a firewall) counts as taken: a network loses packets.
  // Any thread. Calls for one `flow` (the sending queue pair) are serialised by the caller, calls
  // for different flows run concurrently. The packets' bytes stay, their ICRC room is written.
  virtual std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept = 0;

  // Sends the batch's packets so that the receiver must notice damage and drop them. A link whose
  // medium cannot damage anything loses them at once.
  virtual std::size_t send_damaged(wire::TxBatch& batch, Qpn, Damage) noexcept {
    return batch.size();
  }

  // As send(), of packets that an injected rule has changed, repeated or held back.
  virtual std::size_t send_ruled(wire::TxBatch& batch, Qpn flow) noexcept {
    return send(batch, flow);
  }

  // An injected fault took this packet of the batch, and nobody will send it. For who keeps a
  // record.
  virtual void note_lost(const wire::TxBatch&, const wire::TxBatch::Packet&, Qpn) noexcept {}

  // Receives what is there, at least one packet if any is, about `budget` at most (a coalesced
  // buffer is not split), and gives each to the sink. Returns how many packets were taken off the
  // link, dropped ones included: 0 means that nothing was there, anything else that more may be.
  // One thread at a time (the caller's receive lock).
  virtual std::size_t receive(RxSink& sink, std::size_t budget) noexcept = 0;

  // Readable (level) while receive() would find something, for a thread that called
  // prepare_wait().
  virtual int wait_fd() const noexcept = 0;
  // Readable as well, where peers have another way to wake such a thread, until silence(); -1: they
  // have none. The same for the link's whole life.
  virtual int wake_fd() const noexcept { return -1; }
  // In its place for an epoll that looks for edges: there is one each time.
  virtual int wake_edges() const noexcept { return -1; }
  // Before prepare_wait(), if the thread is going to block on wake_fd().
  virtual void silence() noexcept {}

  // Under the receive lock, before a thread blocks on the two: false if there is something to
  // receive now. Whoever got true calls end_wait() when it is awake, also under the lock.
  virtual bool prepare_wait() noexcept { return true; }
  virtual void end_wait() noexcept {}

  // Some links give up packets by time alone: receive() shall be called at this moment even though
  // wait_fd() is quiet. Read it after send() and after receive(). Any thread.
  virtual TimeNs next_timeout() const noexcept { return kNever; }

  // The address that packets with this Destination::source are sent from.
  virtual IpAddress address_of(std::uint8_t /*source*/) const noexcept { return {}; }

  // How many packets of this size (BTH .. pad) the receiving side holds while nobody reads. What a
  // window may be, if the far end is made like this one.
  virtual std::uint32_t capacity_packets(std::size_t packet_bytes) const noexcept = 0;

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

 protected:
  Link() = default;
};

}  // namespace verbena::link
