// SPDX-License-Identifier: BSD-2-Clause
// SRQs of other processes in an XRC domain: the lines by which their stand-ins answer, and the
// stand-ins of this device.
#include <algorithm>

#include "verbena/device/device.hpp"

namespace verbena::device {

bool Device::is_own(std::uint32_t number) const noexcept {
  const std::uint32_t slot = Qpn(number).slot();
  const Guard guard(shared_lock_);
  for (const SharedSlot& s : shared_slots_) {
    if (s.number == slot) return true;
  }
  return false;
}

std::optional<Qpn> Device::open_line(Qpn receiver) {
  const auto line = table_.reserve();
  if (line) lines_.emplace(line->value(), table_.find(receiver));
  return line;
}

void Device::close_line(Qpn line) {
  if (lines_.erase(line.value()) != 0) table_.release(line);
}

void Device::close_lines_of(const qp::QueuePair& receiver) {
  std::erase_if(lines_, [&](const auto& entry) {
    if (entry.second != &receiver) return false;
    table_.release(Qpn(entry.first));
    return true;
  });
}

void Device::handle_answer(TimeNs now, const wire::PacketView& packet,
                           const wire::RxDatagram& datagram) {
  const auto line = lines_.find(packet.bth.dest_qp.value());
  if (line == lines_.end() || packet.psns > 1) {
    return counters_.drops.count(DropReason::kUnknownQp);
  }
  qp::QueuePair& qp = *line->second;
  const Guard guard(qp.lock());
  qp.handle_answer(packet.bth.dest_qp, packet, datagram, now);
  if (qp.wants_to_transmit()) dirty_.push(qp);
}

// The line may be gone, and its number belong to another receiver or to none.
template <typename F>
void Device::with_line(Qpn receiver, Qpn line, TimeNs now, F&& use) {
  const Guard receiving(receive_lock_);
  const auto known = lines_.find(line.value());
  if (known == lines_.end() || !(known->second->number() == receiver)) return;
  qp::QueuePair& qp = *known->second;
  const Guard guard(qp.lock());
  use(qp);
  if (qp.wants_to_transmit()) transmit(qp, now);
}

void Device::connect_line(Qpn receiver, Qpn line, const wire::Destination& destination,
                          Qpn stand_in, TimeNs now) {
  with_line(receiver, line, now,
            [&](qp::QueuePair& qp) { qp.connect_line(line, destination, stand_in, now); });
}

void Device::refuse_line(Qpn receiver, Qpn line, TimeNs now) {
  with_line(receiver, line, now, [&](qp::QueuePair& qp) { qp.refuse_line(line, now); });
}

qp::QueuePair* Device::create_stand_in(const queue::StandIn& wanted,
                                       const wire::Destination& receiver) {
  qp::QueuePairOptions options;
  options.transport = Transport::kXrcReceive;
  options.xrc_domain = wanted.xrc_domain;
  qp::QueuePair* qp = create_qp(options);
  if (qp != nullptr) change_stand_in(*qp, wanted, receiver);
  return qp;
}

void Device::change_stand_in(qp::QueuePair& qp, const queue::StandIn& wanted,
                             const wire::Destination& receiver) {
  const Guard guard(qp.lock());
  qp.become_stand_in(wanted, receiver);
}

void Device::destroy_stand_in(qp::QueuePair* qp) {
  {
    const Guard receiving(receive_lock_);
    const Guard guard(qp->lock());
    // What was arriving completes as flushed.
    qp->fail("the receiver that it stands in for is gone");
  }
  destroy_qp(qp);
}

bool Device::add_shared(queue::SharedReceive& shared) {
  const Guard guard(shared_lock_);
  for (SharedSlot& slot : shared_slots_) {
    const auto index = slot.numbers.take();
    if (!index) continue;
    shared.number = Qpn::from(slot.number, *index).value();
    shared_.emplace(shared.number, &shared);
    return true;
  }
  return false;
}

void Device::remove_shared(queue::SharedReceive& shared) {
  {
    const Guard guard(shared_lock_);
    const Qpn number(shared.number);
    const bool had_number = shared_.erase(shared.number) != 0;
    for (SharedSlot& slot : shared_slots_) {
      if (had_number && slot.number == number.slot()) slot.numbers.give_back(number.index());
    }
  }
  for_each_qp([&](qp::QueuePair& qp) {
    const Guard guard(qp.lock());
    qp.forget_shared(&shared);
  });
}

queue::SharedReceive* Device::find(std::uint32_t number, std::uint32_t xrc_domain) const noexcept {
  const Guard guard(shared_lock_);
  const auto found = shared_.find(number);
  if (found == shared_.end() || found->second->xrc_domain != xrc_domain) return nullptr;
  return found->second;
}

}  // namespace verbena::device
