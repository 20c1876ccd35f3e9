// SPDX-License-Identifier: BSD-2-Clause
// The acknowledge header (IBTA Vol 1, 9.3.5 and 9.7.5): the responder's answer, with its remaining
// credits, the time to wait, or the error.
//
//   +-+---+---------+-------------------------------+
//   |0|knd|  value  |              MSN              |   syndrome = 0, kind, value
//   +-+---+---------+-------------------------------+
//   kind 0 ACK (value: credits), 1 RNR NAK (value: timer), 2 reserved, 3 NAK (value: code)
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbena/base/types.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

enum class AethKind : std::uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };

// IBTA Vol 1, table "NAK codes"; 5 to 31 are reserved.
enum class NakCode : std::uint8_t {
  kPsnSequence = 0,
  kInvalidRequest = 1,
  kRemoteAccess = 2,
  kRemoteOperational = 3,
  kInvalidRd = 4,
};
inline constexpr std::uint8_t kNakCodes = 5;
// For injected faults: a NAK whose code is kStatusCodes plus a queue::Status makes the request
// complete with that status. Only devices that obey marks (Bth::mark) send or accept such codes.
inline constexpr std::uint8_t kStatusCodes = 8;

constexpr std::string_view to_string(NakCode code) {
  switch (code) {
    case NakCode::kPsnSequence:
      return "PSN sequence error";
    case NakCode::kInvalidRequest:
      return "invalid request";
    case NakCode::kRemoteAccess:
      return "remote access error";
    case NakCode::kRemoteOperational:
      return "remote operational error";
    case NakCode::kInvalidRd:
      return "invalid RD request";
  }
  return "reserved NAK code";
}

// End-to-end credits are encoded in five bits: 0, 1, 2, 3, 4, 6, 8, 12, 16 ... 32768. 31 means that
// the responder does not count (an SRQ, or a queue pair without flow control).
inline constexpr std::uint8_t kCreditsUnlimited = 31;

inline constexpr std::array<std::uint32_t, 32> kCreditsOfCode = [] {
  std::array<std::uint32_t, 32> table{0, 1, 2};
  for (std::size_t code = 3; code < kCreditsUnlimited; ++code) {
    const std::uint32_t power = 1u << (code / 2);
    table[code] = code % 2 == 0 ? power : power + power / 2;
  }
  table[kCreditsUnlimited] = ~std::uint32_t{0};
  return table;
}();
constexpr std::uint32_t decode_credits(std::uint8_t code) { return kCreditsOfCode[code & 31]; }

namespace detail {

constexpr std::uint8_t code_of_credits(std::uint32_t credits) {
  if (credits < 2) return static_cast<std::uint8_t>(credits);
  const auto power = static_cast<std::uint32_t>(std::bit_width(credits)) - 1;
  const std::uint32_t and_half = credits >> (power - 1) & 1;
  return static_cast<std::uint8_t>(std::min(2 * power + and_half, kCreditsUnlimited - 1u));
}

inline constexpr std::array<std::uint8_t, 128> kCodesOfFew = [] {
  std::array<std::uint8_t, 128> table{};
  for (std::uint32_t few = 0; few < table.size(); ++few) table[few] = code_of_credits(few);
  return table;
}();

}  // namespace detail

// Returns the largest code that promises no more than `credits` receives.
constexpr std::uint8_t encode_credits(std::uint32_t credits) {
  return credits < detail::kCodesOfFew.size() ? detail::kCodesOfFew[credits]
                                              : detail::code_of_credits(credits);
}

// The wait that an RNR NAK asks for, by its five-bit code. Code 0 is the longest, 655.36 ms.
inline constexpr std::array<TimeNs, 32> kRnrTimerNs = [] {
  std::array<TimeNs, 32> table{};
  table[0] = 655'360'000;
  table[1] = 10'000;
  for (std::size_t i = 2; i < 32; ++i) {
    const TimeNs power = TimeNs{10'000} << (i / 2);
    table[i] = i % 2 == 0 ? power : power + power / 2;
  }
  return table;
}();
constexpr TimeNs rnr_timer_ns(std::uint8_t timer) { return kRnrTimerNs[timer & 31]; }

struct Aeth {
  static constexpr std::size_t kSize = 4;

  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  // 24 bits: messages that the responder has completed

  static constexpr Aeth ack(std::uint8_t credit_code, std::uint32_t msn) {
    return of(AethKind::kAck, credit_code, msn);
  }
  static constexpr Aeth rnr_nak(std::uint8_t timer, std::uint32_t msn) {
    return of(AethKind::kRnrNak, timer, msn);
  }
  static constexpr Aeth nak(NakCode code, std::uint32_t msn) {
    return of(AethKind::kNak, static_cast<std::uint8_t>(code), msn);
  }

  // A syndrome with the top bit set is reserved, as is kind 2.
  constexpr AethKind kind() const {
    if (syndrome & 0x80) return AethKind::kReserved;
    return static_cast<AethKind>((syndrome >> 5) & 3);
  }
  // Returns the credit code, RNR timer or NAK code, as kind() says. NAK codes from kNakCodes on are
  // reserved.
  constexpr std::uint8_t value() const { return syndrome & 31; }
  constexpr NakCode nak_code() const { return static_cast<NakCode>(value()); }

  static Aeth read_from(const std::uint8_t* at) { return {at[0], load_low24(at)}; }
  void write_to(std::uint8_t* out) const {
    store_be32(out, std::uint32_t{syndrome} << 24 | (msn & kMask24));
  }
  bool operator==(const Aeth&) const = default;

 private:
  static constexpr Aeth of(AethKind kind, std::uint8_t value, std::uint32_t msn) {
    return {static_cast<std::uint8_t>(static_cast<unsigned>(kind) << 5 | (value & 31u)),
            msn & kMask24};
  }
};

}  // namespace verbena::wire
