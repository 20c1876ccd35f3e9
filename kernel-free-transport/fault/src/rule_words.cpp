// SPDX-License-Identifier: BSD-2-Clause
#include "rule_words.hpp"

#include <initializer_list>

#include "verbena/wire/aeth.hpp"

namespace verbena::fault::words {
namespace {

using wire::AethKind;
using wire::Operation;
using wire::Place;
using wire::WireTransport;

constexpr std::uint8_t bit(AethKind kind) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind));
}
constexpr std::uint8_t kAnyAnswer = 0x0f;

struct Family {
  std::string_view name;
  std::initializer_list<Operation> operations;
  std::uint8_t answers = 0;
};

// A name comes before the shorter names that it begins with.
const Family kFamilies[] = {
    {"SEND", {Operation::kSend}},
    {"WRITE", {Operation::kWrite}},
    {"READ_RESPONSE", {Operation::kReadResponse}},
    {"READ_REQUEST", {Operation::kReadRequest}},
    {"READ", {Operation::kReadRequest}},
    {"ATOMIC_ACK", {Operation::kAtomicAcknowledge}},
    {"ATOMIC_WRITE", {Operation::kAtomicWrite}},
    {"ATOMIC", {Operation::kCompareSwap, Operation::kFetchAdd}},
    {"CMP_SWAP", {Operation::kCompareSwap}},
    {"FETCH_ADD", {Operation::kFetchAdd}},
    {"FLUSH", {Operation::kFlush}},
    {"CNP", {Operation::kCnp}},
    {"ACKNOWLEDGE", {Operation::kAcknowledge}, kAnyAnswer},
    {"ACK", {Operation::kAcknowledge}, bit(AethKind::kAck)},
    {"RNR_NAK", {Operation::kAcknowledge}, bit(AethKind::kRnrNak)},
    {"NAK", {Operation::kAcknowledge}, bit(AethKind::kNak)},
};

constexpr Word<WireTransport> kTransports[] = {{"RC_", WireTransport::kRc},
                                               {"UC_", WireTransport::kUc},
                                               {"UD_", WireTransport::kUd},
                                               {"XRC_", WireTransport::kXrc}};
constexpr Word<Place> kPlaces[] = {{"FIRST", Place::kFirst},
                                   {"MIDDLE", Place::kMiddle},
                                   {"LAST", Place::kLast},
                                   {"ONLY", Place::kOnly}};

// What follows the family: "_LAST", "_ONLY_IMM".
struct Suffix {
  std::optional<Place> place;
  bool immediate = false;
  bool invalidate = false;
};

std::optional<Suffix> parse_suffix(std::string_view text) {
  Suffix suffix;
  while (!text.empty()) {
    if (text.front() != '_') return std::nullopt;
    text.remove_prefix(1);
    const std::string_view word = text.substr(0, text.find('_'));
    text.remove_prefix(word.size());
    if (const auto place = value_of(kPlaces, word); place && !suffix.place) {
      suffix.place = place;
    } else if (word == "IMM" && !suffix.immediate) {
      suffix.immediate = true;
    } else if (word == "INV" && !suffix.invalidate) {
      suffix.invalidate = true;
    } else {
      return std::nullopt;
    }
  }
  return suffix;
}

bool is_of(const wire::OpcodeRow& row, const Family& family, const Suffix& suffix,
           std::optional<WireTransport> transport) {
  if (!row.valid || (transport && row.transport != *transport)) return false;
  if (suffix.place && row.place != *suffix.place) return false;
  if ((suffix.immediate && !row.immediate) || (suffix.invalidate && !row.ieth)) return false;
  for (const Operation operation : family.operations) {
    if (row.operation == operation) return true;
  }
  return false;
}

}  // namespace

bool add_opcodes(std::string_view name, Opcodes& opcodes) {
  opcodes.names.emplace_back(name);
  std::optional<WireTransport> transport;
  for (const auto& [prefix, value] : kTransports) {
    if (!name.starts_with(prefix)) continue;
    transport = value;
    name.remove_prefix(prefix.size());
    break;
  }
  for (const Family& family : kFamilies) {
    if (!name.starts_with(family.name)) continue;
    const auto suffix = parse_suffix(name.substr(family.name.size()));
    if (!suffix) continue;
    bool is_any = false;
    for (std::size_t opcode = 0; opcode < opcodes.set.size(); ++opcode) {
      if (!is_of(wire::row_of(static_cast<std::uint8_t>(opcode)), family, *suffix, transport)) {
        continue;
      }
      opcodes.set.set(opcode);
      is_any = true;
    }
    if (is_any) opcodes.answers |= family.answers;
    return is_any;
  }
  return false;
}

}  // namespace verbena::fault::words
