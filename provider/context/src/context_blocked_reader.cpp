// SPDX-License-Identifier: BSD-2-Clause
// What a visit (blocked_reader.hpp) does with the engine.
#include <sched.h>
#include <sys/eventfd.h>

#include "verbena/context/context.hpp"
#include "verbena/link/system_calls.hpp"

namespace verbena::provider {
namespace {

// Packets a round: a message of 4 KiB and the acknowledgement behind it, without which many an
// application does not answer. The event that they bring ends the visit, so it is not worth while
// to look whether there is more.
constexpr std::size_t kBudget = 5;

bool may_run_on_one_only() noexcept {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

}  // namespace

std::shared_ptr<CompletionChannel> Context::channel_at(int fd) noexcept {
  if (is_fatal()) return nullptr;
  const std::lock_guard guard(lock_);
  for (const auto& [handle, known] : channels_) {
    auto channel = known.lock();
    if (channel != nullptr && channel->pipe.read_end() == fd) return channel;
  }
  return nullptr;
}

// Under the lock of the list of contexts.
bool Context::begin_blocked_read(CompletionChannel& channel) noexcept {
  if (!closing_) {
    closing_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    has_one_processor_ = may_run_on_one_only();
  }
  if (!closing_ || !channel.pipe.open_reader()) return false;
  if (!channel.wakers) {
    const std::initializer_list<WaitSet::Member> members = {
        {channel.pipe.reader()}, {link_->wake_edges(), true}, {closing_.get()}};
    if (!channel.wakers.make(members)) return false;
  }
  if (!visits_.enter()) return false;
  if (!progress_.begin_blocked_read(channel.armed.load(std::memory_order_relaxed))) {
    visits_.leave();
    return false;
  }
  last_reader_.store(&channel, std::memory_order_relaxed);
  return true;
}

void Context::end_blocked_read(CompletionChannel& channel) noexcept {
  progress_.end_blocked_read(channel.armed.load(std::memory_order_relaxed));
  visits_.leave();
}

void Context::end_visits() noexcept {
  is_closing_.publish(true);
  const std::uint64_t one = 1;
  if (closing_) link::write_bytes(closing_.get(), &one, sizeof one);
  visits_.close_and_wait();
}

bool Context::drive_for_reader() noexcept {
  Lock& lock = device_->receive_lock();
  lock.lock();
  const TimeNs now = clock_.look();
  const bool received = drive_once(now, device::Acknowledge::kLater, kBudget);
  if (received) last_found_ = now;
  announcements_.end_round(lock);
  return received;
}

bool Context::awaits_packets(CompletionChannel& channel) noexcept {
  return channel.wakers.admit({receive_fd(), further_fd()});
}

bool Context::prepare_reader_wait() noexcept {
  settle_debts();
  // What the link holds back for a while is for the progress thread to ask for.
  if (const TimeNs held_until = link_->next_timeout(); held_until != kNever) {
    progress_.note_deadline(held_until);
  }
  const Guard guard(device_->receive_lock());
  const bool may_sleep = link_->prepare_wait();
  if (may_sleep) ++sleepers_;
  return may_sleep;
}

}  // namespace verbena::provider
