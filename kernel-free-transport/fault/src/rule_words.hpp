// SPDX-License-Identifier: BSD-2-Clause
// The words of rules and their meanings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "verbena/fault/rule.hpp"

namespace verbena::fault::words {

template <typename T>
using Word = std::pair<std::string_view, T>;

inline constexpr Word<Action> kActions[] = {
    {"drop", Action::kDrop},   {"duplicate", Action::kDuplicate}, {"corrupt", Action::kCorrupt},
    {"delay", Action::kDelay}, {"hold", Action::kHold},           {"reorder", Action::kReorder},
    {"nak", Action::kNak},     {"complete", Action::kComplete},   {"cut", Action::kCut},
    {"rate", Action::kRate},   {"port-down", Action::kPortDown},  {"port-up", Action::kPortUp},
    {"kill", Action::kKill},   {"stop", Action::kStop},           {"cont", Action::kCont},
    {"raise", Action::kRaise}, {"fail", Action::kFail},
};

// Units of a line's speed, the largest first: bits, and bytes as in `verbena fault --rate`.
inline constexpr Word<double> kRates[] = {{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1},
                                          {"GB", 8e9},   {"MB", 8e6},   {"kB", 8e3}};

inline constexpr Word<Field> kFields[] = {
    {"icrc", Field::kIcrc},     {"opcode", Field::kOpcode},   {"pkey", Field::kPkey},
    {"psn", Field::kPsn},       {"qkey", Field::kQkey},       {"rkey", Field::kRkey},
    {"length", Field::kLength}, {"payload", Field::kPayload},
};

inline constexpr Word<Nak> kNaks[] = {
    {"rnr", Nak::kRnr},
    {"psn", Nak::kPsn},
    {"invalid", Nak::kInvalid},
    {"access", Nak::kAccess},
    {"operation", Nak::kOperation},
};

inline constexpr Word<Raised> kRaised[] = {
    {"qp-fatal", Raised::kQpFatal}, {"path-mig-err", Raised::kPathMigrationError},
    {"srq-err", Raised::kSrqError}, {"client-reregister", Raised::kClientReregister},
    {"wq-fatal", Raised::kWqFatal},
};

inline constexpr Word<Completion> kCompletions[] = {
    {"LOC_LEN_ERR", Completion::kLocalLength},
    {"LOC_QP_OP_ERR", Completion::kLocalQpOperation},
    {"LOC_PROT_ERR", Completion::kLocalProtection},
    {"BAD_RESP_ERR", Completion::kBadResponse},
    {"REM_INV_REQ_ERR", Completion::kRemoteInvalidRequest},
    {"REM_ACCESS_ERR", Completion::kRemoteAccess},
    {"REM_OP_ERR", Completion::kRemoteOperation},
    {"RETRY_EXC_ERR", Completion::kRetryExceeded},
    {"RNR_RETRY_EXC_ERR", Completion::kRnrRetryExceeded},
    {"REM_ABORT_ERR", Completion::kRemoteAborted},
    {"FATAL_ERR", Completion::kFatal},
    {"RESP_TIMEOUT_ERR", Completion::kResponseTimeout},
    {"GENERAL_ERR", Completion::kGeneral},
};

inline constexpr Word<Direction> kDirections[] = {
    {"request", Direction::kRequest},
    {"response", Direction::kResponse},
    {"management", Direction::kManagement},
};

// The attributes of class 0x07 (IBTA Vol 1, 12.6).
inline constexpr Word<std::uint16_t> kCmMessages[] = {
    {"REQ", 0x10},      {"MRA", 0x11},  {"REJ", 0x12},  {"REP", 0x13},
    {"RTU", 0x14},      {"DREQ", 0x15}, {"DREP", 0x16}, {"SIDR_REQ", 0x17},
    {"SIDR_REP", 0x18}, {"LAP", 0x19},  {"APR", 0x1a},
};

template <typename T, std::size_t N>
std::optional<T> value_of(const Word<T> (&table)[N], std::string_view word) {
  for (const auto& [text, value] : table) {
    if (text == word) return value;
  }
  return std::nullopt;
}
template <typename T, std::size_t N>
std::string_view word_of(const Word<T> (&table)[N], T value) {
  for (const auto& [text, known] : table) {
    if (known == value) return text;
  }
  return "";
}
// Returns text like "a, b or c".
template <typename T, std::size_t N>
std::string list_of(const Word<T> (&table)[N]) {
  std::string list;
  for (std::size_t i = 0; i < N; ++i) {
    list += (i == 0 ? "" : i + 1 == N ? " or " : ", ") + std::string(table[i].first);
  }
  return list;
}

// Adds the opcodes that `name` (in capitals) means: "SEND", "WRITE_LAST",
// "RC_READ_RESPONSE_MIDDLE", "ACK". Returns false if it means none.
bool add_opcodes(std::string_view name, Opcodes& opcodes);
// Examples of opcode names.
inline constexpr std::string_view kOpcodeExamples =
    "SEND, WRITE, READ, READ_RESPONSE, ATOMIC, ATOMIC_ACK, ACK, NAK, RNR_NAK, FLUSH, each with "
    "_FIRST, _MIDDLE, _LAST or _ONLY behind it and RC_, UC_, UD_ or XRC_ before it where there is "
    "such a packet";

}  // namespace verbena::fault::words
