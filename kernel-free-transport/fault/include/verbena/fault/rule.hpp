// SPDX-License-Identifier: BSD-2-Clause
// A rule of a scripted fault: which packets it is about, and what becomes of them. A plain value
// with one text for each value:
//
//   ACTION [CONDITION...]      drop opcode=SEND nth=3 qp=server:1
//
//   drop, duplicate, corrupt[=FIELD], delay=TIME, hold=TIME, reorder=N, nak=KIND, complete=STATUS
//   fail=ERRNO call=FUNCTION: a call of the program
//   cut, rate=BITS: a line that all go over which the conditions name, repetitions, too
//   port-down, port-up; kill, stop, cont (with program=), raise=EVENT: what happens once, at a time
//   (after=)
//   opcode= direction= cm= nth= first= every= unit=message psn=A[-B] msg= attempt= qp= program=
//   srq= device= percent= burst= after= until= for= order=keep
//
// Which packets meet it follows from their names (fate.hpp), as with faults by chance, except for
// what says a time.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/base/types.hpp"
#include "verbena/fault/fate.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::fault {

enum class Action : std::uint8_t {
  kDrop,
  kDuplicate,
  kCorrupt,
  kDelay,
  kHold,      // until so long after the rule came into force
  kReorder,   // behind the next packets of its queue pair
  kNak,       // the receiver refuses the request
  kComplete,  // the request completes with a status
  // Not of packets: calls of the program fail.
  kFail,
  // Not of single packets: of a line, which repetitions go over, too.
  kCut,   // nothing comes through
  kRate,  // so much does in a second
  // Not of packets: the emulator does these once, so long (`after`) after the program has opened a
  // device, or any program has.
  kPortDown,
  kPortUp,
  kKill,
  kStop,
  kCont,
  kRaise  // an asynchronous event
};
constexpr bool is_event(Action action) { return action >= Action::kPortDown; }
constexpr bool is_of_line(Action action) {
  return action == Action::kCut || action == Action::kRate;
}

// What is changed of a packet before it gets its ICRC, so that the receiver believes it; kIcrc
// breaks that instead, as a bad cable does.
enum class Field : std::uint8_t { kIcrc, kOpcode, kPkey, kPsn, kQkey, kRkey, kLength, kPayload };

using Nak = wire::NakMark;

// Of packets with these opcodes. What an acknowledgement says counts as part of its opcode.
struct Opcodes {
  std::vector<std::string> names;  // as they were written, in capitals
  std::bitset<256> set;
  std::uint8_t answers = 0;  // of acknowledgements: 1 << wire::AethKind

  bool operator==(const Opcodes&) const = default;
};

struct PsnRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool operator==(const PsnRange&) const = default;
};

// The values are those of ibv_event_type.
enum class Raised : std::uint8_t {
  kQpFatal = 1,
  kPathMigrationError = 7,
  kSrqError = 14,
  kClientReregister = 17,
  kWqFatal = 19
};

// What the emulator is called as a program.
inline constexpr std::string_view kEmulatorName = "verbenad";

// With which a request may be made to complete. The values are those of ibv_wc_status.
enum class Completion : std::uint8_t {
  kNone = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalProtection = 4,
  kBadResponse = 7,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteAborted = 16,
  kFatal = 19,
  kResponseTimeout = 20,
  kGeneral = 21
};

struct Rule {
  static constexpr std::size_t kTextMost = 400;

  Action action = Action::kDrop;
  Field field = Field::kIcrc;
  Nak nak = Nak::kNone;
  Completion completion = Completion::kNone;
  Raised raised = Raised::kClientReregister;
  int error = 0;                       // of fail
  TimeNs time = 0;                     // of delay and hold
  std::uint32_t behind = 0;            // of reorder
  bool keeps_order = false;            // what comes behind what is held back waits for it
  std::uint64_t bytes_per_second = 0;  // of rate

  std::optional<Opcodes> opcodes;
  std::optional<Direction> direction;
  std::optional<std::uint16_t> cm;  // the attribute of a datagram of connection management
  // Of the packets of one queue pair that all other conditions name; 0: not asked for.
  std::uint64_t nth = 0;
  bool onwards = false;  // and those behind the nth
  std::uint64_t first = 0;
  std::uint64_t every = 0;
  bool by_message = false;      // these three, and a chance, are about messages instead
  std::optional<PsnRange> psn;  // from the queue pair's first one on
  std::uint64_t message = 0;    // the n-th that its requests begin
  std::uint32_t attempt = 1;    // one more than how many times rules took it; 0: any
  std::string_view call;        // a function's name (failing_calls.hpp)
  std::string program;
  std::uint32_t place = 0;  // the queue pair's among those of its process; 0: any
  bool is_of_srq = false;   // the place is a shared receive queue's
  std::optional<Qpn> qp;
  std::string device;
  std::uint32_t ppm = 0;    // a chance; 0: always
  std::uint32_t burst = 0;  // so many in a row on average
  TimeNs after = 0;         // since it came into force for the sender
  TimeNs until = kNever;
  TimeNs lasts = kNever;  // of a line, from its nth packet on

  bool is_management() const { return cm || direction == Direction::kManagement; }
  bool is_event() const { return fault::is_event(action); }
  bool is_of_call() const { return action == Action::kFail; }
  // Which the emulator answers; the others are answered in the program itself.
  bool is_of_librdmacm() const { return call.starts_with("rdma_"); }
  bool is_of_line() const { return fault::is_of_line(action); }
  bool needs_seed() const { return ppm != 0; }
  bool operator==(const Rule&) const = default;
};

// Nothing, or a sentence that says what is wrong.
Result<Rule, std::string> parse_rule(std::string_view line);

struct RuleWord {
  std::string key;
  std::string value;
};
// The same in parts: `action` as the first word of a line, and the conditions.
Result<Rule, std::string> make_rule(std::string_view action, std::span<const RuleWord> conditions);

// Which of these can never fire because of what the others are, and why; empty: each may.
std::string why_one_never_fires(std::span<const Rule> rules);

// In one order and spelling, whatever was parsed.
std::string to_string(const Rule& rule);

// Programs are called by at most so many characters, as the kernel does (comm).
inline constexpr std::size_t kProgramNameMost = 15;
bool is_called(std::string_view program, std::string_view name);

}  // namespace verbena::fault
