#include "event_loop.hpp"

namespace verbena::daemon {

namespace asio = boost::asio;

// Shared with the handlers in flight: they look at `active` before they touch anything.
struct EventLoop::Watched {
  Watched(asio::io_context& context, int fd) : descriptor(context, fd) {}
  ~Watched() { (void)descriptor.release(); }

  asio::posix::stream_descriptor descriptor;
  std::function<void()> on_readable;
  std::function<void()> on_writable;
  bool active = true;
};

void EventLoop::watch(int fd, std::function<void()> on_readable) {
  unwatch(fd);
  auto watched = std::make_shared<Watched>(context_, fd);
  watched->on_readable = std::move(on_readable);
  watched_[fd] = watched;
  wait_again(watched);
}

void EventLoop::wait_again(const std::shared_ptr<Watched>& watched) {
  watched->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [this, watched](const boost::system::error_code& error) {
                                   if (error || !watched->active) return;
                                   watched->on_readable();
                                   if (watched->active) wait_again(watched);
                                 });
}

void EventLoop::unwatch(int fd) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  found->second->active = false;
  // Takes it out of epoll now: the number may belong to another file a moment later.
  (void)found->second->descriptor.release();
  watched_.erase(found);
}

void EventLoop::when_writable(int fd, std::function<void()> then) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
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

EventLoop::Id EventLoop::after(TimeNs delay_ns, std::function<void()> then) {
  const Id id = next_timer_++;
  auto timer = std::make_unique<asio::steady_timer>(context_);
  timer->expires_after(std::chrono::nanoseconds(delay_ns));
  timer->async_wait([this, id, call = std::move(then)](const boost::system::error_code& error) {
    if (error || timers_.erase(id) == 0) return;
    call();
  });
  timers_.emplace(id, std::move(timer));
  return id;
}

void EventLoop::cancel(Id timer) { timers_.erase(timer); }

}  // namespace verbena::daemon
