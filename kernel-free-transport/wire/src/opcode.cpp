// SPDX-License-Identifier: BSD-2-Clause
// Facts about the opcode table that the compiler can check.
#include "verbena/wire/opcode.hpp"

#include "verbena/wire/datagram.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::wire {
namespace {

constexpr bool every_row_is_consistent() {
  for (std::size_t opcode = 0; opcode < kOpcodeTable.size(); ++opcode) {
    const OpcodeRow& row = kOpcodeTable[opcode];
    if (!row.valid) continue;
    if (static_cast<std::size_t>(row.transport) != opcode >> 5) return false;
    if (row.header_bytes < Bth::kSize || row.header_bytes > kMaxHeaders) return false;
    if (row.request && row.response) return false;
    if (make_opcode(row.transport, row.operation, row.place, row.immediate, row.ieth) != opcode) {
      return false;
    }
  }
  return true;
}
static_assert(every_row_is_consistent());
static_assert(!kOpcodeTable[kNoOpcode].valid);

}  // namespace
}  // namespace verbena::wire
