// SPDX-License-Identifier: BSD-2-Clause
#include "machine.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace verbena::threads {
namespace {

// Real descriptors have smaller numbers.
constexpr int kFirstFd = 1'000'000;
constexpr TimeNs kAccessCost = 12;
constexpr TimeNs kStall = 20'000;
// How far a thread's steps may run ahead of other processors and of the outside.
constexpr std::uint64_t kAhead = 400;

}  // namespace

Machine* Machine::here_ = nullptr;

Machine::Machine(const MachineOptions& options, Dice& dice)
    : options_(options), dice_(dice), processors_(options.processors) {
  here_ = this;
}

Machine::~Machine() { here_ = nullptr; }

Thread& Machine::spawn(std::string name, std::uint32_t may_run_on, std::function<void()> body) {
  auto made = std::make_unique<Thread>();
  Thread& thread = *made;
  thread.name = std::move(name);
  thread.may_run_on = may_run_on;
  thread.end_fd = open(Kind::kLevel);
  thread.processor = dice_.below(processors_.size());
  thread.fiber = std::make_unique<Fiber>(std::move(body));
  threads_.push_back(std::move(made));
  thread.state = Thread::State::kWaking;
  at(now_ + pick(options_.wake_cost), [this, &thread] { place(thread); });
  return thread;
}

void Machine::at(TimeNs when, std::function<void()> what) {
  horizon_ = std::min(horizon_, when);
  events_.push({when, ++events_made_, std::make_shared<std::function<void()>>(std::move(what))});
}

// --- the scheduler -----------------------------------------------------------------------------

void Machine::steal_for(Processor& idle) {
  const auto bit = 1u << (&idle - processors_.data());
  for (Processor& other : processors_) {
    if (other.current == nullptr) continue;
    for (auto it = other.queue.begin(); it != other.queue.end(); ++it) {
      if (((*it)->may_run_on & bit) == 0) continue;
      idle.queue.push_back(*it);
      idle.time = std::max(idle.time, now_);
      other.queue.erase(it);
      return;
    }
  }
}

// Finds the processor that goes on next, and when; null: an event comes first, if there is one.
TimeNs Machine::next_time(Processor*& processor) {
  processor = nullptr;
  TimeNs next = events_.empty() ? kNever : events_.top().when;
  for (Processor& p : processors_) {
    if (p.current == nullptr && p.queue.empty()) {
      if (options_.steals) steal_for(p);
      if (p.queue.empty()) continue;
    }
    if (p.time >= next) continue;
    next = p.time;
    processor = &p;
  }
  return next;
}

void Machine::run_until(TimeNs end) {
  while (!is_stopped_) {
    Processor* processor = nullptr;
    const TimeNs next = next_time(processor);
    if (next >= end) {
      now_ = std::max(now_, end);
      return;
    }
    now_ = std::max(now_, next);
    if (processor != nullptr) {
      advance(*processor);
      continue;
    }
    const auto what = events_.top().what;
    events_.pop();
    (*what)();
  }
}

bool Machine::run_until_ended(const Thread& thread) {
  const TimeNs latest = now_ + 10'000'000'000;
  while (thread.state != Thread::State::kEnded && !is_stopped_ && now_ < latest) {
    run_until(now_ + 1'000'000);
  }
  return thread.state == Thread::State::kEnded;
}

void Machine::advance(Processor& processor) {
  if (processor.current == nullptr) {
    Thread& next = *processor.queue.front();
    processor.queue.pop_front();
    processor.current = &next;
    next.state = Thread::State::kRunning;
    next.processor = static_cast<std::size_t>(&processor - processors_.data());
    processor.time = std::max(processor.time, now_) + pick(options_.switch_cost);
    const TimeNs rest = std::exchange(next.slice_rest, 0);
    processor.slice_end =
        processor.time + (rest != 0 ? rest : dice_.between(options_.slice / 2, options_.slice));
    processor.pushing = 0;
    return;
  }
  TimeNs horizon = events_.empty() ? kNever : events_.top().when;
  for (const Processor& other : processors_) {
    if (&other != &processor && (other.current != nullptr || !other.queue.empty())) {
      horizon = std::min(horizon, other.time);
    }
  }
  // Sometimes goes on step by step, otherwise in longer parts, because changing fibers costs most.
  const TimeNs ahead = dice_.one_in(4) ? 0 : dice_.below(kAhead);
  run(processor, horizon == kNever ? kNever : horizon + ahead);
}

void Machine::run(Processor& processor, TimeNs until) {
  Thread& thread = *processor.current;
  const TimeNs before = processor.time;
  running_ = &thread;
  on_ = &processor;
  horizon_ = until;
  now_ = processor.time;
  thread.fiber->resume();
  running_ = nullptr;
  on_ = nullptr;
  thread.has_run += processor.time - before;
  if (thread.fiber->has_ended()) {
    thread.state = Thread::State::kEnded;
    settle(thread);
    set_readable(thread.end_fd, true);
  }
  if (thread.state != Thread::State::kRunning) {
    processor.current = nullptr;
    return;
  }
  if (processor.time < processor.slice_end) return;
  if (processor.queue.empty()) {
    processor.slice_end = processor.time + options_.slice;
    return;
  }
  preempt(processor);
}

