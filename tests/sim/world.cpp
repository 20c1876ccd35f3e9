// SPDX-License-Identifier: BSD-2-Clause
#include "world.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "verbena/base/check.hpp"
#include "verbena/wire/crc32.hpp"
#include "verbena/wire/early_packets.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::sim {

Node::Node(World& world, std::uint32_t index, const device::DeviceOptions& options)
    : world_(world),
      index_(index),
      device_(std::make_unique<device::Device>(options, *this, *this)) {}

void Node::restart() {
  const device::DeviceOptions options = device_->options();
  device_.reset();
  device_ = std::make_unique<device::Device>(options, *this, *this);
}

void Node::send(wire::TxBatch& batch, Qpn) noexcept {
  const auto packets = batch.packets();
  for (std::size_t i = 0; i < packets.size(); ++i) {
    std::optional<wire::PiggybackedAck> ack;
    if (i + 1 < packets.size()) {
      ack = world_.piggybacked_ack_of(batch.bytes_of(packets[i]), batch.bytes_of(packets[i + 1]));
    }
    if (ack) ++i;
    const wire::TxBatch::Packet& p = packets[i];
    const auto bytes = batch.bytes_of(p);
    VERBENA_CHECK(p.summed == 0 || wire::crc32(0, bytes.last(p.summed).data(), p.summed) == p.sum);
    const Load load{{bytes.begin(), bytes.end()}, std::max(p.psns, 1u), ack};
    world_.launch(*this, load, batch.destination(p));
  }
}

class Node::Path final : public wire::Path {
 public:
  explicit Path(Node& node) : node_(node) {}

  std::uint32_t capacity_packets(std::size_t bytes) noexcept override {
    const Faults& f = node_.world_.faults();
    const bool is_small = bytes <= 64 && f.small_capacity != 0;
    return std::min(is_small ? f.small_capacity : f.receive_capacity,
                    wire::EarlyPackets::most(bytes));
  }
  Packing packing() noexcept override;
  Room room(TimeNs) noexcept override { return node_.room; }
  std::optional<Reading> reading() noexcept override { return node_.reading; }
  PeerReport report(TimeNs) noexcept override { return node_.report; }

 private:
  Node& node_;
};

wire::Path::Packing Node::Path::packing() noexcept {
  World& world = node_.world_;
  const Faults& f = world.faults();
  const auto happens = [&](std::uint32_t ppm) { return ppm != 0 && world.random().chance(ppm); };
  Packing packing;
  if (happens(f.borrowed)) packing.borrowed_least = Packing::kBorrowedLeast;
  packing.merged_most = happens(f.merged) ? f.merged_most : 0;
  if (packing.merged_most != 0) return packing;
  packing.is_sealed = happens(f.sealed);
  packing.is_bundled = happens(f.bundled);
  return packing;
}

std::unique_ptr<wire::Path> Node::path_to(const wire::Destination&, Qpn) {
  return std::make_unique<Path>(*this);
}

void Node::explain(const char* text) noexcept {
  std::fprintf(stderr, "[%9.3f ms] node %u: %s\n", static_cast<double>(world_.now()) / 1e6, index_,
               text);
}

bool Node::wants_explanations() const noexcept { return world_.trace(); }

Node& World::add_node() {
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  device::DeviceOptions options;
  options.slot = 1 + index;
  options.address = IpAddress::v4(0x7f000001u + index);
  options.plan.subnet = 0x7f000000u;
  options.limits.lid = static_cast<std::uint16_t>(1 + index);
  options.max_regions = 4096;
  nodes_.push_back(std::make_unique<Node>(*this, index, options));
  return *nodes_.back();
}

