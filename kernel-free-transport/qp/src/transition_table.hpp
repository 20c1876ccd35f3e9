// SPDX-License-Identifier: BSD-2-Clause
// The table of transitions: for each pair of states and each transport, whether the transition is
// allowed, and its required and optional attributes (IBTA Vol 1, 11.2.5.2, table of QP state
// transition properties; where it is silent, what programs rely on under Linux). Constant data.
//
//            +-------+      +------+      +-----+      +-----+ <----- +-----+
//   any ---> | RESET | ---> | INIT | ---> | RTR | ---> | RTS | -----> | SQD |
//            +-------+      +------+      +-----+      +-----+        +-----+
//                                                         |   ^
//                                  a send fails (UC, UD)  v   |  the program
//   any but RESET ---> ERR                              +-----+
//                                                       | SQE |
//                                                       +-----+
//
// INIT, RTS and SQD have transitions to themselves: attributes change, the state stays. Only the
// device enters SQE.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/qp/attributes.hpp"

namespace verbena::qp {

inline constexpr std::size_t kStates = 7;
inline constexpr std::size_t kTransports = 5;

struct TransitionRule {
  bool legal = false;
  std::uint32_t required = 0;  // besides kMaskState
  std::uint32_t optional = 0;
};

// In the order of Transport: RC, XRC send, XRC receive, UC, UD.
using RulesPerTransport = std::array<TransitionRule, kTransports>;
using TransitionTable = std::array<std::array<RulesPerTransport, kStates>, kStates>;

namespace detail {

using MaskPerTransport = std::array<std::uint32_t, kTransports>;

constexpr void allow(TransitionTable& table, State from, State to, const MaskPerTransport& required,
                     const MaskPerTransport& optional) {
  RulesPerTransport& rules = table[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  for (std::size_t i = 0; i < kTransports; ++i) rules[i] = {true, required[i], optional[i]};
}

// Allows the transitions from RESET to RTR.
constexpr void allow_connecting(TransitionTable& table) {
  constexpr std::uint32_t kInitConnected = kMaskPkeyIndex | kMaskPort | kMaskAccessFlags;
  constexpr std::uint32_t kInitDatagram = kMaskPkeyIndex | kMaskPort | kMaskQkey;
  constexpr MaskPerTransport kInit{kInitConnected, kInitConnected, kInitConnected, kInitConnected,
                                   kInitDatagram};
  allow(table, State::kReset, State::kInit, kInit, {});
  allow(table, State::kInit, State::kInit, {}, kInit);

  constexpr std::uint32_t kPeer = kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
  constexpr std::uint32_t kResponder = kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
  constexpr std::uint32_t kMayConnect = kMaskAlternatePath | kMaskAccessFlags | kMaskPkeyIndex;
  allow(table, State::kInit, State::kRtr, {kPeer | kResponder, kPeer, kPeer | kResponder, kPeer, 0},
        {kMayConnect, kMayConnect, kMayConnect, kMayConnect, kMaskPkeyIndex | kMaskQkey});
}

// Allows the transitions to RTS. Pacing (IBV_QP_RATE_LIMIT) is for transports that send on a
// connection.
constexpr void allow_sending(TransitionTable& table) {
  constexpr std::uint32_t kRequester =
      kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn | kMaskMaxRdAtomic;
  constexpr std::uint32_t kRunning =
      kMaskCurrentState | kMaskAlternatePath | kMaskAccessFlags | kMaskPathMigration;
  constexpr std::uint32_t kDatagram = kMaskCurrentState | kMaskQkey;
  constexpr MaskPerTransport kResume{kRunning | kMaskMinRnrTimer, kRunning,
                                     kRunning | kMaskMinRnrTimer, kRunning, kDatagram};
  MaskPerTransport with_pacing = kResume;
  for (Transport t : {Transport::kRc, Transport::kXrcSend, Transport::kUc}) {
    with_pacing[static_cast<std::size_t>(t)] |= kMaskRateLimit;
  }
  allow(table, State::kRtr, State::kRts,
        {kRequester, kRequester, kMaskTimeout | kMaskSqPsn, kMaskSqPsn, kMaskSqPsn}, with_pacing);
  allow(table, State::kRts, State::kRts, {}, with_pacing);
  allow(table, State::kSqd, State::kRts, {}, kResume);

  // Reliable transports have no SQE: a failed request moves them to ERR.
  const auto recover = [&table](Transport t, std::uint32_t optional) {
    table[static_cast<std::size_t>(State::kSqe)][static_cast<std::size_t>(State::kRts)]
         [static_cast<std::size_t>(t)] = {true, 0, optional};
  };
  recover(Transport::kUc, kMaskCurrentState | kMaskAccessFlags);
  recover(Transport::kUd, kDatagram);
}

constexpr void allow_draining(TransitionTable& table) {
  constexpr std::uint32_t kNotify = kMaskSqdNotify;
  allow(table, State::kRts, State::kSqd, {}, {kNotify, kNotify, kNotify, kNotify, kNotify});

  // In SQD even the path may change, because nothing is under way.
  constexpr std::uint32_t kConnected =
      kMaskPath | kMaskAlternatePath | kMaskAccessFlags | kMaskPkeyIndex | kMaskPathMigration;
  constexpr std::uint32_t kReliable = kConnected | kMaskPort | kMaskTimeout;
  constexpr std::uint32_t kRequester = kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic;
  constexpr std::uint32_t kResponder = kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
  allow(table, State::kSqd, State::kSqd, {},
        {kReliable | kRequester | kResponder, kReliable | kRequester, kReliable | kResponder,
         kConnected, kMaskPkeyIndex | kMaskQkey});
}

constexpr TransitionTable build_transition_table() {
  TransitionTable table{};
  for (std::size_t from = 0; from < kStates; ++from) {
    allow(table, static_cast<State>(from), State::kReset, {}, {});
    if (static_cast<State>(from) == State::kReset) continue;
    allow(table, static_cast<State>(from), State::kError, {}, {});
  }
  allow_connecting(table);
  allow_sending(table);
  allow_draining(table);
  return table;
}

}  // namespace detail

inline constexpr TransitionTable kTransitions = detail::build_transition_table();

constexpr const TransitionRule& transition_rule(Transport transport, State from, State to) {
  return kTransitions[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]
                     [static_cast<std::size_t>(transport)];
}

}  // namespace verbena::qp
