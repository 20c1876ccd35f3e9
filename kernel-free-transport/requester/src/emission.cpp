// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/requester/emission.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "verbena/base/short_copy.hpp"
#include "verbena/requester/read_chunks.hpp"
#include "verbena/wire/crc32.hpp"
#include "verbena/wire/grh.hpp"
#include "verbena/wire/packet.hpp"
#include "words.hpp"

namespace verbena::requester {

using queue::WorkOpcode;
using wire::Operation;
using wire::Place;
using Packing = wire::Path::Packing;

namespace {

// What a work request's packets are. Immediate data and the key to invalidate travel in the last
// packet only.
struct Shape {
  Operation operation;
  bool immediate = false;
  bool invalidate = false;
};

// In the order of WorkOpcode. The last two send no packet.
constexpr Shape kShapes[] = {
    {Operation::kSend},
    {.operation = Operation::kSend, .immediate = true},
    {.operation = Operation::kSend, .invalidate = true},
    {Operation::kWrite},
    {.operation = Operation::kWrite, .immediate = true},
    {Operation::kReadRequest},
    {Operation::kCompareSwap},
    {Operation::kFetchAdd},
    {Operation::kAtomicWrite},
    {Operation::kFlush},
    {Operation::kCnp},
    {Operation::kCnp},
};
static_assert(std::size(kShapes) == static_cast<std::size_t>(WorkOpcode::kBindWindow) + 1);

std::uint8_t opcode_of(Transport transport, WorkOpcode work, Place place) {
  const Shape& shape = kShapes[static_cast<std::size_t>(work)];
  const bool ends = place == Place::kOnly || place == Place::kLast;
  return wire::make_opcode(wire::wire_transport(transport), shape.operation, place,
                           ends && shape.immediate, ends && shape.invalidate);
}

constexpr Place place_of(bool first, bool last) {
  if (first) return last ? Place::kOnly : Place::kFirst;
  return last ? Place::kLast : Place::kMiddle;
}

}  // namespace

std::optional<memory::Refusal> Emission::gather(const SendEntry& entry, std::uint32_t position,
                                                std::uint64_t offset, std::uint32_t length,
                                                std::uint8_t* to) const {
  if (length == 0) return std::nullopt;
  if ((entry.flags & queue::kInline) != 0) {
    short_copy(to, queue_.inline_bytes(position) + offset, length);
    return std::nullopt;
  }
  const queue::Sge* sge = queue_.sges(position);
  for (std::uint32_t i = 0; i < entry.sge_count && length != 0; ++i, ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const std::uint32_t part =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(sge->length - offset, length));
    auto pin = endpoint_.memory->pin(
        {sge->key, endpoint_.domain, sge->address + offset, part, 0, endpoint_.number.value()});
    if (!pin.ok()) [[unlikely]]
      return pin.error();
    if (!pin->read(to, 0, part)) [[unlikely]]
      return memory::Refusal::kNotMapped;
    to += part;
    length -= part;
    offset = 0;
  }
  return std::nullopt;
}

Emission::Message Emission::message_at(std::uint32_t position, bool is_followed,
                                       wire::TxBatch& out) {
  const SendEntry& entry = queue_.at(position);
  Message message;
  message.position = position;
  message.wants_response = entry.wants_response();
  message.to = &endpoint_.destination;
  if (endpoint_.transport == Transport::kUd) {
    const queue::AddressVector& to = queue_.address(position);
    message.to = &to.destination;
    if (to.sends_grh_word()) message.word_bytes = wire::Deth::kGrhWordSize;
    return message;
  }
  if (message.wants_response) return message;
  message.bytes = bytes_of(entry, position, out);
  // A short message of one packet is the same on every path.
  if (entry.packets == 1 && entry.length < Packing::kBorrowedLeast) return message;
  message.merged_most = merged_most_of(entry, is_followed);
  if (message.bytes != nullptr && wire::crc32_joins(std::min(entry.length, endpoint_.mtu))) {
    message.sums = endpoint_.packing().is_sealed;
  }
  if (entry.length >= Packing::kBundledLeast) message.is_bundled = endpoint_.packing().is_bundled;
  message.is_borrowed = message.bytes != nullptr && may_borrow(entry);
  return message;
}

// A message that others follow may go as one piece: the next one is written while it is read.
std::uint32_t Emission::merged_most_of(const SendEntry& entry, bool is_followed) {
  if (entry.packets < 2 || endpoint_.transport != Transport::kRc) return 0;
  const std::uint64_t in_a_row = std::uint64_t{entry.length} * (is_followed ? 2 : 1);
  const std::uint32_t most = endpoint_.packing().merged_most_of(in_a_row);
  return most >= 2 * endpoint_.mtu ? most : 0;
}

