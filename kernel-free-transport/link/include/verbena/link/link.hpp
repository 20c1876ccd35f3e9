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

  // Says that this packet of the batch will not be sent, because an injected fault took it, or
  // because it only repeats a packet that a rule still holds back. For a link that keeps a record.
  enum class Unsent : std::uint8_t { kLost, kWithheld };
  virtual void note_unsent(const wire::TxBatch&, const wire::TxBatch::Packet&, Qpn,
                           Unsent) noexcept {}

  // Receives what is there and gives each packet to the sink: at least one packet if there is any,
  // and about `budget` at most (a coalesced buffer is not split). Returns how many packets were
  // taken off the link, dropped ones included: 0 means that nothing was there, anything else that
  // more may be. One thread at a time (the caller's receive lock).
  virtual std::size_t receive(RxSink& sink, std::size_t budget) noexcept = 0;

  // The address that packets with this Destination::source are sent from.
  virtual IpAddress address_of(std::uint8_t /*source*/) const noexcept { return {}; }

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

 protected:
  Link() = default;
};

}  // namespace verbena::link
