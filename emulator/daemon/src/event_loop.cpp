// SPDX-License-Identifier: BSD-2-Clause
#include "event_loop.hpp"

#include <utility>
// Boost 1.74's asio needs <utility> first.
#include <boost/asio.hpp>
#include <chrono>
#include <map>
#include <optional>

namespace verbena::daemon {

namespace asio = boost::asio;

namespace {

// Shared with the handlers in flight, which look at `active` before they touch anything.
struct Watched {
  Watched(asio::io_context& context, int fd) : descriptor(context, fd) {}
  ~Watched() { (void)descriptor.release(); }

  asio::posix::stream_descriptor descriptor;
  std::function<void()> on_readable;
  std::function<void()> on_writable;
  bool active = true;
};

void wait_again(const std::shared_ptr<Watched>& watched) {
  watched->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [watched](const boost::system::error_code& error) {
                                   if (error || !watched->active) return;
                                   // Watches the descriptor again even if its handler throws.
                                   try {
                                     watched->on_readable();
                                   } catch (...) {
                                     if (watched->active) wait_again(watched);
                                     throw;
                                   }
                                   if (watched->active) wait_again(watched);
                                 });
}

}  // namespace

struct EventLoop::Impl {
  asio::io_context context{1};
  std::map<int, std::shared_ptr<Watched>> watched;
  std::map<Id, std::unique_ptr<asio::steady_timer>> timers;
  std::optional<asio::signal_set> signals;
  Id next_timer = 1;
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() { impl_->context.run(); }
void EventLoop::stop() { impl_->context.stop(); }

void EventLoop::watch(int fd, std::function<void()> on_readable) {
  unwatch(fd);
  auto watched = std::make_shared<Watched>(impl_->context, fd);
  watched->on_readable = std::move(on_readable);
  impl_->watched[fd] = watched;
  wait_again(watched);
}

void EventLoop::unwatch(int fd) {
  const auto found = impl_->watched.find(fd);
  if (found == impl_->watched.end()) return;
  found->second->active = false;
  // Takes the descriptor out of epoll now: its number may belong to another file a moment later.
  (void)found->second->descriptor.release();
  impl_->watched.erase(found);
}

void EventLoop::when_writable(int fd, std::function<void()> then) {
  const auto found = impl_->watched.find(fd);
  if (found == impl_->watched.end()) return;
  const std::shared_ptr<Watched> watched = found->second;
  watched->on_writable = std::move(then);
  watched->descriptor.async_wait(asio::posix::stream_descriptor::wait_write,
                                 [watched](const boost::system::error_code& error) {
                                   if (error || !watched->active || !watched->on_writable) return;
                                   const auto call = std::move(watched->on_writable);
                                   watched->on_writable = nullptr;
                                   call();
                                 });
}

void EventLoop::on_signal(std::initializer_list<int> numbers, std::function<void(int)> then) {
  asio::signal_set& signals = impl_->signals.emplace(impl_->context);
  for (const int number : numbers) signals.add(number);
  signals.async_wait([call = std::move(then)](const boost::system::error_code& error, int number) {
    if (!error) call(number);
  });
}

EventLoop::Id EventLoop::after(TimeNs delay_ns, std::function<void()> then) {
  const Id id = impl_->next_timer++;
  auto timer = std::make_unique<asio::steady_timer>(impl_->context);
  timer->expires_after(std::chrono::nanoseconds(delay_ns));
  timer->async_wait([this, id, call = std::move(then)](const boost::system::error_code& error) {
    if (error || impl_->timers.erase(id) == 0) return;
    call();
  });
  impl_->timers.emplace(id, std::move(timer));
  return id;
}

void EventLoop::cancel(Id timer) { impl_->timers.erase(timer); }

void EventLoop::at_end_of_turn(std::function<void()> then) {
  asio::post(impl_->context, std::move(then));
}

}  // namespace verbena::daemon
