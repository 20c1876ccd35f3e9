// Packets that stand for several (wire/datagram.hpp): how much of a payload travels at once, whether
// it is left where it is (wire/direct.hpp), and where that is.
#include <algorithm>

#include "verbena/requester/requester.hpp"

namespace verbena::requester {

void Requester::ask_for_packing() {
  packing_ = way_->packing(endpoint_.destination, endpoint_.peer);
}

bool Requester::is_sealed_by(wire::Transmitter& way) {
  way_ = &way;
  ask_for_packing();
  return packing_->is_sealed;
}

// Of one that others follow all may go at once: they are written while it is read.
std::uint32_t Requester::joint_most_of(const SendEntry& entry) {
  const std::uint64_t in_a_row = std::uint64_t{entry.length} * (unsent() > 1 ? 2 : 1);
  return packing().joint_most_of(in_a_row);
}

bool Requester::may_be_packed(const SendEntry& entry) {
  if (entry.packets < 2 || endpoint_.transport != Transport::kRc) return false;
  return joint_most_of(entry) >= 2 * endpoint_.mtu || entry.length >= packing().direct_least;
}

Requester::Piece Requester::piece_of_packed(std::uint32_t position, Psn psn) {
  const SendEntry& entry = queue_.at(position);
  const std::uint32_t index = static_cast<std::uint32_t>(psn.distance_from(entry.first));
  const auto psns_of = [&](std::uint64_t bytes) {
    return wire::Transmitter::Packing::psns_at(index, entry.packets, bytes, endpoint_.mtu);
  };
  if (entry.length >= packing_->direct_least && (entry.flags & queue::kInline) == 0) {
    const std::uint32_t psns =
        psns_of(std::min(packing_->direct_most, wire::DirectPayload::kLengthMax));
    const std::uint64_t offset = std::uint64_t{index} * endpoint_.mtu;
    const std::uint64_t length =
        std::min<std::uint64_t>(entry.length - offset, std::uint64_t{psns} * endpoint_.mtu);
    wire::DirectPayload direct;
    if (psns > 1 && length >= packing_->direct_least &&
        !locate(entry, position, offset, length, direct)) {
      return {psns, true};
    }
  }
  return {psns_of(joint_most_of(entry)), false};
}

// Where a piece of the message lies; refused also (as not mapped) if that is no plain memory or too
// many places. What is wrong with the buffers is said when they are read.
std::optional<memory::Refusal> Requester::locate(const SendEntry& entry, std::uint32_t position,
                                                 std::uint64_t offset, std::uint64_t length,
                                                 wire::DirectPayload& to) const {
  const queue::Sge* sge = queue_.sges(position);
  for (std::uint32_t i = 0; i < entry.sge_count && length != 0; ++i, ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const std::uint64_t part = std::min<std::uint64_t>(sge->length - offset, length);
    const auto pin = endpoint_.memory->pin({sge->key, endpoint_.domain, sge->address + offset, part,
                                            0, endpoint_.number.value()});
    if (!pin.ok()) return pin.error();
    const auto address = reinterpret_cast<std::uintptr_t>(pin->direct());
    if (address == 0 || !to.add({address, part})) return memory::Refusal::kNotMapped;
    length -= part;
    offset = 0;
  }
  return std::nullopt;
}

}  // namespace verbena::requester
