// SPDX-License-Identifier: BSD-2-Clause
// Sleeping and forking, and what the device and its queues call back.
#include <algorithm>

#include "verbena/engine/engine.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

// --- sleeping ----------------------------------------------------------------------------------

// Returns false while another thread receives: what that thread leaves must be looked at once more.
bool Engine::prepare_wait() noexcept {
  Lock& lock = device_.receive_lock();
  if (!lock.try_lock()) return false;
  links_.peers().silence();
  const bool may_sleep = links_.peers().prepare_wait();
  if (may_sleep) ++sleepers_;
  lock.unlock();
  return may_sleep;
}

void Engine::end_wait() noexcept {
  const Guard guard(device_.receive_lock());
  if (--sleepers_ == 0) links_.peers().end_wait();
}

TimeNs Engine::next_deadline() const noexcept {
  if (device_.has_work()) return 0;
  return std::min(device_.next_deadline(), links_.faults().next_due());
}

bool Engine::awaits_packets(CompletionChannel& channel) noexcept {
  return channel.wakers.admit({receive_fd(), further_fd()});
}

bool Engine::prepare_reader_wait() noexcept {
  flush_acks();
  // The progress thread asks for packets that the link holds back for a while.
  if (const TimeNs held_until = links_.faults().next_due(); held_until != kNever) {
    progress_.note_deadline(held_until);
  }
  const Guard guard(device_.receive_lock());
  const bool may_sleep = links_.peers().prepare_wait();
  if (may_sleep) ++sleepers_;
  return may_sleep;
}

// This is counted after the queue's lock was released, so the event may have been counted before:
// only the sum counts.
void Engine::note_armed(CompletionChannel& channel, queue::Arming arming) noexcept {
  using Arming = queue::Arming;
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
  is_parents_ = true;
  progress_.abandon();
  links_.peers().abandon_rings();
  links_.capture().abandon();
  readers_.abandon();
  device_.abandon();
}

void Engine::tell_child() noexcept {
  static std::atomic<bool> is_told{false};
  if (is_told.load(std::memory_order_relaxed) || is_told.exchange(true)) return;
  provider::explain(
      "ibv_poll_cq: the parent of this process has opened the device; nothing that is posted here "
      "is sent, and nothing completes: open it here as well");
}

// --- queue::EventSink --------------------------------------------------------------------------

void Engine::on_completion_event(void* cq) noexcept { host_.on_completion_event(cq); }

void Engine::on_async_event(queue::AsyncEvent event, void* cookie) noexcept {
  host_.on_async_event(event, cookie);
}

void Engine::on_earlier_deadline(std::uint64_t deadline) noexcept {
  progress_.note_deadline(deadline);
}

void Engine::on_proxy_wanted(const queue::ProxyQp& wanted) noexcept {
  host_.on_proxy_wanted(wanted);
}

void Engine::on_proxies_released(Qpn receiver) noexcept { host_.on_proxies_released(receiver); }

void Engine::explain(const char* text) noexcept { provider::explain("%s", text); }

bool Engine::wants_explanations() const noexcept { return explains(); }

void Engine::on_occurrence(const queue::Occurrence& what) noexcept {
  if (!has_failed()) host_.on_occurrence(what);
}

}  // namespace verbena::provider
