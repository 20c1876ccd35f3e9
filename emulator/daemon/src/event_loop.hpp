// Boost.Asio behind the two small interfaces that the rooms know (fabric::Poller, fabric::Timers).
// One thread. While nothing happens no timer runs, and the process does not wake.
#pragma once

#include <utility>
// Boost 1.74's asio needs <utility> first.
#include <boost/asio.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "verbena/fabric/extension.hpp"
#include "verbena/fabric/poller.hpp"

namespace verbena::daemon {

class EventLoop final : public fabric::Poller, public fabric::Timers {
 public:
  void run() { context_.run(); }
  void stop() { context_.stop(); }
  boost::asio::io_context& context() { return context_; }

  void watch(int fd, std::function<void()> on_readable) override;
  void unwatch(int fd) override;
  // Calls once when `fd` takes data again.
  void when_writable(int fd, std::function<void()> then);

  Id after(TimeNs delay_ns, std::function<void()> then) override;
  void cancel(Id timer) override;

  // After the handlers that run now, and those that are ready.
  void post(std::function<void()> then) { boost::asio::post(context_, std::move(then)); }
  void at_end_of_turn(std::function<void()> then) override { post(std::move(then)); }

 private:
  struct Watched;
  void wait_again(const std::shared_ptr<Watched>& watched);

  boost::asio::io_context context_{1};
  std::map<int, std::shared_ptr<Watched>> watched_;
  std::map<Id, std::unique_ptr<boost::asio::steady_timer>> timers_;
  Id next_timer_ = 1;
};

}  // namespace verbena::daemon
