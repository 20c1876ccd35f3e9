// Payloads that travel direct (wire/direct.hpp): which, how much of one at once, and where it is.
#include <algorithm>

#include "verbena/requester/requester.hpp"

namespace verbena::requester {

// 1: an ordinary packet. The ends lie at fixed places, as those of a READ's chunks do.
std::uint32_t Requester::psns_of_direct(std::uint32_t position, Psn psn) {
  const SendEntry& entry = queue_.at(position);
  if (entry.packets < 2 || endpoint_.transport != Transport::kRc ||
      (entry.flags & queue::kInline) != 0) {
    return 1;
  }
  if (!direct_sizes_) direct_sizes_ = way_->direct_sizes(endpoint_.destination, endpoint_.peer);
  if (entry.length < direct_sizes_->least) return 1;
  const std::uint32_t index = static_cast<std::uint32_t>(psn.distance_from(entry.first));
  const std::uint64_t bytes = std::min(direct_sizes_->most, wire::DirectPayload::kLengthMax);
  const std::uint32_t most = std::max(static_cast<std::uint32_t>(bytes) / endpoint_.mtu, 1u);
  const std::uint32_t psns = std::min(most - index % most, entry.packets - index);
  const std::uint64_t offset = std::uint64_t{index} * endpoint_.mtu;
  const std::uint64_t length =
      std::min<std::uint64_t>(entry.length - offset, std::uint64_t{psns} * endpoint_.mtu);
  if (psns < 2 || length < direct_sizes_->least) return 1;
  wire::DirectPayload direct;
  return locate(entry, position, offset, length, direct) ? 1 : psns;
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