void World::launch(Node& from, const Load& load, const wire::Destination& to) {
  ++packets_;
  const auto& bytes = load.bytes;
  if (trace_) {
    const auto p = wire::parse_packet(bytes);
    if (p.ok()) {
      std::fprintf(stderr, "[%9.3f ms] %u -> %s %s psn %u len %zu%s",
                   static_cast<double>(now_) / 1e6, from.index(), to.address.to_string().c_str(),
                   std::string(p->row->name).c_str(), p->bth.psn.value(), p->payload.size(),
                   p->bth.ack_request ? " ack request" : "");
      if (load.merged > 1) std::fprintf(stderr, " merged %u", load.merged);
      if (load.piggybacked_ack) {
        std::fprintf(stderr, " piggybacked ack psn %u syndrome 0x%02x",
                     load.piggybacked_ack->psn.value(), load.piggybacked_ack->aeth.syndrome);
      }
      if (p->row->aeth) std::fprintf(stderr, " syndrome 0x%02x", p->aeth().syndrome);
      std::fputc('\n', stderr);
    }
  }
  const auto target = std::find_if(nodes_.begin(), nodes_.end(),
                                   [&](const auto& node) { return node->address() == to.address; });
  if (target == nodes_.end()) return;
  const auto index = static_cast<std::size_t>(target - nodes_.begin());
  seen_ = &load;
  if (filter && !filter(from, bytes)) {
    ++lost_;
    return;
  }
  if (random_.chance(faults_.drop) || random_.chance(faults_.corrupt)) {
    ++lost_;
    if (trace_) std::fprintf(stderr, "              ^ lost\n");
    return;
  }
  TimeNs busy = 0;
  if (faults_.wire_ns_per_kib != 0) {
    from.wire_free_at_ =
        std::max(from.wire_free_at_, now_) + bytes.size() * faults_.wire_ns_per_kib / 1024;
    busy = from.wire_free_at_ - now_;
  }
  fly(index, from.address(), load, busy);
  if (random_.chance(faults_.duplicate)) fly(index, from.address(), load);
}

std::optional<wire::PiggybackedAck> World::piggybacked_ack_of(
    std::span<const std::uint8_t> packet, std::span<const std::uint8_t> behind) {
  if (faults_.piggybacked_ack == 0) return std::nullopt;
  const auto ack = wire::PiggybackedAck::of(packet, behind);
  if (!ack || !random_.chance(faults_.piggybacked_ack)) return std::nullopt;
  ++piggybacked_acks_;
  return ack;
}

void World::fly(std::size_t to, const IpAddress& source, const Load& load, TimeNs busy) {
  TimeNs at = now_ + busy + faults_.delay_min;
  if (faults_.delay_spread != 0) at += random_.below(faults_.delay_spread);
  if (random_.chance(faults_.reorder)) at += random_.below(faults_.reorder_delay);
  flights_.emplace(at, Flight{to, source, load});
}

void World::deliver(Node& to, const IpAddress& source, const Load& load) {
  wire::RxDatagram datagram;
  datagram.bytes = load.bytes;
  datagram.psns = load.merged;
  datagram.piggybacked_ack = load.piggybacked_ack;
  datagram.source = source;
  datagram.destination = to.address();
  to.device().handle_datagram(now_, datagram);
}

// Whether packet `which` is in one buffer with the packet before it. A link puts packets into one
// buffer that one queue pair sent to another at once. Only the last of them may be shorter.
bool World::comes_with(const Arrived& arrived, std::size_t which) {
  if (faults_.run == 0 || which >= arrived.size()) return false;
  const auto& [source, load] = arrived[which];
  const auto& [source_before, before] = arrived[which - 1];
  const auto is_plain = [](const Load& l) {
    return l.merged == 1 && !l.piggybacked_ack && l.bytes.size() >= wire::Bth::kSize;
  };
  return is_plain(load) && is_plain(before) && source == source_before &&
         before.bytes.size() == arrived.front().second.bytes.size() &&
         load.bytes.size() <= before.bytes.size() &&
         wire::BthView(load.bytes.data()).dest_qp() ==
             wire::BthView(before.bytes.data()).dest_qp() &&
         random_.chance(faults_.run);
}

