// SPDX-License-Identifier: BSD-2-Clause
// When the event of a rule happens, to which process, and how often.
#include "rule_events.hpp"

#include <algorithm>

#include "client_fixture.hpp"
#include "verbena/control/event_messages.hpp"
#include "verbena/control/journal_messages.hpp"

namespace verbena::daemon {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;

class RuleEventsTest : public ClientsTest {
 protected:
  void SetUp() override {
    ClientsTest::SetUp();
    events_.emplace(*fabric_, clients_, reactor_, journal_, [this](fabric::Port& port, bool up) {
      ports_.push_back(port.info().name + (up ? " up" : " down"));
    });
  }
  void add(const std::string& rule) {
    const auto added = fabric_->rules().add({rule}, std::nullopt, 1);
    ASSERT_TRUE(added.ok()) << added.error().text;
    events_->follow();
  }
  std::uint64_t fired() { return fabric_->rules().all().front().retired.fired; }
  void answer(const Client& context, bool has_it) {
    const std::uint32_t question = heard<control::RaiseEvent>(context).second;
    EXPECT_TRUE(events_->on_answer(*context.session,
                                   has_it ? incoming(control::Ack{}, question)
                                          : incoming(control::Refused{ENOENT, "no"}, question)));
  }
  // Returns the events that are told so far, a line each.
  std::string told() {
    const Client reader = connect();
    journal_.on_query(*reader.session, incoming(control::JournalQuery{}, 1));
    reactor_.run();
    const std::string text = heard<control::JournalText>(reader).first.text;
    disconnect(reader);
    return text;
  }

  EventJournal journal_{clients_, reactor_};
  std::vector<std::string> ports_;
  std::optional<RuleEvents> events_;
};

TEST_F(RuleEventsTest, TheClockBeginsWithTheProgramOfTheRule) {
  add("raise=client-reregister program=rose after=1s");
  const Client other = connect_context("a", 1);
  const Client named = connect_context("b", 2);
  events_->follow();
  reactor_.advance(2 * kSecond);
  EXPECT_TRUE(hears_nothing(named));
  named.session->info.comm = "rose";
  events_->follow();
  reactor_.advance(kSecond - 1);
  EXPECT_TRUE(hears_nothing(named));
  reactor_.advance(1);
  EXPECT_EQ(heard<control::RaiseEvent>(named).first.event, control::RaisedEvent::kClientReregister);
  EXPECT_EQ(fired(), 1u);
  events_->follow();
  reactor_.advance(10 * kSecond);
  EXPECT_TRUE(hears_nothing(named)) << "once";
  EXPECT_TRUE(hears_nothing(other));
}

TEST_F(RuleEventsTest, APortGoesDownForAllOrForOneDevice) {
  const Client context = connect_context("b");
  add("port-down device=b");
  reactor_.advance(0);
  EXPECT_EQ(ports_, std::vector<std::string>{"b down"});
  add("port-down after=1s");
  reactor_.advance(kSecond);
  EXPECT_EQ(ports_, (std::vector<std::string>{"b down", "a down", "b down"}));
}

TEST_F(RuleEventsTest, TheClockOfAPortBeginsWithAnyDevice) {
  add("port-down device=b");
  reactor_.advance(kSecond);
  EXPECT_TRUE(ports_.empty());
  const Client context = connect_context("a");
  events_->follow();
  reactor_.advance(0);
  EXPECT_EQ(ports_, std::vector<std::string>{"b down"});
}

TEST_F(RuleEventsTest, AQueueThatThereIsNotYetIsLookedForAgain) {
  const Client context = connect_context("a");
  add("raise=qp-fatal qp=tulip:1");
  reactor_.advance(0);
  answer(context, false);
  EXPECT_TRUE(hears_nothing(context));
  reactor_.advance(RuleEvents::kAgainNs);
  EXPECT_EQ(fired(), 0u);
  answer(context, true);
  EXPECT_EQ(fired(), 1u);
  reactor_.advance(kSecond);
  EXPECT_TRUE(hears_nothing(context));
}

TEST_F(RuleEventsTest, AnEventIsToldWhenItHappensAndNotWhileItsQueueIsLookedFor) {
  const Client context = connect_context("a");
  add("raise=qp-fatal qp=tulip:1");
  reactor_.advance(0);
  for (int times = 0; times < 3; ++times) {
    answer(context, false);
    reactor_.advance(RuleEvents::kAgainNs);
  }
  EXPECT_EQ(told(), "");
  answer(context, true);
  const std::string events = told();
  EXPECT_EQ(std::ranges::count(events, '\n'), 1) << events;
  EXPECT_NE(events.find(R"("matched":1)"), std::string::npos) << events;
}

TEST_F(RuleEventsTest, WhoHasGoneAnswersNoMoreAndOthersAreAsked) {
  const Client context = connect_context("a");
  add("raise=qp-fatal qp=tulip:1");
  reactor_.advance(0);
  disconnect(context);
  events_->on_client_gone(context.id);
  const Client next = connect_context("a");
  reactor_.advance(RuleEvents::kAgainNs);
  answer(next, true);
  EXPECT_EQ(fired(), 1u);
  EXPECT_FALSE(events_->on_answer(*next.session, incoming(control::Ack{}, 1)));
}

TEST_F(RuleEventsTest, AQueueIsLookedForWhenTheDeviceIsOpenedOnceMore) {
  const Client first = connect_context("a");
  add("raise=qp-fatal qp=tulip:1 after=1s");
  reactor_.advance(kSecond);
  answer(first, false);
  disconnect(first);
  events_->on_client_gone(first.id);
  reactor_.advance(10 * kSecond);
  const Client next = connect_context("a");
  events_->follow();
  events_->follow();
  reactor_.advance(kSecond - 1);
  EXPECT_TRUE(hears_nothing(next)) << "the clock begins anew";
  reactor_.advance(1);
  answer(next, true);
  EXPECT_EQ(fired(), 1u);
  disconnect(next);
  const Client last = connect_context("a");
  events_->follow();
  reactor_.advance(10 * kSecond);
  EXPECT_TRUE(hears_nothing(last)) << "once";
}

// Such a process has the ID 0 here, and a signal to 0 would hit the emulator itself.
TEST_F(RuleEventsTest, NobodyIsSignalledInPlaceOfAProcessInAnotherPidNamespace) {
  const Client context = connect_context("a", 0);
  add("cont program=tulip");
  reactor_.advance(0);
  EXPECT_EQ(fired(), 0u);
}

TEST_F(RuleEventsTest, ARuleThatIsTakenAwayDoesNothing) {
  const Client context = connect_context("a");
  add("port-down after=1s");
  fabric_->rules().clear(true, true, "");
  events_->follow();
  reactor_.advance(2 * kSecond);
  EXPECT_TRUE(ports_.empty());
  EXPECT_EQ(reactor_.timers(), 0u);
}

TEST_F(RuleEventsTest, NothingHappensOnceTheEmulatorEnds) {
  const Client context = connect_context("a");
  add("port-down after=1s");
  events_->end();
  reactor_.advance(2 * kSecond);
  EXPECT_TRUE(ports_.empty());
}

}  // namespace
}  // namespace verbena::daemon
