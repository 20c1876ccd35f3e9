// SPDX-License-Identifier: BSD-2-Clause
// How a packet comes in, and how a queue pair sends when it is its turn.
#include <algorithm>
#include <utility>

#include "verbena/device/device.hpp"

namespace verbena::device {
namespace {

// What one queue pair may send before others get their turn: a number of batches, and a number of
// bytes after which no batch begins.
constexpr int kBatchesPerTurn = 4;
constexpr std::size_t kBytesPerTurn =
    kBatchesPerTurn * (wire::TxBatch::kRunBytes - wire::kMaxPacket);
// While answers are outstanding, posted requests wait for more until there are so many, or so much
// data: enough to fill a datagram.
constexpr std::uint32_t kRequestsPerBatch = 32;
constexpr std::uint64_t kBytesPerBatch = 60 * 1024;

bool has_little_to_send(const requester::Requester& requester) {
  return requester.unsent() < kRequestsPerBatch && requester.unsent_bytes() < kBytesPerBatch;
}

}  // namespace

// Lists the queue pair if a received packet left it something to send.
void Device::note_pending(qp::QueuePair& qp, TimeNs now) {
  if (!qp.wants_to_transmit()) return;
  if (!qp.only_acknowledges() || !qp.held.holds(now)) return pending_.touch(qp);
  pending_.hold(qp);
}

void Device::deliver(qp::QueuePair& qp, const wire::PacketView& packet,
                     const wire::RxDatagram& datagram, TimeNs now) {
  const Guard guard(qp.lock());
  qp.handle_packet(packet, datagram, now);
  note_pending(qp, now);
  rearm(qp);
}

void Device::handle_datagram(TimeNs now, const wire::RxDatagram& datagram) {
  counters_.received.packets.add();
  counters_.received.bytes.add(datagram.bytes.size());
  if (!is_port_active()) return counters_.drops.count(DropReason::kPortDown);
  wire::PacketView packet;
  if (const auto why = wire::parse_packet(datagram, packet)) return counters_.drops.count(*why);
  qp::QueuePair* qp = table_.find(packet.bth.dest_qp);
  if (datagram.piggybacked_ack) {
    count_piggybacked_ack();
    packet.piggybacked_ack = &*datagram.piggybacked_ack;
  }
  if (datagram.psns > 1 && !count_merged(packet, datagram.psns)) {
    return counters_.drops.count(DropReason::kMalformed);
  }
  if (qp == nullptr) return handle_answer(now, packet, datagram);
  if (qp->transport() == Transport::kUd) [[unlikely]] {
    wire::RxDatagram named = datagram;
    name(named);
    return deliver(*qp, packet, named, now);
  }
  deliver(*qp, packet, datagram, now);
}

bool Device::count_merged(wire::PacketView& packet, std::uint32_t psns) noexcept {
  if (!wire::may_stand_for_several(*packet.row)) return false;
  packet.psns = psns;
  counters_.received.packets.add(psns - 1);
  counters_.received.bytes.add(wire::more_header_bytes(*packet.row, psns));
  return true;
}

void Device::name(wire::RxDatagram& datagram) const {
  datagram.source_gid = options_.plan.gid_of(datagram.source);
  datagram.source_lid = options_.plan.lid_of(datagram.source);
  datagram.destination_gid = options_.plan.gid_of(datagram.destination);
}

void Device::handle_multicast(TimeNs now, wire::RxDatagram datagram, Qpn member) {
  counters_.received.packets.add();
  counters_.received.bytes.add(datagram.bytes.size());
  counters_.received.multicast.add();
  if (!is_port_active()) return counters_.drops.count(DropReason::kPortDown);
  wire::PacketView packet;
  if (const auto why = wire::parse_packet(datagram, packet)) return counters_.drops.count(*why);
  qp::QueuePair* qp = table_.find(member);
  if (qp == nullptr || qp->transport() != Transport::kUd) {
    return counters_.drops.count(DropReason::kNotMember);
  }
  if (qp->endpoint().blocks_own_multicast && packet.deth().source_qp == member &&
      datagram.source == options_.address) {
    return counters_.drops.count(DropReason::kOwnMulticast);
  }
  const Gid group = datagram.destination_gid;
  name(datagram);
  datagram.destination_gid = group;
  deliver(*qp, packet, datagram, now);
}

void Device::rearm(qp::QueuePair& qp) {
  const TimeNs deadline = qp.deadline();
  if (deadline >= qp.armed_deadline) [[likely]]
    return;
  qp.armed_deadline = deadline;
  if (timers_.add(deadline, qp.number())) events_.on_earlier_deadline(deadline);
}

void Device::on_turn(void* member) noexcept {
  pending_.push(*static_cast<qp::QueuePair*>(member));
  events_.on_earlier_deadline(0);
}

// Takes a free buffer. Threads usually start the search with different buffers, and each always
// with the same one, so that this buffer is in no other thread's cache. The stack's address decides
// which; the stacks of threads are megabytes apart.
std::size_t Device::take_buffer() {
  constexpr std::size_t kCount = std::tuple_size_v<decltype(buffers_)>;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) >> 16;
  const std::size_t first = (frame ^ frame >> 7) % kCount;
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t which = (first + i) % kCount;
    if (buffers_[which]->lock.try_lock()) [[likely]]
      return which;
  }
  buffers_[first]->lock.lock();
  return first;
}

