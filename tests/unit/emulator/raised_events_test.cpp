// SPDX-License-Identifier: BSD-2-Clause
// Tests which contexts raise a requested event, and what the asker is told.
#include "raised_events.hpp"

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

using control::RaisedEvent;
using control::RaiseEvent;

class RaisedEventsTest : public ClientsTest {
 protected:
  void SetUp() override {
    ClientsTest::SetUp();
    events_.emplace(*fabric_, clients_, reactor_, questions_);
  }
  void ask(const Client& asker, RaisedEvent event, std::uint32_t number, std::uint32_t sequence) {
    RaiseEvent request;
    request.device = "a";
    request.event = event;
    request.number = number;
    events_->on_request(*asker.session, incoming(request, sequence));
  }
  static std::uint32_t qpn_of(const Client& context) {
    return Qpn::from(context.session->context->slot, 1).value();
  }

  Questions questions_{clients_};
  std::optional<RaisedEvents> events_;
};

TEST_F(RaisedEventsTest, AllContextsOfTheDeviceHearOfWhatConcernsAll) {
  const Client asker = connect();
  ask(asker, RaisedEvent::kClientReregister, 0, 1);
  EXPECT_EQ(refusal(asker, 1), ENOENT) << "nobody to tell";
  const Client context = connect_context("a");
  const Client other = connect_context("b");
  ask(asker, RaisedEvent::kClientReregister, 0, 2);
  EXPECT_EQ(heard<control::Ack>(asker).second, 2u);
  EXPECT_EQ(heard<RaiseEvent>(context).first.event, RaisedEvent::kClientReregister);
  EXPECT_TRUE(hears_nothing(other));
}

TEST_F(RaisedEventsTest, TheAnswerOfTheQueuesContextIsPassedOn) {
  const Client asker = connect();
  const Client context = connect_context("a");
  const Client other = connect_context("a");
  ask(asker, RaisedEvent::kQpFatal, qpn_of(context), 1);
  EXPECT_TRUE(hears_nothing(other));
  const std::uint32_t first = heard<RaiseEvent>(context).second;
  events_->on_answer(*other.session, incoming(control::Ack{}, first));
  EXPECT_TRUE(hears_nothing(asker));
  events_->on_answer(*context.session, incoming(control::Ack{}, first));
  EXPECT_EQ(heard<control::Ack>(asker).second, 1u);
  ask(asker, RaisedEvent::kQpFatal, qpn_of(context), 2);
  const std::uint32_t second = heard<RaiseEvent>(context).second;
  events_->on_answer(*context.session, incoming(control::Refused{EINVAL, "no"}, second));
  EXPECT_EQ(refusal(asker, 2), EINVAL);
}

TEST_F(RaisedEventsTest, AContextThatDoesNotReadIsNotAsked) {
  const Client asker = connect();
  const Client context = connect_context("a");
  const std::string text(32 << 10, 'x');
  while (!context.session->is_behind()) context.session->send(control::Refused{EIO, text}, 0);
  ask(asker, RaisedEvent::kQpFatal, qpn_of(context), 1);
  EXPECT_EQ(refusal(asker, 1), EAGAIN);
}

TEST_F(RaisedEventsTest, AQueueOfNobodyIsRefusedAlsoWhenItsContextHasGone) {
  const Client asker = connect();
  ask(asker, RaisedEvent::kQpFatal, Qpn::from(900, 1).value(), 1);
  EXPECT_EQ(refusal(asker, 1), ENOENT);
  const Client context = connect_context("a");
  ask(asker, RaisedEvent::kPathMigrationError, qpn_of(context), 2);
  disconnect(context);
  questions_.on_client_gone(context.id);
  EXPECT_EQ(refusal(asker, 2), ENOENT);
}

TEST_F(RaisedEventsTest, AContextThatIsStoppedIsNotWaitedForForEver) {
  const Client asker = connect();
  const Client context = connect_context("a");
  ask(asker, RaisedEvent::kQpFatal, qpn_of(context), 1);
  const std::uint32_t question = heard<RaiseEvent>(context).second;
  reactor_.advance(RaisedEvents::kDeadlineNs - 1);
  EXPECT_TRUE(hears_nothing(asker));
  reactor_.advance(1);
  EXPECT_EQ(refusal(asker, 1), ETIMEDOUT);
  events_->on_answer(*context.session, incoming(control::Ack{}, question));
  EXPECT_TRUE(hears_nothing(asker));
  ask(asker, RaisedEvent::kQpFatal, qpn_of(context), 2);
  events_->on_answer(*context.session, incoming(control::Ack{}, heard<RaiseEvent>(context).second));
  EXPECT_EQ(heard<control::Ack>(asker).second, 2u);
  reactor_.advance(RaisedEvents::kDeadlineNs);
  EXPECT_TRUE(hears_nothing(asker));
}

}  // namespace
}  // namespace verbena::daemon
