// SPDX-License-Identifier: BSD-2-Clause
// Clients for the tests of the server's parts. Each has a real session; the test reads at its other
// end what the client is told. The test sets the clock of the event loop.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client_table.hpp"
#include "verbena/control/channel.hpp"
#include "verbena/fabric/fabric.hpp"
#include "verbena/fabric/plan.hpp"

namespace verbena::daemon {

class FakeReactor final : public Reactor {
 public:
  void watch(int fd, std::function<void()> on_readable) override {
    if (refuses_) throw std::system_error(ENOSPC, std::generic_category());
    readable_[fd] = std::move(on_readable);
  }
  void unwatch(int fd) override {
    readable_.erase(fd);
    writable_.erase(fd);
  }
  void when_writable(int fd, std::function<void()> then) override {
    writable_[fd] = std::move(then);
  }
  Id after(TimeNs delay_ns, std::function<void()> then) override {
    timers_[{now_ + delay_ns, ++last_}] = std::move(then);
    return last_;
  }
  void cancel(Id timer) override {
    std::erase_if(timers_, [&](const auto& entry) { return entry.first.second == timer; });
  }
  void at_end_of_turn(std::function<void()> then) override { posted_.push_back(std::move(then)); }

  // Does all that can happen without waiting.
  void run() {
    while (turn()) {
    }
  }
  void advance(TimeNs by) {
    const TimeNs end = now_ + by;
    run();
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      auto timer = timers_.extract(timers_.begin());
      now_ = timer.key().first;
      timer.mapped()();
      run();
    }
    now_ = end;
  }
  // Fails to watch, as epoll does if the user has too many watches.
  void refuse_to_watch() { refuses_ = true; }
  std::size_t timers() const { return timers_.size(); }
  std::size_t watched() const { return readable_.size(); }

 private:
  static bool is_ready(int fd, short events) {
    pollfd p{fd, events, 0};
    return ::poll(&p, 1, 0) == 1;
  }
  bool turn() {
    if (!posted_.empty()) {
      const auto then = std::move(posted_.front());
      posted_.pop_front();
      then();
      return true;
    }
    for (auto at = writable_.begin(); at != writable_.end(); ++at) {
      if (!is_ready(at->first, POLLOUT)) continue;
      writable_.extract(at).mapped()();
      return true;
    }
    for (const auto& [fd, on_readable] : readable_) {
      if (!is_ready(fd, POLLIN)) continue;
      const auto call = on_readable;
      call();
      return true;
    }
    return false;
  }

  std::map<int, std::function<void()>> readable_;
  std::map<int, std::function<void()>> writable_;
  std::map<std::pair<TimeNs, Id>, std::function<void()>> timers_;
  std::deque<std::function<void()>> posted_;
  TimeNs now_ = 0;
  Id last_ = 0;
  bool refuses_ = false;
};

struct Client {
  Session* session;
  control::UniqueFd fd;  // the end that the program has
  Session::Id id;
};

// Two devices, `a` and `b`, and their clients.
class ClientsTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kPid = 4711;

  void SetUp() override {
    settings::Settings wishes;
    // A part of loopback that no other process of this test run uses.
    const unsigned pid = static_cast<unsigned>(::getpid());
    wishes.fabric = settings::FabricRange{IpAddress::v4(0x7fc80000u + ((pid & 0x1fff) << 8)), 24};
    wishes.devices = {"a", "b"};
    const auto devices =
        fabric::plan_devices(wishes, {0, "tulip", "0.1.0", fabric::list_interfaces().value()});
    ASSERT_TRUE(devices.ok()) << devices.error().text;
    auto opened = fabric::Fabric::open(*devices, shadow_, reactor_, shares_.descriptors);
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    fabric_ = std::move(*opened);
  }
  void TearDown() override {
    fabric_.reset();
    std::filesystem::remove_all(shadow_);
  }

  Client connect(std::uint32_t pid = kPid) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    Session::Events events;
    events.on_message = [this](Session& session, control::Incoming in) {
      if (on_message_) on_message_(session, in);
    };
    events.on_end = [this](Session& session, const control::Error& error) {
      ended_.emplace_back(session.id, error.text);
    };
    Session& session = clients_.add(control::UniqueFd(ends[0]), pid, std::move(events));
    session.info.comm = "tulip";
    return {&session, control::UniqueFd(ends[1]), session.id};
  }
  Client connect_context(const char* device = "a", std::uint32_t pid = kPid) {
    Client client = connect(pid);
    fabric::Port* const port = fabric_->find(device);
    client.session->context = Session::Context{port, *port->add_context(pid), {}};
    clients_.add_context(*client.session);
    return client;
  }
  // Removes the client as the server does. The test itself tells the part that it tests.
  void disconnect(const Client& client) {
    const auto session = clients_.remove(client.id);
    if (!session->context) return;
    clients_.remove_context(*session);
    session->context->port->remove_context(session->context->slot);
  }

  template <typename Message>
  static control::Incoming incoming(const Message& message, std::uint32_t sequence = 0) {
    const auto packet = control::encode(message, sequence);
    control::Incoming in;
    in.header = *control::decode_header(packet);
    in.payload.assign(packet.begin() + control::kHeaderSize, packet.end());
    return in;
  }
  // Returns the next message for the client, and its number. Its type must be `Message`.
  template <typename Message>
  static std::pair<Message, std::uint32_t> heard(const Client& client) {
    const auto in = control::receive_packet(client.fd.get(), MSG_DONTWAIT);
    if (!in) {
      ADD_FAILURE() << in.error().text;
      return {};
    }
    const auto message = control::decode<Message>(in->payload);
    EXPECT_EQ(in->type(), Message::kType) << control::message_name(in->type());
    EXPECT_TRUE(message.ok());
    return {message ? *message : Message{}, in->header.sequence};
  }
  // Returns the error with which request `sequence` was refused.
  static int refusal(const Client& client, std::uint32_t sequence) {
    const auto [refused, number] = heard<control::Refused>(client);
    EXPECT_EQ(number, sequence);
    return static_cast<int>(refused.code);
  }
  static bool hears_nothing(const Client& client) {
    const auto in = control::receive_packet(client.fd.get(), MSG_DONTWAIT);
    return !in && in.error().code == EAGAIN;
  }

  const std::string shadow_ = ::testing::TempDir() + "shadow-" + std::to_string(::getpid());
  FakeReactor reactor_;
  Shares shares_{1000};
  std::unique_ptr<fabric::Fabric> fabric_;
  ClientTable clients_{reactor_, shares_};
  std::function<void(Session&, const control::Incoming&)> on_message_;
  std::vector<std::pair<Session::Id, std::string>> ended_;
};

}  // namespace verbena::daemon
