// SPDX-License-Identifier: BSD-2-Clause
// The management datagram that carries every message of the communication manager: 256 bytes, a
// common header of 24 (IBTA Vol 1, 13.4.2) and the message. `Mad` is the plain value; parsing
// checks length, class and attribute once. Pure functions, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "verbena/cm/alternate_path.hpp"
#include "verbena/cm/disconnect.hpp"
#include "verbena/cm/reject.hpp"
#include "verbena/cm/rep.hpp"
#include "verbena/cm/req.hpp"
#include "verbena/cm/sidr.hpp"

namespace verbena::cm {

inline constexpr std::size_t kMadSize = 256;
inline constexpr std::size_t kMadHeaderSize = 24;
inline constexpr std::uint8_t kClassCm = 0x07;
inline constexpr std::uint8_t kClassVersion = 2;
inline constexpr std::uint8_t kMethodSend = 0x03;
inline constexpr std::uint32_t kManagementQkey = 0x80010000;

using Message = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;
using MadBytes = std::array<std::uint8_t, kMadSize>;

struct MadHeader {
  std::uint8_t base_version = 1;
  std::uint8_t management_class = kClassCm;
  std::uint8_t class_version = kClassVersion;
  std::uint8_t method = kMethodSend;
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  std::uint64_t transaction_id = 0;
  std::uint16_t attribute_id = 0;
  std::uint32_t attribute_modifier = 0;  // the ECE option in REQ, REP, REJ and SIDR_REP
  bool operator==(const MadHeader&) const = default;

  //  0 base version:8 class:8 class version:8 method:8    4 status:16 class specific:16
  //  8 transaction ID    16 attribute ID:16 -:16    20 attribute modifier
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.base_version, Field{"base_version", 0, 0, 8});
    v(m.management_class, Field{"management_class", 1, 0, 8});
    v(m.class_version, Field{"class_version", 2, 0, 8});
    v(m.method, Field{"method", 3, 0, 8});
    v(m.status, Field{"status", 4, 0, 16});
    v(m.class_specific, Field{"class_specific", 6, 0, 16});
    v(m.transaction_id, Field{"transaction_id", 8, 0, 64});
    v(m.attribute_id, Field{"attribute_id", 16, 0, 16});
    v(m.attribute_modifier, Field{"attribute_modifier", 20, 0, 32});
  }
};

struct Mad {
  std::uint64_t transaction_id = 0;
  std::uint32_t attribute_modifier = 0;
  Message message;
  bool operator==(const Mad&) const = default;
};

// Returns nothing if the bytes are no message of this class and version.
std::optional<Mad> parse_mad(std::span<const std::uint8_t> bytes);
MadBytes write_mad(const Mad& mad);

// Returns "REQ", "REP" ...
const char* name_of(const Message& message);

}  // namespace verbena::cm