void Device::transmit(qp::QueuePair& qp, TimeNs now, Rest rest) {
  const std::size_t which = take_buffer();
  const bool more = transmit_batches(which, qp, now, rest);
  buffers_[which]->lock.unlock();
  if (!qp.responder().has_pending_answers()) qp.held.was_taken_along();
  if (more) pending_.push(qp);
  rearm(qp);
}

// Sends from a buffer that was taken. Returns true if there is more to send.
bool Device::transmit_batches(std::size_t which, qp::QueuePair& qp, TimeNs now, Rest rest) {
  wire::TxBatch& batch = buffers_[which]->batch;
  using Left = qp::QueuePair::Left;
  Left left = Left::kNothing;
  std::size_t bytes = 0;
  bool goes_on = true;
  for (int turn = 1; goes_on; ++turn) {
    batch.clear();
    batch.set_origin(qp.endpoint().origin);
    left = qp.poll_transmit(batch, now);
    goes_on = left != Left::kNothing && turn < kBatchesPerTurn &&
              bytes + batch.bytes() < kBytesPerTurn &&
              !(rest == Rest::kMayWait && has_little_to_send(qp.requester()));
    if (!goes_on || left != Left::kRequests) qp.request_ack(batch);
    if (batch.empty()) break;
    bytes += batch.bytes();
    const bool leaves = is_port_active();
    counters_.sent.add(which, leaves ? batch.wire_packets() : 0, leaves ? batch.wire_bytes() : 0,
                       qp.take_begun());
    if (leaves) transmitter_.send(batch, qp.number());
    if (batch.first_gone() != nullptr) [[unlikely]] {
      qp.note_gone(batch);
      goes_on = true;  // the NAK goes at once
    }
  }
  batch.clear();
  return left != Left::kNothing;
}

bool Device::defer(qp::QueuePair& qp) {
  const requester::Requester& requester = qp.requester();
  if (requester.awaits_turn()) return true;
  if (requester.in_flight() == 0 || !has_little_to_send(requester)) return false;
  pending_.push_locked(qp);
  return true;
}

void Device::send_now(qp::QueuePair& qp, TimeNs now) {
  qp.held.posted(now);
  transmit(qp, now, qp.requester().in_flight() != 0 ? Rest::kMayWait : Rest::kGoes);
}

void Device::doorbell(qp::QueuePair& qp, TimeNs now) {
  const Guard guard(qp.lock());
  if (!defer(qp)) send_now(qp, now);
}

void Device::transmit_wanted(qp::QueuePair& qp, TimeNs now, Acknowledge acknowledge) {
  const Guard guard(qp.lock());
  if (acknowledge == Acknowledge::kNowForPoster && qp.only_requests() && defer(qp)) return;
  if (qp.only_acknowledges()) {
    if (qp.held.is_held()) return;
    qp.held.goes_alone(now);
  }
  if (qp.wants_to_transmit()) transmit(qp, now);
}

void Device::release_held(TimeNs now, bool all) {
  pending_.release_held(now, all, [&](qp::QueuePair& qp) {
    if (qp.only_acknowledges()) qp.held.goes_alone(now);
    if (qp.wants_to_transmit()) transmit(qp, now);
    qp.held.was_taken_along();
  });
}

void Device::finish_receive(TimeNs now, Acknowledge acknowledge) {
  const bool all_go = acknowledge != Acknowledge::kUnlessAnswered;
  if (all_go && pending_.is_holding()) release_held(now, true);
  pending_.take_all([&](qp::QueuePair& qp) { transmit_wanted(qp, now, acknowledge); });
}

void Device::handle_timeouts(TimeNs now) {
  if (pending_.held_until() <= now) release_held(now, false);
  while (const auto entry = timers_.take_expired(now)) {
    qp::QueuePair* qp = table_.find(entry->number);
    if (qp == nullptr) continue;
    const Guard guard(qp->lock());
    if (qp->armed_deadline == entry->deadline) qp->armed_deadline = kNever;
    if (qp->deadline() <= now) {
      qp->handle_timeout(now);
      transmit(*qp, now);
    }
    rearm(*qp);
  }
}

// --- packets that came in one buffer -------------------------------------------------------------

