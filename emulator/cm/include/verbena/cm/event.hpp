// SPDX-License-Identifier: BSD-2-Clause
// What the agent hands out: datagrams for the network and events for the layer above. Plain values,
// which the caller takes after each input.
#pragma once

#include <cstdint>
#include <vector>

#include "verbena/base/types.hpp"
#include "verbena/cm/mad.hpp"

namespace verbena::cm {

// A local communication ID; 0 is none. Connections and SIDR exchanges share the numbers.
using CommId = std::uint32_t;

// The caller's number of the emulated device that sends or has received a datagram.
using DeviceId = std::uint32_t;

struct OutMad {
  DeviceId device = 0;
  IpAddress destination;
  MadBytes bytes{};
};

enum class CmEventKind : std::uint8_t {
  kReqReceived,  // a new connection exists; accept, reject or release it
  kRepReceived,  // active side: confirm with an RTU
  kEstablished,  // passive side: the RTU came
  kRejReceived,
  kDreqReceived,  // answer with disconnect()
  kDrepReceived,
  kReqTimeout,  // the peer did not answer the REQ
  kRepTimeout,
  kDreqTimeout,
  kTimewaitExit,
  kSidrReqReceived,
  kSidrRepReceived,
  kSidrTimeout,
};

struct CmEvent {
  CmEventKind kind;
  CommId id = 0;
  Mad mad{};  // the message that caused the event, if one did
};

struct CmOutputs {
  std::vector<OutMad> mads;
  std::vector<CmEvent> events;
};

// Returns 4.096 us * 2^n, the specification's way to write a time. Exponents from the wire are
// clamped, so that a corrupted field cannot make a connection wait for hours.
inline constexpr std::uint8_t kMaxTimeoutExponent = 24;
constexpr TimeNs cm_timeout_ns(std::uint8_t exponent) {
  return TimeNs{4096} << (exponent < kMaxTimeoutExponent ? exponent : kMaxTimeoutExponent);
}

// The time to answer (about a second) and the number of repetitions that this side grants its peers
// and expects of them.
inline constexpr std::uint8_t kResponseTimeout = 18;
inline constexpr std::uint8_t kMaxRetries = 15;
// The time that an MRA asks for while a program decides: 69 s.
inline constexpr std::uint8_t kServiceTimeout = 24;

}  // namespace verbena::cm
