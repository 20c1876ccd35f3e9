// SPDX-License-Identifier: BSD-2-Clause
// The base transport header that begins every packet (IBTA Vol 1, 9.2). `Bth` is the plain value;
// `BthView` reads single fields from bytes whose length was checked once.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +---------------+-+-+---+-------+-------------------------------+
//   |    opcode     |S|M|pad|version|             P_Key             |
//   +-+-+-----------+-+-+---+-------+-------------------------------+
//   |F|B| reserved  |               destination QP                  |
//   +-+-+-----------+-----------------------------------------------+
//   |A|  reserved   |                     PSN                       |
//   +-+-------------+-----------------------------------------------+
//   S solicited, M migrated, F FECN, B BECN, A acknowledge requested
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/types.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

// The NAK that an injected fault asks the receiver of a request to send.
enum class NakMark : std::uint8_t {
  kNone = 0,
  kRnr = 1,
  kPsn = 2,
  kInvalid = 3,
  kAccess = 4,
  kOperation = 5
};

struct Bth {
  static constexpr std::size_t kSize = 12;

  std::uint8_t opcode = 0;
  bool solicited = false;
  bool migreq = false;
  std::uint8_t pad = 0;      // pad bytes behind the payload, 0..3
  std::uint8_t version = 0;  // transport header version; only 0 exists
  std::uint16_t pkey = 0xffff;
  bool fecn = false;
  bool becn = false;
  Qpn dest_qp{};
  bool ack_request = false;
  Psn psn{};

  static Bth read_from(const std::uint8_t* at);
  void write_to(std::uint8_t* out) const;
  // Sets the ACK request in a written header.
  static void request_ack(std::uint8_t* out) { out[8] |= 0x80; }
  // Writes a mark for injected faults into the reserved bits beside the ACK request: the NAK to
  // send (NakMark) or the status to report (kStatusCodes, aeth.hpp); 0: none.
  static constexpr std::uint8_t kMarks = 0x1f;
  static void mark(std::uint8_t* out, std::uint8_t mark) {
    out[8] = static_cast<std::uint8_t>((out[8] & 0x80) | (mark & kMarks));
  }
  // Gives a written header a version that does not exist, so that the receiver drops the packet.
  static void spoil(std::uint8_t* out) { out[1] |= 0x0f; }
  bool operator==(const Bth&) const = default;
};

class BthView {
 public:
  // Returns nothing if the bytes are too few for a BTH. All fields of a view can be read.
  static std::optional<BthView> parse(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < Bth::kSize) return std::nullopt;
    return BthView(bytes.data());
  }
  // `at` must have at least Bth::kSize bytes.
  explicit BthView(const std::uint8_t* at) : at_(at) {}

  std::uint8_t opcode() const { return at_[0]; }
  bool solicited() const { return (at_[1] & 0x80) != 0; }
  bool migreq() const { return (at_[1] & 0x40) != 0; }
  std::uint8_t pad() const { return (at_[1] >> 4) & 3; }
  std::uint8_t version() const { return at_[1] & 0xf; }
  std::uint16_t pkey() const { return load_be16(at_ + 2); }
  bool fecn() const { return (at_[4] & 0x80) != 0; }
  bool becn() const { return (at_[4] & 0x40) != 0; }
  Qpn dest_qp() const { return Qpn(load_low24(at_ + 4)); }
  bool ack_request() const { return (at_[8] & 0x80) != 0; }
  std::uint8_t mark() const { return at_[8] & Bth::kMarks; }
  Psn psn() const { return Psn(load_low24(at_ + 8)); }

 private:
  const std::uint8_t* at_;
};

inline Bth Bth::read_from(const std::uint8_t* at) {
  const BthView v(at);
  return {v.opcode(), v.solicited(), v.migreq(),  v.pad(),         v.version(), v.pkey(),
          v.fecn(),   v.becn(),      v.dest_qp(), v.ack_request(), v.psn()};
}

inline void Bth::write_to(std::uint8_t* out) const {
  const auto bit = [](bool set, unsigned shift) {
    return static_cast<std::uint32_t>(set) << shift;
  };
  out[0] = opcode;
  out[1] = static_cast<std::uint8_t>(bit(solicited, 7) | bit(migreq, 6) | (pad & 3u) << 4 |
                                     (version & 0xfu));
  store_be16(out + 2, pkey);
  store_be32(out + 4, bit(fecn, 31) | bit(becn, 30) | dest_qp.value());
  store_be32(out + 8, bit(ack_request, 31) | psn.value());
}

}  // namespace verbena::wire
