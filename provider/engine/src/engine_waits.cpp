// SPDX-License-Identifier: BSD-2-Clause
// Sleeping and forking, and what the device and its queues call back.
#include <algorithm>

#include "verbena/engine/engine.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

constexpr std::size_t kSmallPacket = 1024;

bool is_loopback(const IpAddress& address) {
  return address.is_v4() && address.v4_host_order() >> 24 == 127;
}

}  // namespace

// --- sleeping ----------------------------------------------------------------------------------

// Not while another thread receives: what that one leaves is looked at once more.
bool Engine::prepare_wait() noexcept {
  Lock& lock = device_.receive_lock();
  if (!lock.try_lock()) return false;
  links_.faults().silence();
  const bool may_sleep = links_.faults().prepare_wait();
  if (may_sleep) ++sleepers_;
  lock.unlock();
  return may_sleep;
}

void Engine::end_wait() noexcept {
  const Guard guard(device_.receive_lock());
  if (--sleepers_ == 0) links_.faults().end_wait();
}

TimeNs Engine::next_deadline() const noexcept {
  if (device_.has_work()) return 0;
  return std::min(device_.next_deadline(), links_.faults().next_timeout());
}

bool Engine::awaits_packets(CompletionChannel& channel) noexcept {
  return channel.wakers.admit({receive_fd(), further_fd()});
}

bool Engine::prepare_reader_wait() noexcept {
  flush_acks();
  // What the link holds back for a while is for the progress thread to ask for.
  if (const TimeNs held_until = links_.faults().next_timeout(); held_until != kNever) {
    progress_.note_deadline(held_until);
  }
  const Guard guard(device_.receive_lock());
  const bool may_sleep = links_.faults().prepare_wait();
  if (may_sleep) ++sleepers_;
  return may_sleep;
}

// Counted when the queue's lock is free, so the event may have been counted before: what counts is
// the sum.
void Engine::note_armed(CompletionChannel& channel,
                        queue::CompletionQueue::Arming arming) noexcept {
  using Arming = queue::CompletionQueue::Arming;
  if (arming == Arming::kWaitedBefore) return;
  channel.armed.fetch_add(1, std::memory_order_relaxed);
  if (arming == Arming::kFired) return progress_.note_fired_at_once();
  progress_.note_armed(readers_.is_last(&channel));
}

void Engine::note_fired(CompletionChannel& channel) noexcept {
  channel.armed.fetch_sub(1, std::memory_order_relaxed);
  progress_.note_fired();
}

// --- around a fork -----------------------------------------------------------------------------

void Engine::pause() noexcept {
  device_.receive_lock().lock();
  announcements_.lock().lock();
}

void Engine::resume() noexcept {
  announcements_.lock().unlock();
  device_.receive_lock().unlock();
}

void Engine::abandon() noexcept {
  failed_.store(true);
  progress_.abandon();
  links_.peers().abandon_rings();
  links_.capture().abandon();
  readers_.abandon();
}

// --- queue::EventSink --------------------------------------------------------------------------

void Engine::on_completion_event(void* cq) noexcept { host_.on_completion_event(cq); }

void Engine::on_async_event(queue::AsyncEvent event, void* cookie) noexcept {
  host_.on_async_event(event, cookie);
}

void Engine::on_earlier_deadline(std::uint64_t deadline) noexcept {
  progress_.note_deadline(deadline);
}

void Engine::on_stand_in_wanted(const queue::StandIn& wanted) noexcept {
  host_.on_stand_in_wanted(wanted);
}

void Engine::on_stand_ins_released(Qpn receiver) noexcept { host_.on_stand_ins_released(receiver); }

void Engine::explain(const char* text) noexcept { provider::explain("%s", text); }

bool Engine::wants_explanations() const noexcept { return explains(); }

void Engine::on_occurrence(const queue::Occurrence& what) noexcept {
  if (!has_failed()) host_.on_occurrence(what);
}

// --- wire::Transmitter -------------------------------------------------------------------------

void Engine::send(wire::TxBatch& batch, Qpn flow) noexcept { links_.send(batch, flow); }

// Half a ring, because answers share it with requests. A small packet may be any one of up to 1
// KiB, and takes what such a one does.
std::uint32_t Engine::capacity_packets(const wire::Destination& to,
                                       std::size_t packet_bytes) noexcept {
  const std::uint32_t by_udp = links_.faults().capacity_packets(packet_bytes);
  const bool is_local = host_.is_own(to.address) || is_loopback(to.address);
  if (!has_rings_ || !is_local) return by_udp;
  const std::size_t largest = std::max(packet_bytes, kSmallPacket + wire::kMaxHeaders);
  return std::min(by_udp, link::SharedRing::packets_held(largest) / 2);
}

wire::Transmitter::Room Engine::room_at(const wire::Destination& to, Qpn qp, TimeNs now) noexcept {
  return links_.peers().room_at({to.address, qp.slot(), to.source}, now);
}

std::optional<wire::Transmitter::Reading> Engine::reading_at(const wire::Destination& to,
                                                             Qpn qp) noexcept {
  return links_.peers().reading_at({to.address, qp.slot(), to.source});
}

void Engine::inquire(const wire::Destination& to, Qpn qp, TimeNs now) noexcept {
  if (has_failed() || !reports_.must_ask(to.address, qp, now)) return;
  host_.ask_about(to.address, qp);
}

wire::PeerReport Engine::report_on(const wire::Destination& to, Qpn qp, TimeNs since) noexcept {
  return reports_.report_on(to.address, qp, since);
}

// Rings lead to an engine's first slot: to queue pairs of its further ones all comes by UDP.
bool Engine::hears_by_ring(const wire::Destination& from, Qpn peer, Qpn own) noexcept {
  return own.slot() == links_.peers().self().slot &&
         links_.peers().hears_by_ring({from.address, peer.slot(), from.source});
}

wire::Transmitter::Packing Engine::packing(const wire::Destination& to, Qpn qp) noexcept {
  return links_.peers().packing({to.address, qp.slot(), to.source});
}

}  // namespace verbena::provider