std::uint32_t Emission::psns_at(const Message& message, Psn psn) const {
  const SendEntry& entry = queue_.at(message.position);
  if (message.wants_response) {
    return psns_asked_for(entry, psn, chunk_of(entry, endpoint_.mtu, window_));
  }
  if (message.merged_most == 0) return 1;
  const auto index = static_cast<std::uint32_t>(psn.distance_from(entry.first));
  return Packing::psns_at(index, entry.packets, message.merged_most, endpoint_.mtu);
}

// On a reliable transport an answer completes the request, so the program leaves its buffers alone
// until the batch was sent.
bool Emission::may_borrow(const SendEntry& entry) {
  return (entry.flags & queue::kInline) == 0 && is_reliable() && !endpoint_.packing().is_sealed &&
         entry.length >= endpoint_.packing().borrowed_least;
}

void Emission::release(wire::TxBatch& out) {
  if (std::exchange(source_.is_borrowed, false)) return out.hold(source_.pin.detach());
  source_.pin.release();
}

// Returns the payload if it lies in one piece of plain memory, which is pinned for all packets that
// go together. Returns null otherwise; gather() says what is wrong with the buffers.
const std::uint8_t* Emission::bytes_of(const SendEntry& entry, std::uint32_t position,
                                       wire::TxBatch& out) {
  if ((entry.flags & queue::kInline) != 0) return queue_.inline_bytes(position);
  if (entry.sge_count != 1 || entry.length == 0) return nullptr;
  const queue::Sge& sge = queue_.sges(position)[0];
  if (!source_.pin || !(source_.sge == sge)) {
    release(out);
    auto pin = endpoint_.memory->pin(
        {sge.key, endpoint_.domain, sge.address, sge.length, 0, endpoint_.number.value()});
    if (!pin.ok()) return nullptr;
    source_ = {sge, std::move(*pin)};
  }
  return source_.pin.direct();
}

Emission::Extent Emission::extent_of(const Message& message, const SendEntry& e, Psn psn,
                                     std::uint32_t psns) const {
  const std::uint32_t mtu = endpoint_.mtu;
  const auto index = static_cast<std::uint32_t>(psn.distance_from(e.first));
  const std::uint64_t offset = std::uint64_t{index} * mtu;
  if (message.wants_response) {
    const std::uint32_t length = e.opcode == WorkOpcode::kAtomicWrite ? e.length : 0;
    return {offset, length, false, opcode_of(endpoint_.transport, e.opcode, Place::kOnly)};
  }
  const auto length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(e.length - offset, std::uint64_t{psns} * mtu));
  const bool is_last = index + psns == e.packets;
  const Place place = place_of(index == 0, is_last);
  return {offset, length, is_last, opcode_of(endpoint_.transport, e.opcode, place)};
}

// Copies the payload to its place in the packet, unless it is borrowed. A packet that goes again is
// copied, so that a payload that is gone by then is refused here.
std::optional<memory::Refusal> Emission::put_payload(const Message& message, const SendEntry& e,
                                                     const Extent& extent, Psn psn,
                                                     std::uint32_t merged, std::uint8_t* to,
                                                     Carried& carried) const {
  if (message.wants_response) {
    if (extent.length != 0) {
      std::memcpy(to, &queue_.rare(message.position).swap_or_add, extent.length);
    }
    return std::nullopt;
  }
  if (message.bytes == nullptr) {
    return gather(e, message.position, extent.offset, extent.length, to);
  }
  const std::uint8_t* const from = message.bytes + extent.offset;
  bool is_there = true;
  if (message.sums && merged == 1 && wire::crc32_joins(extent.length)) {
    is_there = wire::crc32_copy(to, from, extent.length, carried.sum.emplace());
  } else if (message.is_borrowed && !psn.is_before(psns_.sent())) {
    carried.borrowed = from;
  } else {
    is_there = guarded_copy(to, from, extent.length);
  }
  if (is_there) [[likely]]
    return std::nullopt;
  return memory::Refusal::kNotMapped;
}