// A thread at the end of its slice goes behind all others. A thread that a woken thread pushes
// aside is next after that one, with the rest of its slice, as in a fair scheduler.
void Machine::preempt(Processor& processor) {
  Thread& thread = *std::exchange(processor.current, nullptr);
  ++thread.preemptions;
  settle(thread);
  thread.state = Thread::State::kReady;
  if (processor.pushing == 0) return processor.queue.push_back(&thread);
  const std::size_t behind = std::min(processor.pushing, processor.queue.size());
  processor.queue.insert(processor.queue.begin() + static_cast<std::ptrdiff_t>(behind), &thread);
  thread.slice_rest = processor.slice_rest;
}

void Machine::wake(Thread& thread) {
  thread.state = Thread::State::kWaking;
  ++thread.sleeps;
  at(now_ + pick(options_.wake_cost), [this, &thread] { place(thread); });
}

// Places the thread at the processor with the fewest threads among those that it may use.
void Machine::place(Thread& thread) {
  Processor* best = nullptr;
  std::size_t least = 0;
  for (std::size_t i = 0; i < processors_.size(); ++i) {
    if ((thread.may_run_on & (1u << i)) == 0) continue;
    Processor& p = processors_[i];
    const std::size_t load =
        2 * (p.queue.size() + (p.current != nullptr ? 1 : 0)) + (i == thread.processor ? 0 : 1);
    if (best != nullptr && load >= least) continue;
    best = &p;
    least = load;
  }
  thread.state = Thread::State::kReady;
  if (best->current == nullptr) best->time = std::max(best->time, now_);
  // As in a fair scheduler, a woken thread may push in once in a slice, for a small part of one.
  const bool may_push = best->current != nullptr && now_ >= thread.pushes_next;
  if (may_push && dice_.below(100) < options_.preempting) {
    thread.pushes_next = now_ + options_.slice;
    thread.slice_rest = options_.slice / 8;
    best->queue.push_front(&thread);
    if (best->pushing++ != 0) return;
    best->slice_rest = best->slice_end > best->time ? best->slice_end - best->time : 0;
    best->slice_end = std::min(best->slice_end, now_);
  } else {
    best->queue.push_back(&thread);
  }
}

// --- a thread that runs ------------------------------------------------------------------------

