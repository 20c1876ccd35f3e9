// From a request to packets: what may go now, and what each packet looks like.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "verbena/requester/requester.hpp"
#include "verbena/wire/crc32.hpp"

namespace verbena::requester {

using queue::Status;
using queue::WorkOpcode;
using wire::Operation;
using wire::Place;
using wire::WireTransport;

namespace {

constexpr std::size_t kWorkOpcodes = 12;
constexpr std::size_t kPlaces = 4;
// What a queue pair may send while others wait for their turn.
constexpr std::uint32_t kPacketsPerTurn = 64;

struct Shape {
  Operation operation;
  bool immediate = false;
  bool invalidate = false;
};

constexpr Shape shape_of(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kSend: return {Operation::kSend};
    case WorkOpcode::kSendImmediate: return {Operation::kSend, true};
    case WorkOpcode::kSendInvalidate: return {Operation::kSend, false, true};
    case WorkOpcode::kWrite: return {Operation::kWrite};
    case WorkOpcode::kWriteImmediate: return {Operation::kWrite, true};
    case WorkOpcode::kRead: return {Operation::kReadRequest};
    case WorkOpcode::kCompareSwap: return {Operation::kCompareSwap};
    case WorkOpcode::kFetchAdd: return {Operation::kFetchAdd};
    case WorkOpcode::kAtomicWrite: return {Operation::kAtomicWrite};
    case WorkOpcode::kFlush: return {Operation::kFlush};
    default: return {Operation::kCnp};
  }
}

// Immediate and key to invalidate travel in the last packet only.
using OpcodeTable = std::array<std::array<std::uint8_t, kPlaces>, kWorkOpcodes>;

constexpr OpcodeTable make_table(WireTransport transport) {
  OpcodeTable table{};
  for (std::size_t op = 0; op < kWorkOpcodes; ++op) {
    const Shape shape = shape_of(static_cast<WorkOpcode>(op));
    for (std::size_t p = 0; p < kPlaces; ++p) {
      const Place place = static_cast<Place>(p);
      const bool ends = place == Place::kOnly || place == Place::kLast;
      table[op][p] = wire::make_opcode(transport, shape.operation, place, ends && shape.immediate,
                                       ends && shape.invalidate);
    }
  }
  return table;
}

constexpr OpcodeTable kRcOpcodes = make_table(WireTransport::kRc);
constexpr OpcodeTable kUcOpcodes = make_table(WireTransport::kUc);
constexpr OpcodeTable kUdOpcodes = make_table(WireTransport::kUd);
constexpr OpcodeTable kXrcOpcodes = make_table(WireTransport::kXrc);

std::uint8_t opcode_for(Transport transport, WorkOpcode opcode, Place place) {
  const OpcodeTable& table = transport == Transport::kRc   ? kRcOpcodes
                             : transport == Transport::kUc ? kUcOpcodes
                             : transport == Transport::kUd ? kUdOpcodes
                                                           : kXrcOpcodes;
  return table[static_cast<std::size_t>(opcode)][static_cast<std::size_t>(place)];
}

constexpr Place place_of(bool first, bool last) {
  if (first) return last ? Place::kOnly : Place::kFirst;
  return last ? Place::kLast : Place::kMiddle;
}

}  // namespace

// Gives a request its PSNs, unless it must wait: for a fence, for a drain, for a receive at the
// peer (with all earlier requests answered, one may go without a credit, IBTA Vol 1, 9.7.7.2).
bool Requester::begin(SendEntry& entry) {
  if (draining_) return false;
  if ((entry.flags & queue::kFence) != 0 && responses_pending_ != 0) return false;
  if (!credits_unlimited_ && entry.needs_receive()) {
    const bool covered =
        Psn(message_count_ + 1).is_at_or_before(Psn(message_limit_));
    if (!covered && una_ != next_) return false;
  }
  const bool data = entry.opcode == WorkOpcode::kRead || entry.opcode <= WorkOpcode::kWriteImmediate;
  entry.packets = data ? std::max((entry.length + endpoint_.mtu - 1) / endpoint_.mtu, 1u) : 1u;
  entry.first = next_;
  entry.message = ++message_count_;
  entry.numbered = true;
  cursor_psn_ = next_;
  next_ = next_ + entry.packets;
  if (entry.wants_response()) ++responses_pending_;
  return true;
}