void Emission::write_headers(const Message& message, const SendEntry& e, const Extent& extent,
                             Psn psn, bool ack_request, std::uint8_t* at) const {
  const wire::OpcodeRow& row = wire::row_of(extent.opcode);
  const bool solicited = extent.is_last && (e.flags & queue::kSolicited) != 0;
  wire::Bth{extent.opcode,
            solicited,
            row.deth || endpoint_.migrated,
            wire::pad_for(extent.length),
            0,
            endpoint_.pkey,
            false,
            false,
            row.deth ? Qpn(e.remote_qpn) : endpoint_.peer,
            is_reliable() && ack_request,
            psn}
      .write_to(at);
  // A WRITE says in its first packet how long all of it is; a READ asks for a chunk at a time.
  if (row.reth) {
    const bool is_read = e.opcode == WorkOpcode::kRead;
    const std::uint64_t rest = e.length - extent.offset;
    const std::uint32_t mtu = endpoint_.mtu;
    const std::uint64_t chunk =
        std::uint64_t{is_read ? psns_asked_for(e, psn, chunk_of(e, mtu, window_)) : 0} * mtu;
    const auto length = is_read ? static_cast<std::uint32_t>(std::min(rest, chunk)) : e.length;
    wire::Reth{e.remote_address + extent.offset, e.remote_key, length}.write_to(at + row.reth_at);
  }
  if (!row.has_seldom) return;
  if (row.xrceth) wire::XrcEth{e.remote_qpn}.write_to(at + row.xrceth_at);
  if (row.immediate) wire::ImmDt{e.immediate}.write_to(at + row.immediate_at);
  if (row.ieth) wire::Ieth{e.immediate}.write_to(at + row.ieth_at);
  if (row.deth) write_deth(message, e, row, at);
  if (row.feth) {
    const Rare& rare = queue_.rare(message.position);
    wire::Feth{rare.flush_placement, rare.flush_selectivity}.write_to(at + row.feth_at);
  }
  if (row.atomic_eth) {
    const Rare& rare = queue_.rare(message.position);
    wire::AtomicEth{e.remote_address, e.remote_key, rare.swap_or_add, rare.compare}.write_to(
        at + row.atomic_eth_at);
  }
}

// Writes the DETH of UD, and behind the headers the first word of a GRH if the datagram brings
// that.
void Emission::write_deth(const Message& message, const SendEntry& e, const wire::OpcodeRow& row,
                          std::uint8_t* at) const {
  const queue::AddressVector& to = queue_.address(message.position);
  // A Q_Key with the high bit set means the queue pair's own (IBTA Vol 1, 10.2.5).
  const std::uint32_t qkey = (e.remote_key & 0x80000000u) != 0 ? endpoint_.qkey : e.remote_key;
  std::uint8_t reserved = to.is_infiniband ? to.service_level & wire::Deth::kServiceLevel : 0;
  if (message.word_bytes != 0) {
    reserved |= wire::Deth::kGrhWord;
    wire::Grh::write_first_word(at + row.header_bytes, to.destination.traffic_class,
                                to.destination.flow_label);
  }
  wire::Deth{qkey, endpoint_.number, reserved}.write_to(at + row.deth_at);
  if (Qpn(e.remote_qpn) == kMulticastQpn) [[unlikely]]
    endpoint_.port->multicast_sent.add();
}

Emission::Result Emission::emit(Message& message, Psn psn, std::uint32_t psns, wire::TxBatch& out,
                                bool ack_request) {
  const SendEntry& e = queue_.at(message.position);
  const Extent extent = extent_of(message, e, psn, psns);
  const wire::OpcodeRow& row = wire::row_of(extent.opcode);
  const std::uint8_t pad = wire::pad_for(extent.length);
  const std::size_t header_bytes = row.header_bytes + message.word_bytes;
  const std::size_t size = header_bytes + extent.length + pad;
  if (message.is_bundled) out.be_one_run();
  std::uint8_t* const at = out.begin(size);
  if (at == nullptr) return Result::kBatchFull;
  const std::uint32_t merged = message.wants_response ? 1 : psns;
  Carried carried;
  const auto refused = put_payload(message, e, extent, psn, merged, at + header_bytes, carried);
  if (refused) [[unlikely]] {
    explain_buffers(endpoint_, queue_, message.position, *refused);
    return Result::kRefused;
  }
  for (std::uint8_t i = 0; i < pad; ++i) at[size - 1 - i] = 0;
  write_headers(message, e, extent, psn, ack_request, at);
  if (!message.destination) message.destination = out.name(*message.to);
  out.commit_to(*message.destination, size);
  if (message.wants_response && !(psn == e.first)) [[unlikely]]
    out.note_continues_read();
  if (merged > 1) out.make_merged(merged, size + wire::more_header_bytes(row, merged));
  if (carried.sum) out.note_sum(extent.length, *carried.sum);
  if (carried.borrowed != nullptr) {
    out.borrow(header_bytes, carried.borrowed, extent.length);
    source_.is_borrowed = true;
  }
  if (!message.wants_response) endpoint_.counters.bytes_sent.add(extent.length);
  endpoint_.counters.packets_sent.add(merged);
  return Result::kSent;
}

}  // namespace verbena::requester
