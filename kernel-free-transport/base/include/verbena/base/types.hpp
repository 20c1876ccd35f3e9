// SPDX-License-Identifier: BSD-2-Clause
// The small quantities that every room uses. Each has its own type, so that a packet sequence
// number is never compared with `<`, and nothing is added to a queue pair number.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace verbena {

// Nanoseconds on the caller's clock. The engine has no clock of its own.
using TimeNs = std::uint64_t;
inline constexpr TimeNs kNever = ~TimeNs{0};

inline constexpr std::uint32_t kMask24 = 0xffffff;

// A packet sequence number (PSN): 24 bits, compared on the circle (IBTA Vol 1, 9.7.2). It has no
// `<` on purpose: `a.is_before(b)` says which direction is meant. The PSN is in the upper bits of a
// word and wraps with the word: nothing has to be masked, and a distance is a difference.
class Psn {
 public:
  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t value) : word_(value << kShift) {}

  constexpr std::uint32_t value() const { return word_ >> kShift; }
  // Returns the number of steps from `earlier` to this PSN, in [-2^23, 2^23).
  constexpr std::int32_t distance_from(Psn earlier) const { return difference(earlier) >> kShift; }
  constexpr bool is_before(Psn other) const { return difference(other) < 0; }
  constexpr bool is_after(Psn other) const { return difference(other) > 0; }
  constexpr bool is_at_or_before(Psn other) const { return difference(other) <= 0; }
  constexpr Psn operator+(std::uint32_t steps) const { return of_word(word_ + (steps << kShift)); }
  constexpr Psn operator-(std::uint32_t steps) const { return of_word(word_ - (steps << kShift)); }
  constexpr Psn& operator++() { return *this = *this + 1; }
  constexpr bool operator==(const Psn&) const = default;

 private:
  static constexpr unsigned kShift = 8;

  static constexpr Psn of_word(std::uint32_t word) {
    Psn psn;
    psn.word_ = word;
    return psn;
  }
  constexpr std::int32_t difference(Psn other) const {
    return static_cast<std::int32_t>(word_ - other.word_);
  }

  std::uint32_t word_ = 0;
};

// A queue pair number: 24 bits. The upper kSlotBits are the slot, which names the receiving socket.
class Qpn {
 public:
  static constexpr unsigned kIndexBits = 14;
  static constexpr unsigned kSlotBits = 24 - kIndexBits;

  constexpr Qpn() = default;
  constexpr explicit Qpn(std::uint32_t value) : value_(value & kMask24) {}
  static constexpr Qpn from(std::uint32_t slot, std::uint32_t index) {
    return Qpn((slot << kIndexBits) | index);
  }

  constexpr std::uint32_t value() const { return value_; }
  constexpr std::uint32_t slot() const { return value_ >> kIndexBits; }
  constexpr std::uint32_t index() const { return value_ & ((1u << kIndexBits) - 1); }
  constexpr bool operator==(const Qpn&) const = default;

 private:
  std::uint32_t value_ = 0;
};

inline constexpr Qpn kManagementQpn{1};
inline constexpr Qpn kMulticastQpn{0xffffff};

// The reliable transports come first: is_reliable() is called for each packet.
enum class Transport : std::uint8_t { kRc, kXrcSend, kXrcReceive, kUc, kUd };

constexpr bool is_reliable(Transport t) { return t < Transport::kUc; }

constexpr const char* to_string(Transport t) {
  switch (t) {
    case Transport::kRc:
      return "RC";
    case Transport::kXrcSend:
      return "XRC_SEND";
    case Transport::kXrcReceive:
      return "XRC_RECV";
    case Transport::kUc:
      return "UC";
    case Transport::kUd:
      return "UD";
  }
  return "?";
}

// The path MTUs of the specification, by their encoded value.
enum class Mtu : std::uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

constexpr std::uint32_t mtu_bytes(Mtu mtu) { return 128u << static_cast<unsigned>(mtu); }

}  // namespace verbena