bool Requester::may_send(const SendEntry& entry, std::uint32_t window, TimeNs now) {
  if (!is_reliable()) return within_pace(now);
  const std::uint32_t ahead = static_cast<std::uint32_t>(cursor_psn_.distance_from(una_));
  if (entry.wants_response()) {
    if (reads_in_flight_ >= std::max<std::uint32_t>(reliability_.max_rd_atomic, 1)) return false;
    return ahead == 0 || ahead + psns_of_read(entry, cursor_psn_) <= window;
  }
  return ahead < window;
}

// LOCAL_INV and BIND_MW: no packet, but their place in the order. They wait behind a fence only.
bool Requester::run_local(SendEntry& entry) {
  if (draining_) return false;
  if ((entry.flags & queue::kFence) != 0 && responses_pending_ != 0) return false;
  source_.pin.release();
  memory::Registry& memory = *endpoint_.memory;
  if (entry.opcode == WorkOpcode::kLocalInvalidate) {
    if (!memory.invalidate(entry.immediate, endpoint_.domain, endpoint_.number.value()).ok()) {
      poison(cursor_, Status::kLocalQpOperation);
      return false;
    }
  } else {
    const WindowBindArguments& b = queue_.bind(cursor_);
    const memory::WindowBind bind{b.region_key, b.address, b.length, b.access};
    const auto bound =
        b.new_key == 0 ? memory.bind_type1(b.window_key, endpoint_.domain, bind)
                       : memory.bind_type2(b.window_key, b.new_key, endpoint_.domain,
                                           endpoint_.number.value(), bind);
    if (!bound.ok()) {
      queue::explain(endpoint_, "BIND_MW refused: %s",
                     std::string(memory::to_string(bound.error())).c_str());
      poison(cursor_, Status::kWindowBind);
      return false;
    }
  }
  entry.done = true;
  return true;
}

// A READ is asked for in chunks, whose ends lie at fixed places so that a repeated request ends
// where the lost one did.
std::uint32_t Requester::psns_of_read(const SendEntry& entry, Psn psn) const {
  if (entry.opcode != WorkOpcode::kRead) return 1;
  const std::uint32_t offset = static_cast<std::uint32_t>(psn.distance_from(entry.first));
  const std::uint32_t to_chunk_end = chunk_packets_ - offset % chunk_packets_;
  return std::min(to_chunk_end, entry.packets - offset);
}

Requester::Piece Requester::piece_at(std::uint32_t position, Psn psn) {
  const SendEntry& entry = queue_.at(position);
  return entry.wants_response() ? Piece{psns_of_read(entry, psn), false}
                                : piece_of_data(position, psn);
}

std::optional<memory::Refusal> Requester::gather(const SendEntry& entry, std::uint32_t position,
                                                 std::uint64_t offset, std::uint32_t length,
                                                 std::uint8_t* to) {
  if (length == 0) return std::nullopt;
  if ((entry.flags & queue::kInline) != 0) {
    std::memcpy(to, queue_.inline_bytes(position) + offset, length);
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
    auto pin = endpoint_.memory->pin({sge->key, endpoint_.domain, sge->address + offset, part, 0,
                                      endpoint_.number.value()});
    if (!pin.ok()) return pin.error();
    if (!pin->read(to, 0, part)) return memory::Refusal::kNotMapped;
    to += part;
    length -= part;
    offset = 0;
  }
  return std::nullopt;
}

// The payload of a whole packet in one piece, copied with its checksum; nothing where that is not
// so, or not wanted.
std::optional<std::uint32_t> Requester::gather_summed(const SendEntry& entry,
                                                      std::uint32_t position, std::uint64_t offset,
                                                      std::uint32_t length, std::uint8_t* to) {
  if (!wire::crc32_joins(length) || (entry.flags & queue::kInline) != 0) return std::nullopt;
  if (!wants_sums_) wants_sums_ = way_->wants_sums(endpoint_.destination, endpoint_.peer);
  const queue::Sge& sge = queue_.sges(position)[0];
  if (!*wants_sums_ || entry.sge_count != 1 || offset + length > sge.length) return std::nullopt;
  const std::uint8_t* bytes = source_bytes(sge);
  if (bytes == nullptr) return std::nullopt;
  return wire::crc32_copy(to, bytes + offset, length);
}

