// SPDX-License-Identifier: BSD-2-Clause
// Counters of the packets that one context passes through its port, and of its errors. They may be
// in memory that the emulator reads (control/stats_page.hpp): it sums the counters of all contexts
// of a port, even of a context that was killed at any point. Each event is therefore counted when
// it happens, in the counter that is read; nothing is published later.
//
// Counters that change with each packet or message have one writer at a time, which uses plain
// stores: the thread that holds a send buffer owns that buffer's part of `sent`, and the thread
// that holds the receive lock owns `received`. The other counters change rarely, and any thread
// adds to them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbena/base/drop_reason.hpp"
#include "verbena/base/lock.hpp"

namespace verbena {

// X(enumerator, name in `verbena status`, hw_counters and `rdma statistic`, how it is read)
//
// The first eight are the port's counters of IBTA Vol 1, 16.1.3.5 (PortCountersExtended); octets
// count from the BTH to the pad. The others have the names of the kernel's drivers (rxe, mlx5). A
// completion that only reports a flushed request is no error.
#define VERBENA_PORT_COUNTERS(X)                                                         \
  X(kXmitPackets, "port_xmit_packets", sent.packets())                                   \
  X(kXmitBytes, "port_xmit_bytes", sent.bytes())                                         \
  X(kRcvPackets, "port_rcv_packets", received.packets.read())                            \
  X(kRcvBytes, "port_rcv_bytes", received.bytes.read())                                  \
  X(kUnicastXmitPackets, "unicast_xmit_packets", sent.packets() - multicast_sent.read()) \
  X(kUnicastRcvPackets, "unicast_rcv_packets",                                           \
    received.packets.read() - received.multicast.read())                                 \
  X(kMulticastXmitPackets, "multicast_xmit_packets", multicast_sent.read())              \
  X(kMulticastRcvPackets, "multicast_rcv_packets", received.multicast.read())            \
  X(kRetransmittedPackets, "retransmitted_packets", retransmitted.read())                \
  X(kDuplicateRequests, "duplicate_request", drops.read(DropReason::kDuplicate))         \
  X(kOutOfSequence, "out_of_sequence", drops.read(DropReason::kOutOfSequence))           \
  X(kReceivedRnrNaks, "rcvd_rnr_err", rnr_naks_received.read())                          \
  X(kSentRnrNaks, "send_rnr_err", rnr_naks_sent.read())                                  \
  X(kReceivedSequenceNaks, "rcvd_seq_err", sequence_naks_received.read())                \
  X(kAckTimeouts, "local_ack_timeout_err", ack_timeouts.read())                          \
  X(kRetriesExceeded, "retry_exceeded_err", retries_exceeded.read())                     \
  X(kRnrRetriesExceeded, "retry_rnr_exceeded_err", rnr_retries_exceeded.read())          \
  X(kSentSends, "sent_sends", sent.sends())                                              \
  X(kSentWrites, "rdma_sends", sent.writes())                                            \
  X(kReceivedReads, "rx_read_requests", received.reads.read())                           \
  X(kReceivedWrites, "rx_write_requests", received.writes.read())                        \
  X(kReceivedAtomics, "rx_atomic_requests", received.atomics.read())                     \
  X(kReceivedSends, "rdma_recvs", received.sends.read())                                 \
  X(kRequesterErrors, "req_cqe_error", requester_errors.read())                          \
  X(kResponderErrors, "resp_cqe_error", responder_errors.read())                         \
  X(kRingPackets, "shared_ring_packets", ring_packets_sum())                             \
  X(kSendFailures, "udp_send_failures", send_failures.read())

enum class PortCounter : std::uint8_t {
#define VERBENA_COUNTER_ENUM(id, text, from) id,
  VERBENA_PORT_COUNTERS(VERBENA_COUNTER_ENUM)
#undef VERBENA_COUNTER_ENUM
};

inline constexpr std::array kPortCounterNames{
#define VERBENA_COUNTER_NAME(id, text, from) std::string_view{text},
    VERBENA_PORT_COUNTERS(VERBENA_COUNTER_NAME)
#undef VERBENA_COUNTER_NAME
};
inline constexpr std::size_t kPortCounters = kPortCounterNames.size();

// What the context has sent. The thread that holds a send buffer counts in that buffer's part.
class SentCounters {
 public:
  static constexpr std::size_t kParts = 4;

  // Messages whose first packet was sent for the first time.
  struct Messages {
    std::uint32_t sends = 0;
    std::uint32_t writes = 0;
  };
  void add(std::size_t part, std::uint64_t packets, std::uint64_t bytes,
           const Messages& messages) noexcept {
    parts_[part].packets.add(packets);
    parts_[part].bytes.add(bytes);
    parts_[part].sends.add(messages.sends);
    parts_[part].writes.add(messages.writes);
  }
  std::uint64_t packets() const noexcept { return sum(&Part::packets); }
  std::uint64_t bytes() const noexcept { return sum(&Part::bytes); }  // from the BTH on
  std::uint64_t sends() const noexcept { return sum(&Part::sends); }
  std::uint64_t writes() const noexcept { return sum(&Part::writes); }

 private:
  struct alignas(64) Part {
    OwnedCounter packets, bytes, sends, writes;
  };
  std::uint64_t sum(OwnedCounter Part::*of) const noexcept {
    std::uint64_t all = 0;
    for (const Part& part : parts_) all += (part.*of).read();
    return all;
  }
  std::array<Part, kParts> parts_;
};

struct PortCounters {
  struct alignas(64) Received {
    OwnedCounter packets, bytes, multicast;
    OwnedCounter sends, writes, reads, atomics;  // messages that were carried out
  };
  // Entries of `ring_packets`. The holder of a ring's lock writes the ring's entry
  // (link/ring/src/outbound_rings.hpp).
  static constexpr std::size_t kRingPlaces = 256;

  SentCounters sent;
  Received received;
  alignas(64) Counter multicast_sent;
  Counter retransmitted;
  Counter rnr_naks_received, rnr_naks_sent, sequence_naks_received;
  Counter ack_timeouts, retries_exceeded, rnr_retries_exceeded;
  Counter requester_errors, responder_errors;
  Counter send_failures;
  DropCounters drops;
  std::array<OwnedCounter, kRingPlaces> ring_packets;

  std::uint64_t read(PortCounter which) const noexcept {
    switch (which) {
#define VERBENA_COUNTER_CASE(id, text, from) \
  case PortCounter::id:                      \
    return from;
      VERBENA_PORT_COUNTERS(VERBENA_COUNTER_CASE)
#undef VERBENA_COUNTER_CASE
    }
    return 0;
  }

 private:
  std::uint64_t ring_packets_sum() const noexcept {
    std::uint64_t all = 0;
    for (const OwnedCounter& place : ring_packets) all += place.read();
    return all;
  }
};

}  // namespace verbena