// Takes what arrives at the same moment.
void World::take_companions(std::size_t to, Arrived& arrived) {
  while (!flights_.empty() && flights_.begin()->first <= now_ &&
         flights_.begin()->second.to == to) {
    Flight& flight = flights_.begin()->second;
    arrived.emplace_back(flight.source, std::move(flight.load));
    flights_.erase(flights_.begin());
  }
}

void World::deliver_first(Node& to, Arrived& arrived) {
  std::size_t count = 1;
  while (comes_with(arrived, count)) ++count;
  if (count == 1) {
    deliver(to, arrived.front().first, arrived.front().second);
  } else {
    deliver_run(to, arrived, count);
  }
  arrived.erase(arrived.begin(), arrived.begin() + static_cast<std::ptrdiff_t>(count));
}

void World::deliver_run(Node& to, const Arrived& arrived, std::size_t count) {
  const std::size_t length = arrived.front().second.bytes.size();
  wire::RxRun run;
  run.step = length + wire::kIcrcSize;
  run.count = static_cast<std::uint32_t>(count);
  run.last_length = arrived[count - 1].second.bytes.size();
  // The buffer ends with the last packet, so that reading beyond it is found.
  std::vector<std::uint8_t> buffer((count - 1) * run.step + run.last_length);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& bytes = arrived[i].second.bytes;
    std::copy(bytes.begin(), bytes.end(),
              buffer.begin() + static_cast<std::ptrdiff_t>(i * run.step));
  }
  run.head.bytes = std::span<const std::uint8_t>(buffer).first(length);
  run.head.source = arrived.front().first;
  run.head.destination = to.address();
  in_runs_ += count;
  if (trace_) {
    std::fprintf(stderr, "[%9.3f ms] %zu in one buffer\n", static_cast<double>(now_) / 1e6, count);
  }
  to.device().handle_run(now_, run);
}

// Decides at random whether acknowledgements may wait for an answer.
void World::settle(Node& node) {
  using device::Acknowledge;
  const bool may_wait = random_.below(10) < 7;
  node.device().finish_receive(now_, may_wait ? Acknowledge::kUnlessAnswered : Acknowledge::kNow);
}

TimeNs World::next_event() const {
  TimeNs next = flights_.empty() ? kNever : flights_.begin()->first;
  for (const auto& node : nodes_) {
    TimeNs due = node->device_->next_deadline();
    if (node->device_->has_work()) due = now_;
    if (!node->waiting_.empty()) due = std::min(due, node->paused_until_);
    if (node->is_paused(now_) && due != kNever) due = std::max(due, node->paused_until_);
    next = std::min(next, due);
  }
  return next;
}

void World::run(TimeNs length) {
  const TimeNs end = now_ + length;
  while (step(end)) {
  }
}

bool World::step(TimeNs until) {
  const TimeNs due = next_event();
  if (due == kNever || due > until) {
    now_ = std::max(now_, until);
    return false;
  }
  now_ = std::max(now_, due);
  while (!flights_.empty() && flights_.begin()->first <= now_) {
    Flight flight = std::move(flights_.begin()->second);
    flights_.erase(flights_.begin());
    Node& to = *nodes_[flight.to];
    if (random_.chance(faults_.pause))
      to.paused_until_ = now_ + random_.below(faults_.pause_length);
    if (to.is_paused(now_)) {
      if (to.waiting_.size() < faults_.receive_capacity) {
        to.waiting_.emplace_back(flight.source, std::move(flight.load));
      } else {
        ++lost_;
      }
      continue;
    }
    Arrived arrived;
    arrived.emplace_back(flight.source, std::move(flight.load));
    if (faults_.run != 0) take_companions(flight.to, arrived);
    while (!arrived.empty()) deliver_first(to, arrived);
    if (random_.chance(500'000)) settle(to);
  }
  for (const auto& node : nodes_) {
    if (node->is_paused(now_)) continue;
    while (!node->waiting_.empty()) deliver_first(*node, node->waiting_);
    node->device_->handle_timeouts(now_);
    settle(*node);
  }
  return true;
}

}  // namespace verbena::sim