// The whole of it, pinned once for all packets that go at a time; null if it is no plain memory.
const std::uint8_t* Requester::source_bytes(const queue::Sge& sge) {
  if (!source_.pin || !(source_.sge == sge)) {
    source_.pin.release();
    auto pin = endpoint_.memory->pin({sge.key, endpoint_.domain, sge.address, sge.length, 0,
                                      endpoint_.number.value()});
    if (!pin.ok()) return nullptr;
    source_ = {sge, std::move(*pin)};
  }
  return source_.pin.direct();
}

Requester::Emit Requester::emit_datagram(std::uint32_t position, wire::TxBatch& out) {
  SendEntry& e = queue_.at(position);
  const std::uint8_t opcode = opcode_for(Transport::kUd, e.opcode, Place::kOnly);
  const wire::OpcodeRow& row = wire::row_of(opcode);
  const std::uint8_t pad = wire::pad_for(e.length);
  const std::size_t size = row.header_bytes + e.length + pad;
  std::uint8_t* at = out.begin(size);
  if (at == nullptr) return Emit::kBatchFull;
  if (const auto refused = gather(e, position, 0, e.length, at + row.header_bytes)) {
    queue::explain(endpoint_, "cannot read the buffers of a send: %s",
                   std::string(memory::to_string(*refused)).c_str());
    return Emit::kFailed;
  }
  std::memset(at + row.header_bytes + e.length, 0, pad);
  wire::Bth{opcode, (e.flags & queue::kSolicited) != 0, true, pad, 0, endpoint_.pkey, false, false,
            Qpn(e.remote_qpn), false, e.first}
      .write_to(at);
  // A Q_Key with the high bit set means the queue pair's own (IBTA Vol 1, 10.2.5).
  const std::uint32_t qkey = (e.remote_qkey & 0x80000000u) != 0 ? endpoint_.qkey : e.remote_qkey;
  wire::Deth{qkey, endpoint_.number}.write_to(at + row.deth_at);
  if (row.immediate) wire::ImmDt{e.immediate}.write_to(at + row.immediate_at);
  out.commit(size, queue_.address(position).destination);
  endpoint_.counters.bytes_sent.add(e.length);
  return Emit::kSent;
}

Requester::Emit Requester::refuse_buffers(const SendEntry& entry, memory::Refusal refusal) {
  queue::explain(endpoint_, "cannot read the buffers of %s: %s (check lkey, range and that the "
                 "region is still registered)", std::string(to_string(entry.opcode)).c_str(),
                 std::string(memory::to_string(refusal)).c_str());
  return Emit::kFailed;
}

// SEND and WRITE: the piece of the message that begins with this PSN, or where it is.
Requester::Emit Requester::emit_data(std::uint32_t position, Psn psn, const Piece& piece,
                                     wire::TxBatch& out, bool ask) {
  SendEntry& e = queue_.at(position);
  const std::uint32_t index = static_cast<std::uint32_t>(psn.distance_from(e.first));
  const std::uint64_t offset = std::uint64_t{index} * endpoint_.mtu;
  const std::uint32_t length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(e.length - offset, std::uint64_t{piece.psns} * endpoint_.mtu));
  const bool last = index + piece.psns == e.packets;
  const std::uint8_t opcode = opcode_for(endpoint_.transport, e.opcode, place_of(index == 0, last));
  const wire::OpcodeRow& row = wire::row_of(opcode);
  wire::DirectPayload direct;
  if (piece.is_direct) {
    direct.psns = piece.psns;
    if (const auto refused = locate(e, position, offset, length, direct)) {
      return refuse_buffers(e, *refused);
    }
  }
  const std::uint8_t pad = piece.is_direct ? 0 : wire::pad_for(length);
  const std::size_t size = row.header_bytes + (piece.is_direct ? direct.size() : length + pad);
  std::uint8_t* at = out.begin(size);
  if (at == nullptr) return Emit::kBatchFull;
  std::optional<std::uint32_t> sum;
  if (piece.is_direct) {
    direct.write_to(at + row.header_bytes);
  } else {
    if (piece.psns == 1) sum = gather_summed(e, position, offset, length, at + row.header_bytes);
    const auto refused = sum ? std::nullopt
                             : gather(e, position, offset, length, at + row.header_bytes);
    if (refused) return refuse_buffers(e, *refused);
  }
  for (std::uint8_t i = 0; i < pad; ++i) at[size - 1 - i] = 0;
  const bool solicited = last && (e.flags & queue::kSolicited) != 0;
  wire::Bth{opcode, solicited, endpoint_.migrated, pad, 0, endpoint_.pkey, false, false, endpoint_.peer,
            is_reliable() && (last || ask), psn}
      .write_to(at);
  if (row.xrceth) wire::XrcEth{e.remote_qpn}.write_to(at + row.xrceth_at);
  if (row.reth) wire::Reth{e.remote_address, e.remote_key, e.length}.write_to(at + row.reth_at);
  if (row.immediate) wire::ImmDt{e.immediate}.write_to(at + row.immediate_at);
  if (row.ieth) wire::Ieth{e.immediate}.write_to(at + row.ieth_at);
  if (piece.is_direct) {
    out.commit_direct(size, endpoint_.destination, piece.psns, direct.wire_bytes(row.header_bytes));
  } else if (piece.psns > 1) {
    out.commit_joint(size, endpoint_.destination, piece.psns,
                     size + (piece.psns - std::uint64_t{1}) * wire::Bth::kSize);
  } else if (sum) {
    out.commit_summed(size, endpoint_.destination, length, *sum);
  } else {
    out.commit(size, endpoint_.destination);
  }
  endpoint_.counters.bytes_sent.add(length);
  return Emit::kSent;
}

