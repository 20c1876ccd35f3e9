// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/capture_link.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "verbena/link/grh_port.hpp"
#include "verbena/wire/sizes.hpp"

namespace verbena::link {
namespace {

// Makes up a port in the range that RoCEv2 names for source ports.
std::uint16_t made_up_port(std::uint32_t flow, bool has_grh) {
  const auto port = static_cast<std::uint16_t>(0xc000 | ((flow * 2) & 0x3ffe));
  return source_port_says_grh(port) == has_grh ? port : static_cast<std::uint16_t>(port + 1);
}

}  // namespace

// Holds the lock while records with one time are made.
class CaptureLink::Recording {
 public:
  explicit Recording(CaptureLink& owner) : owner_(owner) {
    owner_.lock_.lock();
    if (owner_.writer_) owner_.writer_->begin();
    when_ = owner_.clock_();
  }
  ~Recording() {
    if (owner_.writer_) owner_.writer_->end();
    owner_.lock_.unlock();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  TimeNs when() const { return when_; }

 private:
  CaptureLink& owner_;
  TimeNs when_ = 0;
};

// Stands between the inner link and the caller's sink.
class CaptureLink::Tap final : public RxSink {
 public:
  Tap(CaptureLink& owner, RxSink& sink) : owner_(owner), sink_(sink) {}

  void on_datagram(const wire::RxDatagram& d) noexcept override {
    owner_.record_received(d);
    sink_.on_datagram(d);
  }
  void on_run(const wire::RxRun& run) noexcept override {
    if (owner_.is_recorded_by_sender(run.head.source)) return sink_.on_run(run);
    RxSink::on_run(run);
  }

 private:
  CaptureLink& owner_;
  RxSink& sink_;
};

CaptureLink::CaptureLink(std::unique_ptr<Link> inner, const IpAddress& local, Clock clock)
    : inner_(std::move(inner)), local_(local), clock_(clock) {}

void CaptureLink::start(CaptureRing ring, std::vector<IpAddress> recorded_by_sender) {
  leave_out(std::move(recorded_by_sender));
  const Guard guard(lock_);
  writer_.emplace(std::move(ring));
  running_.publish(true);
}

void CaptureLink::leave_out(std::vector<IpAddress> recorded_by_sender) {
  const Guard guard(addresses_lock_);
  recorded_by_sender_ = std::move(recorded_by_sender);
}

void CaptureLink::stop() noexcept {
  const Guard guard(lock_);
  running_.publish(false);
  writer_.reset();
}

std::size_t CaptureLink::send_as(wire::TxBatch& batch, Qpn flow, Fate fate) noexcept {
  if (!running_.read_relaxed()) return inner_->send(batch, flow);
  // The lock is held across the send, and the time is that before it: an answer that another thread
  // reads comes later in the file.
  const Recording recording(*this);
  // Borrowed payloads are copied only once, so that the file shows what really left.
  batch.bring_in_all();
  const std::size_t taken = inner_->send(batch, flow);
  for (const wire::TxBatch::Packet& packet : batch.packets().first(taken)) {
    record_sent(batch, packet, flow, recording.when(), fate);
  }
  return taken;
}

std::size_t CaptureLink::send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept {
  if (running_.read_relaxed()) {
    // Packets are recorded first, because the inner link damages the batch's own bytes.
    const Recording recording(*this);
    for (const wire::TxBatch::Packet& packet : batch.packets()) {
      record_sent(batch, packet, flow, recording.when(), Fate::kDamaged);
    }
  }
  return inner_->send_damaged(batch, flow, damage);
}

void CaptureLink::note_unsent(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet,
                              Qpn flow, Unsent why) noexcept {
  if (!running_.read_relaxed()) return;
  const Recording recording(*this);
  const Fate fate = why == Unsent::kLost ? Fate::kLost : Fate::kWithheld;
  record_sent(batch, packet, flow, recording.when(), fate);
}

std::size_t CaptureLink::receive(RxSink& sink, std::size_t budget) noexcept {
  if (!running_.read_relaxed()) return inner_->receive(sink, budget);
  Tap tap(*this, sink);
  return inner_->receive(tap, budget);
}

bool CaptureLink::is_recorded_by_sender(const IpAddress& source) noexcept {
  const Guard guard(addresses_lock_);
  return std::find(recorded_by_sender_.begin(), recorded_by_sender_.end(), source) !=
         recorded_by_sender_.end();
}

// Leaves merged packets out. A sender may still send them before it knows of the capture, which
// shows ordinary packets only.
void CaptureLink::record_received(const wire::RxDatagram& datagram) noexcept {
  if (!running_.read_relaxed() || datagram.psns > 1 || is_recorded_by_sender(datagram.source)) {
    return;
  }
  const Recording recording(*this);
  CaptureRecord record;
  record.time = recording.when();
  record.direction = CaptureRecord::Direction::kInbound;
  record.source = datagram.source;
  record.destination = datagram.destination;
  record.source_port = made_up_port(0, datagram.has_grh);
  record.traffic_class = datagram.traffic_class;
  record.hop_limit = datagram.hop_limit;
  record.flow_label = datagram.flow_label;
  if (datagram.piggybacked_ack) {  // recorded as a packet of its own, in front
    std::array<std::uint8_t, wire::PiggybackedAck::kPacketSize> ack;
    datagram.piggybacked_ack->write_packet(datagram.bytes.data(), ack.data());
    put(record, ack);
  }
  put(record, datagram.bytes);
}

void CaptureLink::record_sent(const wire::TxBatch& batch, const wire::TxBatch::Packet& packet,
                              Qpn flow, TimeNs when, Fate fate) noexcept {
  if (packet.psns != 0) return;
  const wire::Destination& to = batch.destination(packet);
  CaptureRecord record;
  record.time = when;
  record.direction = CaptureRecord::Direction::kOutbound;
  record.fate = fate;
  record.sender = flow.value();
  record.source = to.source == 0 ? local_ : inner_->address_of(to.source);
  record.destination = to.address;
  record.source_port = made_up_port(flow.value(), to.has_grh);
  record.traffic_class = to.traffic_class;
  record.hop_limit = to.hop_limit;
  record.flow_label = to.flow_label;
  put(record, batch.bytes_of(packet));
}

// A packet longer than any of ours is cut.
void CaptureLink::put(CaptureRecord& record, std::span<const std::uint8_t> packet) noexcept {
  if (!writer_) return;
  record.length = static_cast<std::uint32_t>(packet.size());
  record.kept = static_cast<std::uint32_t>(std::min(packet.size(), wire::kMaxPacket));
  writer_->put(record, packet.data());
}

}  // namespace verbena::link
