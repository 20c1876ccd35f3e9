// SPDX-License-Identifier: BSD-2-Clause
// The objects of a device.
#include "verbena/device/device.hpp"

#include <algorithm>
#include <vector>

#include "verbena/base/short_text.hpp"

namespace verbena::device {
namespace {

// How many transfers of matched rendezvous messages one queue pair runs at once. More of them wait.
constexpr std::uint32_t kRendezvousAtOnce = 16;

}  // namespace

Device::Device(const DeviceOptions& options, wire::Transmitter& transmitter,
               queue::EventSink& events)
    : options_(options),
      random_(options.seed),
      transmitter_(transmitter),
      events_(events),
      counters_(options.counters != nullptr ? *options.counters : own_counters_.emplace()),
      memory_(options.memory != nullptr ? *options.memory : make_memory(options)),
      table_(options.slot, random_),
      active_mtu_(options.limits.active_mtu) {
  shared_.add_slot(options.slot, random_);
  for (auto& buffer : buffers_) buffer = std::make_unique_for_overwrite<TxBuffer>();
}

memory::Registry& Device::make_memory(const DeviceOptions& options) {
  return own_memory_.emplace(
      options.memory_port != nullptr ? *options.memory_port : memory::trusting_memory_port(),
      options.max_regions, random_.next());
}

Device::~Device() { destroy_left(); }

void Device::destroy_left() {
  if (is_abandoned_) return;
  std::vector<qp::QueuePair*> left;
  table_.for_each([&](qp::QueuePair& qp) { left.push_back(&qp); });
  for (qp::QueuePair* qp : left) destroy_qp(qp);
}

qp::QueuePair* Device::create_qp(qp::QueuePairOptions options) {
  options.send.datagram = options.transport == Transport::kUd;
  if (options.shared != nullptr && options.shared->tags) {
    options.send.reserved = kRendezvousAtOnce * 2;
    options.send.max_sges =
        std::max(options.send.max_sges, options.shared->tags->options().max_sges);
  }
  const qp::Surroundings around{&memory_, &events_,      &counters_,   this,
                                &shares_, &transmitter_, &obeys_marks_};
  std::optional<Qpn> number;
  {
    const Guard guard(receive_lock_);
    number = table_.reserve();
  }
  if (!number) return nullptr;
  options.number = *number;
  try {
    auto qp = std::make_unique<qp::QueuePair>(options, around);
    const Guard guard(receive_lock_);
    table_.set(*number, qp.get());
    return qp.release();
  } catch (...) {
    const Guard guard(receive_lock_);
    table_.release(*number);
    throw;
  }
}

void Device::destroy_qp(qp::QueuePair* qp) {
  if (is_abandoned_) return;
  const Qpn number = qp->number();
  {
    const Guard guard(receive_lock_);
    table_.set(number, nullptr);
    {
      const Guard queue_pair_guard(qp->lock());
      qp->leave_queue();
    }
    pending_.remove(*qp);
    if (qp->has_relay()) close_lines_of(*qp);
    table_.release(number);
  }
  memory_.unbind_windows_of(number.value());
  queue::CompletionQueue* send_cq = qp->endpoint().send_cq;
  queue::CompletionQueue* receive_cq = qp->endpoint().receive_cq;
  if (send_cq != nullptr) send_cq->purge(number.value());
  if (receive_cq != nullptr && receive_cq != send_cq) receive_cq->purge(number.value());
  delete qp;
}

void Device::add_slot(std::uint32_t slot) {
  const Guard guard(receive_lock_);
  table_.add_slot(slot, random_);
  shared_.add_slot(slot, random_);
}

std::optional<qp::Refused> Device::modify_qp(qp::QueuePair& qp, const qp::Attributes& wanted,
                                             std::uint32_t mask, TimeNs now) {
  // The relay may need a new line for what it sends, and lines need the receive lock.
  std::optional<Guard> receiving;
  if (qp.has_relay()) receiving.emplace(receive_lock_);
  const Guard guard(qp.lock());
  qp::TransitionLimits limits = options_.limits;
  limits.active_mtu = active_mtu_.read();
  auto refused = qp.modify(wanted, mask, limits, now);
  if (!refused && qp.wants_to_transmit()) transmit(qp, now);
  return refused;
}

void Device::fail_all(const char* reason) {
  for_each_qp([reason](qp::QueuePair& qp) {
    const Guard guard(qp.lock());
    qp.fail(reason);
  });
}

void Device::set_active_mtu(Mtu mtu) {
  active_mtu_.publish(mtu);
  for_each_qp([mtu](qp::QueuePair& qp) {
    const Guard guard(qp.lock());
    qp.set_port_mtu(mtu);
  });
}

void Device::set_port_active(bool active) { port_active_.publish(active); }

// --- SRQs of other processes in an XRC domain ----------------------------------------------------

// The lines through which proxies in other processes answer, and the proxies of this device.

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
    if (packet.row->deth && events_.wants_explanations()) {
      // The sender of a datagram never learns that it was dropped.
      events_.explain(ShortText("a datagram of QPN 0x%06x was dropped: there is no queue pair "
                                "0x%06x (wr.ud.remote_qpn) in this process",
                                packet.deth().source_qp.value(), packet.bth.dest_qp.value())
                          .c_str());
    }
    return counters_.drops.count(DropReason::kUnknownQp);
  }
  qp::QueuePair& qp = *line->second;
  const Guard guard(qp.lock());
  qp.handle_answer(packet.bth.dest_qp, packet, datagram, now);
  if (qp.wants_to_transmit()) pending_.push(qp);
}

// Does nothing if the line is closed, or if its number now belongs to another receiver.
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

void Device::connect_line(Qpn receiver, Qpn line, const wire::Destination& destination, Qpn proxy,
                          TimeNs now) {
  with_line(receiver, line, now,
            [&](qp::QueuePair& qp) { qp.connect_line(line, destination, proxy, now); });
}

void Device::refuse_line(Qpn receiver, Qpn line, TimeNs now) {
  with_line(receiver, line, now, [&](qp::QueuePair& qp) { qp.refuse_line(line, now); });
}

qp::QueuePair* Device::create_proxy(const queue::ProxyQp& wanted,
                                    const wire::Destination& receiver) {
  qp::QueuePairOptions options;
  options.transport = Transport::kXrcReceive;
  options.xrc_domain = wanted.xrc_domain;
  qp::QueuePair* qp = create_qp(options);
  if (qp != nullptr) change_proxy(*qp, wanted, receiver);
  return qp;
}

void Device::change_proxy(qp::QueuePair& qp, const queue::ProxyQp& wanted,
                          const wire::Destination& receiver) {
  const Guard guard(qp.lock());
  qp.become_proxy(wanted, receiver);
}

void Device::destroy_proxy(qp::QueuePair* qp) {
  {
    const Guard receiving(receive_lock_);
    const Guard guard(qp->lock());
    // A message that was arriving completes as flushed.
    qp->fail("the receiver that it stands in for is gone");
  }
  destroy_qp(qp);
}

void Device::remove_shared(queue::SharedReceive& shared) {
  shared_.remove(shared);
  for_each_qp([&](qp::QueuePair& qp) {
    const Guard guard(qp.lock());
    qp.forget_shared(&shared);
  });
}

}  // namespace verbena::device