// READ, atomics, FLUSH, ATOMIC WRITE: headers only (and eight bytes).
Requester::Emit Requester::emit_request(std::uint32_t position, Psn psn, wire::TxBatch& out,
                                        bool ask) {
  SendEntry& e = queue_.at(position);
  const std::uint8_t opcode = opcode_for(endpoint_.transport, e.opcode, Place::kOnly);
  const wire::OpcodeRow& row = wire::row_of(opcode);
  const std::size_t payload = row.operation == Operation::kAtomicWrite ? 8 : 0;
  const std::size_t size = row.header_bytes + payload;
  std::uint8_t* at = out.begin(size);
  if (at == nullptr) return Emit::kBatchFull;
  wire::Bth{opcode, false, endpoint_.migrated, 0, 0, endpoint_.pkey, false, false, endpoint_.peer, ask, psn}
      .write_to(at);
  if (row.xrceth) wire::XrcEth{e.remote_qpn}.write_to(at + row.xrceth_at);
  if (row.feth) wire::Feth{e.flush_placement, e.flush_selectivity}.write_to(at + row.feth_at);
  if (row.atomic_eth) {
    wire::AtomicEth{e.remote_address, e.remote_key, e.swap_or_add, e.compare}.write_to(
        at + row.atomic_eth_at);
  }
  if (row.reth) {
    wire::Reth reth{e.remote_address, e.remote_key, e.length};
    if (row.operation == Operation::kReadRequest) {
      const std::uint64_t offset =
          std::uint64_t{static_cast<std::uint32_t>(psn.distance_from(e.first))} * endpoint_.mtu;
      reth.va += offset;
      reth.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(
          e.length - offset, std::uint64_t{psns_of_read(e, psn)} * endpoint_.mtu));
    }
    reth.write_to(at + row.reth_at);
  }
  if (payload != 0) std::memcpy(at + row.header_bytes, &e.swap_or_add, payload);
  out.commit(size, endpoint_.destination);
  return Emit::kSent;
}

Requester::Emit Requester::emit(std::uint32_t position, Psn psn, const Piece& piece,
                                wire::TxBatch& out, bool ask) {
  const SendEntry& entry = queue_.at(position);
  Emit result;
  if (endpoint_.transport == Transport::kUd) {
    result = emit_datagram(position, out);
  } else if (entry.wants_response()) {
    result = emit_request(position, psn, out, ask);
  } else {
    result = emit_data(position, psn, piece, out, ask);
  }
  if (result == Emit::kSent) {
    endpoint_.counters.packets_sent.add(entry.wants_response() ? 1 : piece.psns);
  }
  return result;
}