void Machine::step(TimeNs cost) {
  if (running_ == nullptr) return;
  ++steps_;
  if (running_->stalls && dice_.below(1'000) < options_.stalling) cost += dice_.below(kStall);
  on_->time += cost;
  now_ = on_->time;
  if (now_ >= horizon_ || now_ >= on_->slice_end) {
    running_->fiber->pause();
  }
}

bool Machine::look(std::span<Awaited> awaited) const {
  bool any = false;
  for (Awaited& a : awaited) {
    a.is_ready = false;
    if (a.fd < 0) continue;
    const Descriptor& d = at_fd(a.fd);
    a.is_ready = a.edges_seen != nullptr ? d.edges != *a.edges_seen : d.count != 0;
    any = any || a.is_ready;
  }
  return any;
}

int Machine::wait(std::span<Awaited> awaited, TimeNs timeout) {
  Thread& self = *running_;
  call(600);
  if (!look(awaited) && timeout != 0) {
    self.state = Thread::State::kBlocked;
    self.awaited = awaited;
    settle(self);
    const std::uint64_t sleep = self.sleeps;
    if (timeout != kNever) {
      at(now_ + timeout + pick(self.slack), [this, &self, sleep] {
        if (self.sleeps == sleep) wake(self);
      });
    }
    self.fiber->pause();
    self.awaited = {};
    ++self.wake_ups;
    look(awaited);
  }
  int ready = 0;
  for (Awaited& a : awaited) {
    if (!a.is_ready) continue;
    ++ready;
    if (a.edges_seen != nullptr) *a.edges_seen = edges(a.fd);
  }
  return ready;
}

void Machine::yield() {
  call(300);
  if (on_->queue.empty()) return;
  // The thread goes to the end of the queue, as at the end of its slice.
  on_->pushing = 0;
  on_->slice_end = now_;
  running_->fiber->pause();
}

void Machine::call(TimeNs cost) {
  if (running_ == nullptr) return;
  step(dice_.between(cost / 2, 2 * cost));
  settle(*running_);
}

// --- descriptors -------------------------------------------------------------------------------

int Machine::open(Kind kind) {
  descriptors_.push_back({kind});
  return kFirstFd + static_cast<int>(descriptors_.size()) - 1;
}

bool Machine::is_own(int fd) const { return fd >= kFirstFd; }

Machine::Descriptor& Machine::at_fd(int fd) {
  return descriptors_.at(static_cast<std::size_t>(fd - kFirstFd));
}

const Machine::Descriptor& Machine::at_fd(int fd) const {
  return descriptors_.at(static_cast<std::size_t>(fd - kFirstFd));
}

void Machine::notify(int fd) {
  for (const auto& thread : threads_) {
    if (thread->state != Thread::State::kBlocked) continue;
    const bool awaits = std::any_of(thread->awaited.begin(), thread->awaited.end(),
                                    [fd](const Awaited& a) { return a.fd == fd; });
    if (awaits && look(thread->awaited)) wake(*thread);
  }
}

void Machine::add_to(int fd, std::uint64_t count) {
  Descriptor& d = at_fd(fd);
  d.count += count;
  ++d.edges;
  notify(fd);
}

std::uint64_t Machine::take_all_from(int fd) { return std::exchange(at_fd(fd).count, 0); }

bool Machine::take_one_from(int fd) {
  Descriptor& d = at_fd(fd);
  if (d.count == 0) return false;
  --d.count;
  return true;
}

void Machine::set_readable(int fd, bool readable) {
  at_fd(fd).count = readable ? 1 : 0;
  if (readable) notify(fd);
}

void Machine::wake(int fd) {
  Descriptor& d = at_fd(fd);
  d.count = 1;
  ++d.edges;
  notify(fd);
}

std::uint64_t Machine::edges(int fd) const { return at_fd(fd).edges; }

// --- memory ------------------------------------------------------------------------------------

void Machine::before_access() {
  step(1 + pick(kAccessCost));
  if (now_ >= first_seen_at_) flush();
}

bool Machine::load_own(const void* word, std::uint64_t& value) const {
  if (running_ == nullptr) return false;
  const auto& stores = running_->stores;
  for (auto it = stores.rbegin(); it != stores.rend(); ++it) {
    if (it->word != word) continue;
    value = it->value;
    return true;
  }
  return false;
}

bool Machine::buffer(void* word, std::uint64_t value, std::size_t size, bool releases) {
  if (running_ == nullptr || options_.store_delay == 0) return false;
  TimeNs seen_at = now_ + pick(options_.store_delay);
  for (const BufferedStore& earlier : running_->stores) {
    if (releases || earlier.word == word) seen_at = std::max(seen_at, earlier.seen_at);
  }
  running_->stores.push_back({word, value, size, seen_at, releases});
  ++buffered_;
  first_seen_at_ = std::min(first_seen_at_, seen_at);
  return true;
}

void Machine::settle(Thread& thread, const void* word) {
  auto& stores = thread.stores;
  if (stores.empty()) return;
  // A store that releases is seen after all stores before it.
  const auto release = std::find_if(stores.rbegin(), stores.rend(), [word](const BufferedStore& s) {
    return s.word == word && s.releases;
  });
  auto before_release =
      word == nullptr ? stores.size() : static_cast<std::size_t>(stores.rend() - release);
  std::erase_if(stores, [&](const BufferedStore& s) {
    const bool is_before = before_release != 0;
    if (is_before) --before_release;
    if (!is_before && s.word != word) return false;
    std::memcpy(s.word, &s.value, s.size);
    --buffered_;
    return true;
  });
}

void Machine::settle_all(const void* word) {
  if (buffered_ == 0) return;
  for (const auto& thread : threads_) settle(*thread, word);
}

void Machine::flush() {
  first_seen_at_ = kNever;
  if (buffered_ == 0) return;
  for (const auto& thread : threads_) {
    std::erase_if(thread->stores, [&](const BufferedStore& s) {
      if (s.seen_at > now_) {
        first_seen_at_ = std::min(first_seen_at_, s.seen_at);
        return false;
      }
      std::memcpy(s.word, &s.value, s.size);
      --buffered_;
      return true;
    });
  }
}

void before_access() noexcept {
  if (Machine* machine = Machine::here()) machine->before_access();
}

bool load_own_store(const void* word, std::uint64_t& value) noexcept {
  const Machine* machine = Machine::here();
  return machine != nullptr && machine->load_own(word, value);
}

bool buffer_store(void* word, std::uint64_t value, std::size_t size, bool releases) noexcept {
  Machine* machine = Machine::here();
  return machine != nullptr && machine->buffer(word, value, size, releases);
}

void settle_word(const void* word, bool all) noexcept {
  Machine* machine = Machine::here();
  if (machine == nullptr || machine->running() == nullptr) return;
  machine->settle(*machine->running(), all ? nullptr : word);
}

void settle_word_of_all(const void* word) noexcept {
  if (Machine* machine = Machine::here()) machine->settle_all(word);
}

void fence(std::memory_order) noexcept {
  Machine* machine = Machine::here();
  if (machine == nullptr || machine->running() == nullptr) return;
  if (!machine->options().has_fences) return;
  machine->step(10);
  machine->settle(*machine->running());
}

}  // namespace verbena::threads
