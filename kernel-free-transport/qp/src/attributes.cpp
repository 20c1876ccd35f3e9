// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/qp/attributes.hpp"

#include <array>
#include <cstdio>

#include "attribute_checks.hpp"

namespace verbena::qp {
namespace {

struct MaskName {
  std::uint32_t bit;
  const char* name;
};
constexpr std::array kMaskNames{
    MaskName{kMaskState, "IBV_QP_STATE"},
    MaskName{kMaskCurrentState, "IBV_QP_CUR_STATE"},
    MaskName{kMaskSqdNotify, "IBV_QP_EN_SQD_ASYNC_NOTIFY"},
    MaskName{kMaskAccessFlags, "IBV_QP_ACCESS_FLAGS"},
    MaskName{kMaskPkeyIndex, "IBV_QP_PKEY_INDEX"},
    MaskName{kMaskPort, "IBV_QP_PORT"},
    MaskName{kMaskQkey, "IBV_QP_QKEY"},
    MaskName{kMaskPath, "IBV_QP_AV"},
    MaskName{kMaskPathMtu, "IBV_QP_PATH_MTU"},
    MaskName{kMaskTimeout, "IBV_QP_TIMEOUT"},
    MaskName{kMaskRetryCount, "IBV_QP_RETRY_CNT"},
    MaskName{kMaskRnrRetry, "IBV_QP_RNR_RETRY"},
    MaskName{kMaskRqPsn, "IBV_QP_RQ_PSN"},
    MaskName{kMaskMaxRdAtomic, "IBV_QP_MAX_QP_RD_ATOMIC"},
    MaskName{kMaskAlternatePath, "IBV_QP_ALT_PATH"},
    MaskName{kMaskMinRnrTimer, "IBV_QP_MIN_RNR_TIMER"},
    MaskName{kMaskSqPsn, "IBV_QP_SQ_PSN"},
    MaskName{kMaskMaxDestRdAtomic, "IBV_QP_MAX_DEST_RD_ATOMIC"},
    MaskName{kMaskPathMigration, "IBV_QP_PATH_MIG_STATE"},
    MaskName{kMaskCapabilities, "IBV_QP_CAP"},
    MaskName{kMaskDestQpn, "IBV_QP_DEST_QPN"},
    MaskName{kMaskRateLimit, "IBV_QP_RATE_LIMIT"},
};

// Bits of ibv_access_flags: the named ones and the optional range. Programs pass the flags of their
// regions unchanged, but only the remote flags matter to a queue pair.
constexpr std::uint32_t kKnownAccess = 0x3ffu | 0x3ff00000u;
constexpr std::uint32_t kMaxFlowLabel = 0xfffff;
constexpr std::uint16_t kFirstMulticastLid = 0xc000;
constexpr std::uint8_t kMaxRate = 24;  // IBV_RATE_1200_GBPS

using Wrong = std::optional<std::string>;

std::string hex(std::uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", value);
  return text;
}

// Returns text like "IBV_QP_TIMEOUT: timeout is 40; expected is at most 31".
Wrong at_most(const std::string& field, std::uint32_t value, std::uint32_t max, const char* why) {
  if (value <= max) return std::nullopt;
  return field + " is " + std::to_string(value) + "; expected is at most " + std::to_string(max) +
         why;
}

Wrong check_port(const std::string& field, std::uint8_t port, const TransitionLimits& limits) {
  if (port >= 1 && port <= limits.ports) return std::nullopt;
  return field + " is " + std::to_string(port) +
         (limits.ports == 1 ? "; the device's only port is 1"
                            : "; the device has ports 1 to " + std::to_string(limits.ports));
}

Wrong check_index(const std::string& field, std::uint16_t index, std::uint16_t size,
                  const char* table) {
  if (index < size) return std::nullopt;
  return field + " is " + std::to_string(index) + "; the port's " + table + " table has " +
         std::to_string(size) + (size == 1 ? " entry (index 0)" : " entries, counted from 0");
}

Wrong check_global(const std::string& ah, const PathAttributes& path,
                   const TransitionLimits& limits) {
  if (path.gid_index >= limits.gids) {
    return check_index(ah + ".grh.sgid_index", path.gid_index, limits.gids, "GID");
  }
  if (!path.has_local_gid) {
    return ah + ".grh.sgid_index is " + std::to_string(path.gid_index) +
           "; that row of the port's GID table is free (`ibv_devinfo -v` shows those in use)";
  }
  if (path.remote_gid.is_zero()) {
    return ah + ".is_global is 1, but grh.dgid is all zeros; expected is the peer's GID";
  }
  if (path.remote_gid.is_multicast()) {
    return ah + ".grh.dgid is the multicast GID " + path.remote_gid.to_string() +
           "; a connection needs the GID of one peer";
  }
  if (path.flow_label > kMaxFlowLabel) {
    return ah + ".grh.flow_label is " + hex(path.flow_label) + "; expected are 20 bits";
  }
  return std::nullopt;
}

Wrong check_path(const std::string& ah, const std::string& port_field, const PathAttributes& path,
                 const TransitionLimits& limits) {
  if (auto wrong = check_port(port_field, path.port, limits)) return wrong;
  if (limits.ethernet && !path.is_global) {
    return ah +
           ".is_global is 0; a port with link layer Ethernet (RoCE) needs is_global = 1 with "
           "grh.dgid and grh.sgid_index";
  }
  if (path.is_global) {
    if (auto wrong = check_global(ah, path, limits)) return wrong;
  } else if (path.dlid == 0) {
    return ah +
           ".dlid is 0 and is_global is 0; expected is the peer's LID (ibv_port_attr.lid, "
           "exchanged with the peer) or a global route";
  }
  if (!limits.ethernet && path.dlid >= kFirstMulticastLid) {
    return ah + ".dlid is " + hex(path.dlid) + "; a connection needs a unicast LID, below 0xc000";
  }
  if (auto wrong = check_numbers(ah, path)) return wrong;
  if (path.resolved) return std::nullopt;
  const std::string index = ".grh.sgid_index " + std::to_string(path.gid_index);
  if (path.obstacle == PathAttributes::Obstacle::kOtherFamily) {
    return ah + ".grh.dgid " + path.remote_gid.to_string() + " and " + index +
           " are addresses of different IP families";
  }
  if (path.obstacle == PathAttributes::Obstacle::kLocalAddress) {
    return ah + index + " is an address that cannot be used";
  }
  if (limits.ethernet) {
    return ah + ".grh.dgid " + path.remote_gid.to_string() +
           " is of an InfiniBand port; this one is a RoCE port, and the two kinds do not talk";
  }
  const std::string peer =
      path.is_global ? "GID " + path.remote_gid.to_string() : "LID " + std::to_string(path.dlid);
  return ah + ": no route to " + peer + " by this fabric's address plan" +
         (path.is_global ? ": it is of no InfiniBand port" : "");
}

Wrong check_paths(const Attributes& w, std::uint32_t mask, const TransitionLimits& limits) {
  if ((mask & kMaskPath) != 0) {
    if (auto wrong =
            check_path("IBV_QP_AV: ah_attr", "IBV_QP_AV: ah_attr.port_num", w.path, limits)) {
      return wrong;
    }
  }
  if ((mask & kMaskAlternatePath) == 0) return std::nullopt;
  const std::string name = "IBV_QP_ALT_PATH: ";
  if (auto wrong = check_path(name + "alt_ah_attr", name + "alt_port_num", w.alternate, limits)) {
    return wrong;
  }
  if (auto wrong =
          check_index(name + "alt_pkey_index", w.alternate_pkey_index, limits.pkeys, "P_Key")) {
    return wrong;
  }
  return at_most(name + "alt_timeout", w.alternate_timeout, 31, " (5 bits)");
}

Wrong check_mtu(Mtu mtu, Mtu active) {
  const unsigned code = static_cast<unsigned>(mtu);
  if (code < static_cast<unsigned>(Mtu::k256) || code > static_cast<unsigned>(Mtu::k4096)) {
    return "IBV_QP_PATH_MTU: path_mtu is " + std::to_string(code) +
           "; expected is a value of enum ibv_mtu, 1 (256 bytes) to 5 (4096 bytes)";
  }
  if (mtu <= active) return std::nullopt;
  return "IBV_QP_PATH_MTU: path_mtu is " + std::to_string(mtu_bytes(mtu)) +
         " bytes; the port's active_mtu is " + std::to_string(mtu_bytes(active));
}

Wrong check_migration(Migration migration) {
  if (migration == Migration::kMigrated || migration == Migration::kRearm) return std::nullopt;
  return "IBV_QP_PATH_MIG_STATE: path_mig_state is " +
         std::to_string(static_cast<unsigned>(migration)) +
         "; expected is IBV_MIG_MIGRATED or IBV_MIG_REARM (the device alone sets IBV_MIG_ARMED)";
}

// An attribute that is a small number with an upper bound.
struct Bound {
  std::uint32_t bit;
  const char* field;
  std::uint32_t value;
  std::uint32_t max;
  const char* why;
};

Wrong check_bounds(const Attributes& w, std::uint32_t mask, const TransitionLimits& limits) {
  const std::array bounds{
      Bound{kMaskTimeout, "timeout", w.timeout, 31, " (4.096 us * 2^timeout)"},
      Bound{kMaskRetryCount, "retry_cnt", w.retry_count, 7, ""},
      Bound{kMaskRnrRetry, "rnr_retry", w.rnr_retry, 7, " (7 retries for ever)"},
      Bound{kMaskMinRnrTimer, "min_rnr_timer", w.min_rnr_timer, 31, " (a code, not a time)"},
      Bound{kMaskMaxRdAtomic, "max_rd_atomic", w.max_rd_atomic, limits.max_rd_atomic,
            " (ibv_device_attr.max_qp_init_rd_atom)"},
      Bound{kMaskMaxDestRdAtomic, "max_dest_rd_atomic", w.max_dest_rd_atomic,
            limits.max_dest_rd_atomic, " (ibv_device_attr.max_qp_rd_atom)"},
  };
  for (const Bound& b : bounds) {
    if ((mask & b.bit) == 0 || b.value <= b.max) continue;
    if (auto wrong = at_most(mask_names(b.bit) + ": " + b.field, b.value, b.max, b.why)) {
      return wrong;
    }
  }
  return std::nullopt;
}

}  // namespace

const char* to_string(State state) {
  switch (state) {
    case State::kReset:
      return "RESET";
    case State::kInit:
      return "INIT";
    case State::kRtr:
      return "RTR";
    case State::kRts:
      return "RTS";
    case State::kSqd:
      return "SQD";
    case State::kSqe:
      return "SQE";
    case State::kError:
      return "ERR";
  }
  return "UNKNOWN";
}

std::string mask_names(std::uint32_t mask) {
  std::string text;
  const auto append = [&text](const std::string& name) {
    if (!text.empty()) text += " | ";
    text += name;
  };
  for (const MaskName& entry : kMaskNames) {
    if ((mask & entry.bit) == 0) continue;
    append(entry.name);
    mask &= ~entry.bit;
  }
  if (mask != 0) append(hex(mask));
  return text;
}

std::optional<std::string> check_numbers(const std::string& ah, const PathAttributes& path) {
  if (auto wrong = at_most(ah + ".sl", path.service_level, 15, " (4 bits)")) return wrong;
  if (path.source_path_bits != 0) {
    return ah + ".src_path_bits is " + std::to_string(path.source_path_bits) +
           "; the port has one LID (ibv_port_attr.lmc is 0), and so no bits to choose";
  }
  if (path.static_rate == 1 || path.static_rate > kMaxRate) {
    return ah + ".static_rate is " + std::to_string(path.static_rate) +
           "; expected is a value of enum ibv_rate, 0 (the port's rate) or 2 to " +
           std::to_string(kMaxRate);
  }
  return std::nullopt;
}

std::optional<std::string> check_values(const Attributes& wanted, std::uint32_t mask,
                                        const TransitionLimits& limits) {
  if ((mask & kMaskAccessFlags) != 0 && (wanted.access_flags & ~kKnownAccess) != 0) {
    return "IBV_QP_ACCESS_FLAGS: qp_access_flags has the unknown bits " +
           hex(wanted.access_flags & ~kKnownAccess) + "; expected are values of ibv_access_flags";
  }
  if ((mask & kMaskPkeyIndex) != 0) {
    if (auto wrong = check_index("IBV_QP_PKEY_INDEX: pkey_index", wanted.pkey_index, limits.pkeys,
                                 "P_Key")) {
      return wrong;
    }
  }
  if ((mask & kMaskPort) != 0) {
    if (auto wrong = check_port("IBV_QP_PORT: port_num", wanted.port, limits)) return wrong;
  }
  if (auto wrong = check_paths(wanted, mask, limits)) return wrong;
  if ((mask & kMaskPathMtu) != 0) {
    if (auto wrong = check_mtu(wanted.path_mtu, limits.active_mtu)) return wrong;
  }
  if (auto wrong = check_bounds(wanted, mask, limits)) return wrong;
  if ((mask & kMaskPathMigration) != 0) return check_migration(wanted.migration);
  return std::nullopt;
}

// Ignores IBV_QP_CUR_STATE, which only asserts, and sizes (IBV_QP_CAP), which belong to the queues.
void apply(Attributes& to, const Attributes& wanted, std::uint32_t mask) {
  if ((mask & kMaskState) != 0) to.state = wanted.state;
  if ((mask & kMaskSqdNotify) != 0) to.sqd_notify = wanted.sqd_notify;
  if ((mask & kMaskAccessFlags) != 0) to.access_flags = wanted.access_flags;
  if ((mask & kMaskPkeyIndex) != 0) to.pkey_index = wanted.pkey_index;
  if ((mask & kMaskPort) != 0) to.port = wanted.port;
  if ((mask & kMaskQkey) != 0) to.qkey = wanted.qkey;
  if ((mask & kMaskPath) != 0) to.path = wanted.path;
  if ((mask & kMaskPathMtu) != 0) to.path_mtu = wanted.path_mtu;
  if ((mask & kMaskTimeout) != 0) to.timeout = wanted.timeout;
  if ((mask & kMaskRetryCount) != 0) to.retry_count = wanted.retry_count;
  if ((mask & kMaskRnrRetry) != 0) to.rnr_retry = wanted.rnr_retry;
  if ((mask & kMaskRqPsn) != 0) to.rq_psn = wanted.rq_psn;
  if ((mask & kMaskMaxRdAtomic) != 0) to.max_rd_atomic = wanted.max_rd_atomic;
  if ((mask & kMaskAlternatePath) != 0) {
    to.alternate = wanted.alternate;
    to.alternate_pkey_index = wanted.alternate_pkey_index;
    to.alternate_timeout = wanted.alternate_timeout;
  }
  if ((mask & kMaskMinRnrTimer) != 0) to.min_rnr_timer = wanted.min_rnr_timer;
  if ((mask & kMaskSqPsn) != 0) to.sq_psn = wanted.sq_psn;
  if ((mask & kMaskMaxDestRdAtomic) != 0) to.max_dest_rd_atomic = wanted.max_dest_rd_atomic;
  if ((mask & kMaskPathMigration) != 0) to.migration = wanted.migration;
  if ((mask & kMaskDestQpn) != 0) to.dest_qpn = wanted.dest_qpn;
  if ((mask & kMaskRateLimit) != 0) to.rate_limit = wanted.rate_limit;
}

}  // namespace verbena::qp