// The packet at the cursor went out. A turn ends with a packet that asks for its answer, or that
// would come late.
void Requester::sent_one(std::uint32_t packets, std::uint32_t psns, bool ask, TimeNs now) {
  sent_in_turn_ += packets;
  if (sent_in_turn_ >= kPacketsPerTurn && ask && share_->has_waiting()) turn_is_over_ = true;
  const bool again = cursor_psn_.is_before(sent_);
  if (again) endpoint_.counters.retransmitted.add(packets);
  if (una_ == sent_ || una_ == cursor_psn_) {
    base_ = probe_base_ = now;
    if (!timing_ && !again) {
      timing_ = true;
      timed_psn_ = cursor_psn_;
      timed_at_ = now;
    }
  }
  cursor_psn_ = cursor_psn_ + psns;
  if (cursor_psn_.is_after(sent_)) sent_ = cursor_psn_;
}

bool Requester::transmit_probe(wire::TxBatch& out) {
  if (una_ == sent_ || queue_.is_empty()) {
    probe_wanted_ = false;
    return false;
  }
  std::uint32_t position = queue_.head();
  while (queue_.at(position).is_local()) ++position;
  // Nothing that was not sent before.
  Piece piece = piece_at(position, una_);
  if ((una_ + piece.psns).is_after(sent_)) piece = {};
  const Emit result = emit(position, una_, piece, out, true);
  if (result == Emit::kBatchFull) return true;
  probe_wanted_ = false;
  if (result == Emit::kFailed) {
    cursor_ = position;
    poison(position, Status::kLocalProtection);
    return false;
  }
  endpoint_.counters.retransmitted.add(queue_.at(position).wants_response() ? 1 : piece.psns);
  probe_unanswered_ = true;
  probe_end_ = una_ + piece.psns;
  return false;
}

bool Requester::poll_transmit(wire::TxBatch& out, TimeNs now, wire::Transmitter& way) {
  way_ = &way;
  packing_.reset();
  wants_sums_.reset();
  const bool more = transmit_requests(out, now);
  source_.pin.release();
  // A turn that nothing came of.
  if (!more && una_ == sent_ && place_.has_turn()) give_up_turn();
  return more;
}

// What was sent before is repaired in any turn.
bool Requester::take_turn(const SendEntry& entry) noexcept {
  if (!is_reliable()) return true;
  if (place_.has_turn()) return !turn_is_over_ || cursor_psn_.is_before(sent_);
  // Alone, there is nobody to share with.
  if (place_.is_out() && share_.use_count() == 1) return true;
  return share_->enter(place_, capacity(entry));
}

bool Requester::transmit_requests(wire::TxBatch& out, TimeNs now) {
  if (!sending_ || waiting_rnr_ || poisoned_) return false;
  if (probe_wanted_ && transmit_probe(out)) return true;
  while (cursor_ != queue_.tail() && !poisoned_ && sending_) {
    SendEntry& entry = queue_.at(cursor_);
    if (entry.is_local()) {
      if (!entry.done && !run_local(entry)) break;
      ++cursor_;
      retire();
      continue;
    }
    if (!entry.numbered && !begin(entry)) break;
    const std::uint32_t window = window_for(entry);
    if (!may_send(entry, window, now) || !take_turn(entry)) break;
    const Piece piece = piece_at(cursor_, cursor_psn_);
    const std::uint32_t packets = entry.wants_response() ? 1 : piece.psns;
    since_ask_ += packets;
    const bool ask = since_ask_ >= std::max(window / 2, 1u) || cursor_psn_ == una_;
    const Emit result = emit(cursor_, cursor_psn_, piece, out, ask);
    if (result == Emit::kBatchFull) return true;
    if (result == Emit::kFailed) {
      poison(cursor_, Status::kLocalProtection);
      break;
    }
    if (ask) since_ask_ = 0;
    if (is_reliable()) {
      if (entry.wants_response()) ++reads_in_flight_;
      sent_one(packets, piece.psns, ask || entry.wants_response(), now);
      if (cursor_psn_.is_after(entry.last())) ++cursor_;
    } else {
      paid(entry);
      cursor_psn_ = cursor_psn_ + 1;
      if (cursor_psn_.is_after(entry.last())) {
        // Sent is done: nobody will answer.
        una_ = sent_ = cursor_psn_;
        ++cursor_;
        retire();
      }
    }
  }
  return false;
}

}  // namespace verbena::requester