// A run is handled under one lock. Its packets that are one piece of a message become one packet,
// which costs little more than one of them.

namespace {

// The bits in a BTH's second byte that all packets of a message have in common. The last one may
// differ in the others: solicited, and pad.
constexpr std::uint8_t kOfAllPackets = 0x4f;

// Says whether such packets are plain data of requests. Merging READ responses gains nothing.
bool is_plain_data(const wire::OpcodeRow& row) {
  return wire::may_stand_for_several(row) && !row.response && row.header_bytes == wire::Bth::kSize;
}

// Says whether `bytes`, whose opcode has this row, are plain data `behind` PSNs after `head` in the
// same message.
bool goes_on(const wire::PacketView& head, std::uint32_t behind, std::uint32_t mtu,
             std::span<const std::uint8_t> bytes, const wire::OpcodeRow& row) {
  const wire::BthView bth(bytes.data());
  if (row.operation != head.row->operation || row.starts_message || !is_plain_data(row)) {
    return false;
  }
  const std::size_t length = bytes.size() - wire::Bth::kSize;
  const bool is_long_enough = row.ends_message ? length > bth.pad() : length == mtu;
  const std::uint8_t differs = row.ends_message ? kOfAllPackets : std::uint8_t{0xff};
  return is_long_enough && length % 4 == 0 && bth.mark() == 0 &&
         ((bytes[1] ^ head.start[1]) & differs) == 0 && bth.pkey() == head.bth.pkey &&
         bth.psn() == head.bth.psn + behind;
}

// Makes `packet`, the one at `first`, stand for all packets of the run that continue its message,
// if they are as long as they must be. If such a piece is refused, because there is no receive or
// the receive is too short, it is refused as a whole.
void merge(wire::PacketView& packet, const wire::RxRun& run, std::uint32_t first,
           std::uint32_t mtu) {
  if (!is_plain_data(*packet.row) || packet.row->ends_message || packet.payload.size() != mtu ||
      wire::BthView(packet.start).mark() != 0) {
    return;
  }
  bool ack_request = packet.bth.ack_request;
  bool has_ended = false;
  std::uint32_t count = 1;
  std::size_t length = mtu;
  for (; first + count < run.count && !has_ended; ++count) {
    const auto bytes = run.bytes_at(first + count);
    const wire::BthView bth(bytes.data());
    const wire::OpcodeRow& row = wire::row_of(bth.opcode());
    if (!goes_on(packet, count, mtu, bytes, row)) break;
    ack_request = ack_request || bth.ack_request();
    length += bytes.size() - wire::Bth::kSize - bth.pad();
    has_ended = row.ends_message;
    packet.bth.solicited = bth.solicited();
  }
  if (count == 1) return;
  const wire::OpcodeRow& row = *packet.row;
  const wire::Place starts = has_ended ? wire::Place::kOnly : wire::Place::kFirst;
  const wire::Place goes_on = has_ended ? wire::Place::kLast : wire::Place::kMiddle;
  packet.opcode =
      wire::make_opcode(row.transport, row.operation, row.starts_message ? starts : goes_on);
  packet.row = &wire::row_of(packet.opcode);
  packet.bth.ack_request = ack_request;
  packet.psns = count;
  packet.payload_step = static_cast<std::uint32_t>(run.step);
  packet.data_length = length;
}

}  // namespace

void Device::handle_run(TimeNs now, const wire::RxRun& run) {
  const wire::BthView head(run.head.bytes.data());
  qp::QueuePair* qp = is_port_active() ? table_.find(head.dest_qp()) : nullptr;
  if (qp == nullptr || qp->transport() == Transport::kUd) {
    for (std::uint32_t i = 0; i < run.count; ++i) handle_datagram(now, run.at(i));
    return;
  }
  counters_.received.packets.add(run.count);
  counters_.received.bytes.add((run.count - std::uint64_t{1}) * run.head.bytes.size() +
                               run.last_length);
  if (run.head.piggybacked_ack) count_piggybacked_ack();
  const Guard guard(qp->lock());
  wire::RxDatagram datagram = run.head;
  for (std::uint32_t i = 0; i < run.count;) {
    datagram.bytes = run.bytes_at(i);
    auto packet = wire::parse_packet(datagram.bytes);
    if (!packet.ok()) {
      counters_.drops.count(packet.error());
      ++i;
      continue;
    }
    if (i == 0 && run.head.piggybacked_ack) packet->piggybacked_ack = &*run.head.piggybacked_ack;
    if (packet->bth.psn == qp->expected_psn()) merge(*packet, run, i, qp->endpoint().mtu);
    qp->handle_packet(*packet, datagram, now);
    i += packet->psns;
  }
  note_pending(*qp, now);
  rearm(*qp);
}

}  // namespace verbena::device
