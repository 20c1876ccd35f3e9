// SPDX-License-Identifier: BSD-2-Clause
// Why a packet was dropped. Each reason has a counter that a test, `verbena status` and sysfs can
// read; each dropped packet counts under one reason. (As on adapters, kOutOfSequence counts all
// packets that arrive early, even those that are kept until their turn.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbena/base/lock.hpp"

namespace verbena {

// X(enumerator, name as printed)
#define VERBENA_DROP_REASONS(X)                        \
  X(kTooShort, "too_short")                            \
  X(kBadIcrc, "bad_icrc")                              \
  X(kBadVersion, "bad_transport_version")              \
  X(kUnknownOpcode, "unknown_opcode")                  \
  X(kBadPad, "bad_pad_count")                          \
  X(kUnknownQp, "unknown_qp")                          \
  X(kWrongTransport, "opcode_of_another_transport")    \
  X(kBadPkey, "pkey_violation")                        \
  X(kBadQkey, "qkey_violation")                        \
  X(kWrongPeer, "source_is_not_the_connected_peer")    \
  X(kBadQpState, "qp_state_does_not_receive")          \
  X(kDuplicate, "duplicate_request")                   \
  X(kOutOfSequence, "psn_out_of_sequence")             \
  X(kStaleResponse, "response_to_nothing_outstanding") \
  X(kGhostAck, "ack_beyond_what_was_sent")             \
  X(kBadSyndrome, "reserved_aeth_syndrome")            \
  X(kNoReceive, "no_receive_posted")                   \
  X(kMalformed, "length_or_order_violation")           \
  X(kPortDown, "port_down")                            \
  X(kNotMember, "multicast_group_not_joined")          \
  X(kOwnMulticast, "own_multicast_blocked")            \
  X(kInjected, "injected_fault")

enum class DropReason : std::uint8_t {
#define VERBENA_DROP_ENUM(id, text) id,
  VERBENA_DROP_REASONS(VERBENA_DROP_ENUM)
#undef VERBENA_DROP_ENUM
};

inline constexpr std::array kDropReasonNames{
#define VERBENA_DROP_NAME(id, text) std::string_view{text},
    VERBENA_DROP_REASONS(VERBENA_DROP_NAME)
#undef VERBENA_DROP_NAME
};
inline constexpr std::size_t kDropReasons = kDropReasonNames.size();

constexpr std::string_view to_string(DropReason r) {
  return kDropReasonNames[static_cast<std::size_t>(r)];
}

class DropCounters {
 public:
  void count(DropReason r) noexcept { counters_[static_cast<std::size_t>(r)].add(); }
  std::uint64_t read(DropReason r) const noexcept {
    return counters_[static_cast<std::size_t>(r)].read();
  }
  std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const Counter& c : counters_) sum += c.read();
    return sum;
  }

 private:
  std::array<Counter, kDropReasons> counters_;
};

}  // namespace verbena
