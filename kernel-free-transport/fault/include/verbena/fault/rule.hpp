// SPDX-License-Identifier: BSD-2-Clause
// A rule of a scripted fault: which packets it is about, and what happens to them. A plain value;
// each value has one text:
//
//   ACTION [CONDITION...]      drop opcode=SEND nth=3 qp=server:1
//
//   drop, duplicate, corrupt[=FIELD], delay=TIME, hold=TIME, reorder=N, nak=KIND, complete=STATUS
//   fail=ERRNO call=FUNCTION: a call of the program
//   cut, rate=BITS: a line, which all packets that meet the conditions cross, repetitions included
//   port-down, port-up; kill, stop, cont (with program=), raise=EVENT: happens once (see after=)
//   opcode= direction= cm= nth= first= every= unit=message psn=A[-B] msg= attempt= qp= program=
//   srq= device= percent= burst= after= until= for= order=keep
//
// The names of packets (fate.hpp) decide which packets meet a rule, as for faults by chance, except
// for conditions about time.
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
  kHold,      // until this long after the rule came into force
  kReorder,   // behind the next packets of its queue pair
  kNak,       // the receiver refuses the request
  kComplete,  // the request completes with a status
  // Concerns no packets: calls of the program fail.
  kFail,
  // Concerns not single packets but a line, which repetitions cross too.
  kCut,   // nothing passes
  kRate,  // bytes per second that pass
  // Concern no packets: the emulator does these once, a time (`after`) after the program, or any
  // program, has opened a device.
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

// What is changed in a packet before it gets its ICRC, so that the receiver believes it. kIcrc
// breaks the ICRC instead, like a bad cable.
enum class Field : std::uint8_t { kIcrc, kOpcode, kPkey, kPsn, kQkey, kRkey, kLength, kPayload };

using Nak = wire::NakMark;

// A set of opcodes. The content of an acknowledgement counts as part of its opcode.
struct Opcodes {
  std::vector<std::string> names;  // as they were written, in capitals
  std::bitset<256> set;
  std::uint8_t answers = 0;  // for acknowledgements: 1 << wire::AethKind

  bool operator==(const Opcodes&) const = default;
};

struct PsnRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool operator==(const PsnRange&) const = default;
};

// Events that can be raised, with the values of ibv_event_type.
enum class Raised : std::uint8_t {
  kQpFatal = 1,
  kPathMigrationError = 7,
  kSrqError = 14,
  kClientReregister = 17,
  kWqFatal = 19
};

// The emulator's name as a program.
inline constexpr std::string_view kEmulatorName = "verbenad";

// Statuses that a request can be made to complete with. The values are those of ibv_wc_status.
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
  int error = 0;                       // for fail
  TimeNs time = 0;                     // for delay and hold
  std::uint32_t behind = 0;            // for reorder
  bool keeps_order = false;            // packets behind a delayed one wait for it
  std::uint64_t bytes_per_second = 0;  // for rate

  std::optional<Opcodes> opcodes;
  std::optional<Direction> direction;
  std::optional<std::uint16_t> cm;  // the attribute of a connection management datagram
  // Counts among the packets of one queue pair that meet all other conditions; 0: no condition.
  std::uint64_t nth = 0;
  bool onwards = false;  // includes all packets behind the nth
  std::uint64_t first = 0;
  std::uint64_t every = 0;
  bool by_message = false;      // these three and `ppm` count messages
  std::optional<PsnRange> psn;  // counted from the queue pair's first PSN
  std::uint64_t message = 0;    // the n-th message of its requests
  std::uint32_t attempt = 1;    // one more than the times that rules took it; 0: any
  std::string_view call;        // a function's name (failing_calls.hpp)
  std::string program;
  std::uint32_t place = 0;  // the queue pair is its process's n-th; 0: any
  bool is_of_srq = false;   // `place` is that of a shared receive queue
  std::optional<Qpn> qp;
  std::string device;
  std::uint32_t ppm = 0;    // a chance; 0: always
  std::uint32_t burst = 0;  // average length of a burst
  TimeNs after = 0;         // time since the rule came into force for the sender
  TimeNs until = kNever;
  TimeNs lasts = kNever;  // duration of a line, from its nth packet on

  bool is_management() const { return cm || direction == Direction::kManagement; }
  bool is_event() const { return fault::is_event(action); }
  bool is_of_call() const { return action == Action::kFail; }
  // Says whether the emulator answers the call. Other calls are answered in the program itself.
  bool is_of_librdmacm() const { return call.starts_with("rdma_"); }
  bool is_of_line() const { return fault::is_of_line(action); }
  bool needs_seed() const { return ppm != 0; }
  bool operator==(const Rule&) const = default;
};

// Parses a rule. A failure is a sentence that says what is wrong.
Result<Rule, std::string> parse_rule(std::string_view line);

struct RuleWord {
  std::string key;
  std::string value;
};
// Makes a rule from its parts: `action` is the first word of a line.
Result<Rule, std::string> make_rule(std::string_view action, std::span<const RuleWord> conditions);

// Says which rule can never fire because of the others, and why. Empty: each may fire.
std::string why_one_never_fires(std::span<const Rule> rules);

// Returns the rule's text, in one order and spelling whatever was parsed.
std::string to_string(const Rule& rule);

// How many characters of a program's name count, as in the kernel (comm).
inline constexpr std::size_t kProgramNameMost = 15;
bool is_called(std::string_view program, std::string_view name);

}  // namespace verbena::fault
