// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/blocked_reader.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "read_channel.h"
#include "verbena/context/context.hpp"
#include "verbena/context/live_contexts.hpp"
#include "verbena/control/channel_reader.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::provider {
namespace {

// A thread that drives does not notice signals, so it looks for them from time to time.
constexpr int kRoundsUntilSignals = 16;

// One blocking read. While it lives, its thread is the blocked reader of the engine.
class Visit {
 public:
  Visit(Engine& engine, std::shared_ptr<CompletionChannel> channel, int fd,
        control::MayBlock* may_block)
      : engine_(engine),
        reader_spin_(engine.readers().spin()),
        channel_(std::move(channel)),
        may_block_(may_block),
        fd_(fd) {
    channel_->pipe.begin_reading();
    reader_spin_.begin(link::monotonic_now_ns());
  }
  ~Visit() {
    wake({});
    if (!has_slept_) channel_->wakers.note_no_sleep();
    channel_->pipe.end_reading();
    engine_.end_blocked_read(*channel_);
  }
  Visit(const Visit&) = delete;

  ssize_t read(void* bytes, std::size_t size, int* wakers) noexcept {
    while (!engine_.readers().is_closing()) {
      if (const ssize_t got = take(bytes, size); got != 0) return got;
      // Before the first sleep this thread does not drive: if a packet is there already, the sleep
      // ends at once. But if events have come soon lately, the thread looks for them awake. On a
      // single processor it yields, so that the sender runs.
      if (reader_spin_.is_on() && engine_.readers().has_one_processor()) give_turn();
      if ((has_slept_ || reader_spin_.is_on()) && engine_.drive_for_reader()) {
        if (++driven_ % kRoundsUntilSignals != 0) continue;
        *wakers = kVerbenaNoWakers;
        return 0;
      }
      if (const ssize_t got = take(bytes, size); got != 0) return got;
      if (!blocks()) break;
      if (reader_spin_.is_on() && goes_on_looking()) continue;
      if (!engine_.awaits_packets(*channel_)) break;
      sleeps_ = engine_.prepare_reader_wait();
      has_slept_ = true;
      if (!sleeps_) continue;
      *wakers = channel_->wakers.fd();
      return 0;
    }
    return control::kReadPlainly;
  }
  void wake(std::span<const epoll_event> reported) noexcept {
    for (const epoll_event& event : reported) {
      if (event.data.fd == channel_->pipe.reader()) channel_->pipe.look_into();
    }
    if (sleeps_) engine_.end_reader_wait();
    sleeps_ = false;
  }

 private:
  // Asks `may_block_` once, before the read does what only a blocking read of this channel may do.
  // The read may hand over an event that it has found by itself without asking.
  bool blocks() noexcept {
    if (!was_asked_) channel_->has_blocked.store(may_block_(fd_) != 0, std::memory_order_relaxed);
    was_asked_ = true;
    return channel_->has_blocked.load(std::memory_order_relaxed);
  }
  void give_turn() noexcept {
    ::sched_yield();
    reader_spin_.note_turn();
  }
  bool goes_on_looking() noexcept {
    return engine_.readers().has_one_processor()
               ? reader_spin_.goes_on_after_turn(&link::monotonic_now_ns)
               : reader_spin_.goes_on(link::monotonic_now_ns());
  }
  ssize_t take(void* bytes, std::size_t size) noexcept {
    if (channel_->pipe.may_hold_any() && !blocks()) return control::kReadPlainly;
    const ssize_t got = channel_->pipe.read(bytes, size);
    if (got > 0) reader_spin_.end(&link::monotonic_now_ns);
    return got;
  }

  Engine& engine_;
  ReaderSpin& reader_spin_;
  std::shared_ptr<CompletionChannel> channel_;
  control::MayBlock* may_block_;
  int fd_;
  std::uint8_t driven_ = 0;  // rounds that brought packets and no event
  bool was_asked_ = false;
  bool sleeps_ = false;
  bool has_slept_ = false;
};

static_assert(sizeof(Visit) <= kVerbenaVisitBytes);
static_assert(sizeof(CompletionEvent) == kVerbenaEventBytes);
static_assert(control::kReadPlainly == kVerbenaReadPlainly);

Visit& visit_in(void* room) { return *std::launder(static_cast<Visit*>(room)); }

}  // namespace

void offer_channel(int fd) noexcept {
  static auto* const offer = reinterpret_cast<control::OfferChannelReader*>(
      ::dlsym(RTLD_DEFAULT, control::kOfferChannelReader));
  if (offer != nullptr) offer(fd, &verbena_read_channel, &verbena_leave_channel);
}

}  // namespace verbena::provider

using namespace verbena::provider;

// Refuses a channel that another process owns or that no thread may drive. A channel whose reads do
// not block is not driven: its reader comes and goes. Allocates nothing.
int verbena_begin_visit(int fd, int (*may_block)(int fd), void* room) {
  const auto begin = [&](Context& context) {
    std::shared_ptr<CompletionChannel> channel = context.channel_at(fd);
    if (channel == nullptr) return false;
    Engine& engine = context.first().engine();
    const bool blocks = channel->has_blocked.load(std::memory_order_relaxed) || may_block(fd) != 0;
    if (!blocks || !engine.begin_blocked_read(*channel)) return false;
    ::new (room) Visit(engine, std::move(channel), fd, may_block);
    return true;
  };
  return any_live_context(std::ref(begin)) ? 1 : 0;
}

ssize_t verbena_visit_read(void* room, void* bytes, std::size_t size, int* wakers) {
  return visit_in(room).read(bytes, size, wakers);
}

void verbena_visit_wake(void* room, const epoll_event* reported, int count) {
  visit_in(room).wake({reported, static_cast<std::size_t>(count)});
}

void verbena_end_visit(void* room) { std::destroy_at(&visit_in(room)); }

int verbena_is_of_a_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
         number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

int verbena_interrupts(int number) {
  struct sigaction action {};
  if (::sigaction(number, nullptr, &action) != 0) return 0;
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return 0;
  return (action.sa_flags & SA_RESTART) == 0 ? 1 : 0;
}

// It cannot be known any more which signal it was. In a program with both kinds of handlers, each
// signal ends the read. Many programs have crash handlers for faults, which say nothing about how
// the program's other handlers are meant.
int verbena_may_interrupt() {
  for (int number = 1; number < NSIG; ++number) {
    if (!verbena_is_of_a_fault(number) && verbena_interrupts(number)) return 1;
  }
  return 0;
}
