// The counters of one context, in one shared page: the provider counts (or copies its sums) into
// it, the daemon reads it whenever somebody asks, and keeps its last values when the context has
// died. Lies in a sealed memfd of kStatsPageSize bytes that the daemon makes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbena/base/drop_reason.hpp"
#include "verbena/base/fault_counters.hpp"

namespace verbena::control {

inline constexpr std::size_t kStatsPageSize = 4096;
inline constexpr std::uint32_t kStatsMagic = 0x54535256;  // "VRST"
inline constexpr std::uint32_t kStatsVersion = 1;

// X(enumerator, name in `verbena status` and hw_counters). The first eight are those of the
// port that IBTA Vol 1, 16.1.3.5 (PortCountersExtended) names; data counts payload octets.
#define VERBENA_PORT_COUNTERS(X)                     \
  X(kXmitPackets, "port_xmit_packets")               \
  X(kXmitBytes, "port_xmit_bytes")                   \
  X(kRcvPackets, "port_rcv_packets")                 \
  X(kRcvBytes, "port_rcv_bytes")                     \
  X(kUnicastXmitPackets, "unicast_xmit_packets")     \
  X(kUnicastRcvPackets, "unicast_rcv_packets")       \
  X(kMulticastXmitPackets, "multicast_xmit_packets") \
  X(kMulticastRcvPackets, "multicast_rcv_packets")   \
  X(kRetransmittedPackets, "retransmitted_packets")  \
  X(kDuplicateRequests, "duplicate_request")         \
  X(kOutOfSequence, "out_of_sequence")               \
  X(kReceivedRnrNaks, "rcvd_rnr_err")                \
  X(kSentRnrNaks, "send_rnr_err")                    \
  X(kReceivedSequenceNaks, "rcvd_seq_err")           \
  X(kAckTimeouts, "local_ack_timeout_err")           \
  X(kRetriesExceeded, "retry_exceeded_err")          \
  X(kRnrRetriesExceeded, "retry_rnr_exceeded_err")   \
  X(kSentSends, "sent_sends")                        \
  X(kSentWrites, "rdma_sends")                       \
  X(kReceivedReads, "rx_read_requests")              \
  X(kReceivedWrites, "rx_write_requests")            \
  X(kReceivedAtomics, "rx_atomic_requests")          \
  X(kReceivedSends, "rdma_recvs")                    \
  X(kRequesterErrors, "req_cqe_error")               \
  X(kResponderErrors, "resp_cqe_error")              \
  X(kRingPackets, "shared_ring_packets")             \
  X(kSendFailures, "udp_send_failures")

enum class PortCounter : std::uint8_t {
#define VERBENA_COUNTER_ENUM(id, text) id,
  VERBENA_PORT_COUNTERS(VERBENA_COUNTER_ENUM)
#undef VERBENA_COUNTER_ENUM
};

inline constexpr std::array kPortCounterNames{
#define VERBENA_COUNTER_NAME(id, text) std::string_view{text},
    VERBENA_PORT_COUNTERS(VERBENA_COUNTER_NAME)
#undef VERBENA_COUNTER_NAME
};
inline constexpr std::size_t kPortCounters = kPortCounterNames.size();

// `add` by many threads, `set` by one that mirrors a sum it keeps elsewhere; relaxed both.
class SharedCounter {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Faults that one device may have at a time.
inline constexpr std::size_t kFaultsMost = 32;

// What a context has done to packets because of one fault.
struct FaultPart {
  SharedCounter id;  // of which fault (FaultSpec::id); 0: none yet
  FaultCounters counters;
};

struct StatsPage {
  std::uint32_t magic = kStatsMagic;
  std::uint32_t version = kStatsVersion;
  std::uint32_t slot = 0;
  std::uint32_t reserved = 0;
  std::array<SharedCounter, kPortCounters> port;
  std::array<SharedCounter, kDropReasons> drops;
  std::array<FaultPart, kFaultsMost> faults;  // by FaultSpec::place

  SharedCounter& operator[](PortCounter c) { return port[static_cast<std::size_t>(c)]; }
  const SharedCounter& operator[](PortCounter c) const { return port[static_cast<std::size_t>(c)]; }
  SharedCounter& operator[](DropReason r) { return drops[static_cast<std::size_t>(r)]; }
  const SharedCounter& operator[](DropReason r) const { return drops[static_cast<std::size_t>(r)]; }
};
static_assert(sizeof(StatsPage) <= kStatsPageSize);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace verbena::control
