// SPDX-License-Identifier: BSD-2-Clause
// Tests which contexts are captured, from when on, and until when.
#include "capture_broker.hpp"

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

using control::CaptureSource;
using control::SetCapture;

class CaptureBrokerTest : public ClientsTest {
 protected:
  void SetUp() override {
    ClientsTest::SetUp();
    captures_.emplace(*fabric_, clients_, reactor_);
  }
  void start(const Client& command, const std::string& device, std::uint32_t sequence = 1) {
    control::Capture request;
    request.device = device;
    captures_->on_request(*command.session, incoming(request, sequence));
  }
  // Starts a capture of device "a" and reads what the command is told about the emulator itself.
  void start_at_a(const Client& command) {
    start(command, "a");
    EXPECT_EQ(heard<CaptureSource>(command).first.program, "verbenad");
    EXPECT_EQ(heard<control::Ack>(command).second, 1u);
  }
  void disconnect(const Client& client) {
    if (client.session->context) captures_->on_context_closed(*client.session);
    const auto session = clients_.remove(client.id);
    captures_->on_client_gone(client.id);
    if (session->context) clients_.remove_context(*session);
  }

  std::optional<CaptureBroker> captures_;
};

TEST_F(CaptureBrokerTest, TheContextsOfTheDeviceAreCapturedAndTheCommandKnowsThem) {
  const Client context = connect_context("a");
  const Client other = connect_context("b");
  const Client command = connect();
  start_at_a(command);
  EXPECT_EQ(heard<CaptureSource>(command).first.slot, context.session->context->slot);
  EXPECT_TRUE(heard<SetCapture>(context).first.order.is_on);
  EXPECT_TRUE(hears_nothing(other));
  captures_->on_extra_slot(*context.session, 77);
  EXPECT_EQ(heard<control::CaptureSlot>(command).first.slot, 77u);
  disconnect(context);
  heard<control::CaptureSourceEnded>(command);
}

TEST_F(CaptureBrokerTest, OneAtATimeAndOnlyOfADeviceThatThereIs) {
  const Client command = connect();
  start(command, "nobody", 1);
  EXPECT_EQ(refusal(command, 1), ENODEV);
  const Client first = connect();
  start_at_a(first);
  start(command, "a", 2);
  EXPECT_EQ(refusal(command, 2), EBUSY);
  disconnect(first);
  start_at_a(connect());
}

TEST_F(CaptureBrokerTest, ANewcomerIsCapturedFromItsFirstPacketOn) {
  const Client command = connect();
  EXPECT_FALSE(captures_->on_context_opened(*connect_context("a").session));
  start_at_a(command);
  heard<CaptureSource>(command);
  const Client context = connect_context("a");
  EXPECT_TRUE(captures_->on_context_opened(*context.session));
  EXPECT_EQ(heard<CaptureSource>(command).first.slot, context.session->context->slot);
  EXPECT_FALSE(captures_->on_context_opened(*connect_context("b").session));
}

TEST_F(CaptureBrokerTest, ACommandThatDoesNotReadHearsOfTheContextsLater) {
  const Client context = connect_context("a");
  const Client command = connect();
  const std::string text(32 << 10, 'x');
  while (!command.session->is_behind()) command.session->send(control::Refused{EIO, text}, 0);
  start(command, "a");
  reactor_.advance(CaptureBroker::kRetryNs);
  EXPECT_TRUE(hears_nothing(context));
  while (!hears_nothing(command)) reactor_.run();
  reactor_.advance(CaptureBroker::kRetryNs);
  heard<CaptureSource>(command);
  EXPECT_TRUE(heard<SetCapture>(context).first.order.is_on);
  EXPECT_EQ(reactor_.timers(), 0u);
}

TEST_F(CaptureBrokerTest, EndsWithItsCommand) {
  const Client context = connect_context("a");
  const Client command = connect();
  const Client stranger = connect();
  start_at_a(command);
  heard<SetCapture>(context);
  disconnect(stranger);
  EXPECT_TRUE(hears_nothing(context));
  disconnect(command);
  EXPECT_FALSE(heard<SetCapture>(context).first.order.is_on);
}

}  // namespace
}  // namespace verbena::daemon
