// SPDX-License-Identifier: BSD-2-Clause
// What the tests of the transition rules share: valid attributes and limits.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "verbena/qp/attributes.hpp"

namespace verbena::qp::testing {

inline constexpr Transport kAllTransports[] = {Transport::kRc, Transport::kUc, Transport::kUd,
                                               Transport::kXrcSend, Transport::kXrcReceive};
inline constexpr State kAllStates[] = {State::kReset, State::kInit, State::kRtr,  State::kRts,
                                       State::kSqd,   State::kSqe,  State::kError};

inline PathAttributes good_path() {
  PathAttributes path;
  path.dlid = 7;
  path.port = 1;
  path.resolved = true;
  return path;
}

inline PathAttributes global_path() {
  PathAttributes path = good_path();
  path.is_global = true;
  path.remote_gid = Gid::link_local(0x025652007f010002);
  return path;
}

// Returns attributes that every transition accepts, on an InfiniBand port.
inline Attributes good_attributes(State current_state, State next) {
  Attributes a;
  a.state = next;
  a.current_state = current_state;
  a.port = 1;
  a.qkey = 0x11111111;
  a.path = good_path();
  a.alternate = good_path();
  a.path_mtu = Mtu::k1024;
  a.timeout = 14;
  a.retry_count = 7;
  a.rnr_retry = 7;
  a.min_rnr_timer = 12;
  a.max_rd_atomic = 1;
  a.max_dest_rd_atomic = 1;
  a.dest_qpn = Qpn(0x11);
  a.alternate_timeout = 14;
  a.migration = Migration::kRearm;
  return a;
}

// Returns the reason of the refusal; empty: allowed. The errno is always EINVAL.
inline std::string attempt(Transport transport, State from, const Attributes& wanted,
                           std::uint32_t mask, const TransitionLimits& limits = {}) {
  Attributes current;
  current.state = from;
  const auto refused = check_transition(transport, current, wanted, mask, limits);
  if (!refused) return {};
  EXPECT_EQ(refused->error, EINVAL);
  EXPECT_FALSE(refused->reason.empty());
  EXPECT_EQ(refused->reason.find('\n'), std::string::npos);
  return refused->reason;
}

}  // namespace verbena::qp::testing
