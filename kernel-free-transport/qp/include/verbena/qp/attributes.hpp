// SPDX-License-Identifier: BSD-2-Clause
// The attributes of a queue pair and the rules by which they may change.
//
// Values and mask bits are those of the verbs, so that the provider passes them on unchanged and an
// explanation can name what the programmer wrote. `check_transition` is pure: it checks the table
// of transitions (state, state, transport -> required and optional attributes; IBTA Vol 1, 10.3 and
// 11.2.5.2) and the range of each value, and says in words which rule was broken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/address.hpp"
#include "verbena/base/types.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::qp {

enum class State : std::uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kError };
const char* to_string(State state);

enum AttributeMask : std::uint32_t {
  kMaskState = 1u << 0,
  kMaskCurrentState = 1u << 1,
  kMaskSqdNotify = 1u << 2,
  kMaskAccessFlags = 1u << 3,
  kMaskPkeyIndex = 1u << 4,
  kMaskPort = 1u << 5,
  kMaskQkey = 1u << 6,
  kMaskPath = 1u << 7,
  kMaskPathMtu = 1u << 8,
  kMaskTimeout = 1u << 9,
  kMaskRetryCount = 1u << 10,
  kMaskRnrRetry = 1u << 11,
  kMaskRqPsn = 1u << 12,
  kMaskMaxRdAtomic = 1u << 13,
  kMaskAlternatePath = 1u << 14,
  kMaskMinRnrTimer = 1u << 15,
  kMaskSqPsn = 1u << 16,
  kMaskMaxDestRdAtomic = 1u << 17,
  kMaskPathMigration = 1u << 18,
  kMaskCapabilities = 1u << 19,
  kMaskDestQpn = 1u << 20,
  kMaskRateLimit = 1u << 25,
};

enum class Migration : std::uint8_t { kMigrated, kRearm, kArmed };

// One path to the peer: the address vector as the program gave it, and where it leads.
struct PathAttributes {
  bool is_global = false;
  Gid remote_gid;
  std::uint32_t flow_label = 0;
  std::uint8_t gid_index = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint16_t dlid = 0;
  std::uint8_t service_level = 0;
  std::uint8_t source_path_bits = 0;
  std::uint8_t static_rate = 0;
  std::uint8_t port = 0;
  // The provider fills these in, because it knows the port's GIDs and the address plan.
  bool has_local_gid = true;  // false: that row of the GID table is free
  bool resolved = false;      // false: the address plan has no route, or `obstacle`
  enum class Obstacle : std::uint8_t {
    kNone,
    kOtherFamily,  // the peer's GID is of another IP family than the local one
    kLocalAddress  // the local GID's address cannot be used
  };
  Obstacle obstacle = Obstacle::kNone;
  wire::Destination destination;
};

struct Attributes {
  State state = State::kReset;
  State current_state = State::kReset;
  bool sqd_notify = false;
  std::uint32_t access_flags = 0;  // memory::Access: remote write, read, atomic
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 0;
  std::uint32_t qkey = 0;
  PathAttributes path;
  Mtu path_mtu = Mtu::k256;
  std::uint8_t timeout = 0;  // 4.096 us * 2^timeout, 0 = for ever
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;  // 7 = for ever
  Psn rq_psn;
  Psn sq_psn;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  Qpn dest_qpn;
  Migration migration = Migration::kMigrated;
  PathAttributes alternate;
  std::uint16_t alternate_pkey_index = 0;
  std::uint8_t alternate_timeout = 0;
  std::uint32_t rate_limit = 0;
};

// What the port can do. Attributes are checked against these values.
struct TransitionLimits {
  std::uint8_t ports = 1;
  std::uint16_t pkeys = 1;
  std::uint16_t gids = 1;
  Mtu active_mtu = Mtu::k4096;
  std::uint8_t max_rd_atomic = 16;
  std::uint8_t max_dest_rd_atomic = 16;
  bool ethernet = false;  // RoCE device: paths must be global
  std::uint16_t lid = 0;
};

struct Refused {
  int error = 0;       // EINVAL in nearly all cases
  std::string reason;  // one sentence: attribute, rule, what was expected
};

// Checks a change. `current` is what the queue pair has now (current.state is its state); `wanted`
// has the new values of the attributes in `mask`. Returns nothing if the change is allowed.
std::optional<Refused> check_transition(Transport transport, const Attributes& current,
                                        const Attributes& wanted, std::uint32_t mask,
                                        const TransitionLimits& limits);

// Returns what is wrong with an address vector's service level, source path bits or rate, in words
// that begin with `ah`, its name. Returns nothing if they are right.
std::optional<std::string> check_numbers(const std::string& ah, const PathAttributes& path);

// Copies the attributes in `mask`. The caller acts on the change of state.
void apply(Attributes& to, const Attributes& wanted, std::uint32_t mask);

}  // namespace verbena::qp
