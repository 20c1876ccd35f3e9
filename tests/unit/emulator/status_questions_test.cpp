// SPDX-License-Identifier: BSD-2-Clause
// Who is asked about its state, and what the asker is told of those who answer, are silent or go.
#include "status_questions.hpp"

#include "client_fixture.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::daemon {
namespace {

using control::StatusReport;
using control::StatusRequest;

class StatusQuestionsTest : public ClientsTest {
 protected:
  void ask(const Client& asker, const std::string& device, std::uint32_t sequence = 1) {
    status_->on_query_resources(*asker.session,
                                incoming(control::QueryResources{device}, sequence));
    reactor_.run();
  }
  // A context answers the question that it has with so many queue pairs, after this one.
  void report(const Client& context, std::uint32_t count, std::uint32_t after = 0,
              bool last = true) {
    const auto [request, sequence] = heard<StatusRequest>(context);
    EXPECT_EQ(request.after, after);
    StatusReport report;
    report.qps.last = last;
    report.counts.qps = 1000;
    for (std::uint32_t i = 1; i <= count; ++i) report.qps.objects.emplace_back().qpn = after + i;
    status_->on_report(*context.session, incoming(report, sequence));
    reactor_.run();
  }
  // How many queue pairs the asker has been told of since the last call, and whether that was all.
  std::pair<std::size_t, bool> told(const Client& asker) {
    std::pair<std::size_t, bool> all{0, false};
    while (!all.second) {
      reactor_.run();
      const auto in = control::receive_packet(asker.fd.get(), MSG_DONTWAIT);
      if (!in) return all;
      const auto part = control::decode<control::Resources>(in->payload);
      EXPECT_TRUE(part.ok()) << control::message_name(in->type());
      for (const auto& context : part->contexts) all.first += context.qps.size();
      all.second = part->last;
    }
    return all;
  }
  void disconnect(const Client& client) {
    ClientsTest::disconnect(client);
    status_->on_client_gone(client.id);
    reactor_.run();
  }
  using All = std::pair<std::size_t, bool>;

  void SetUp() override {
    ClientsTest::SetUp();
    status_.emplace(*fabric_, clients_, reactor_);
  }

  std::optional<StatusQuestions> status_;
};

TEST_F(StatusQuestionsTest, TheAskerIsToldOfAllWhoAnswer) {
  const Client asker = connect();
  const Client first = connect_context("a");
  const Client second = connect_context("b");
  ask(asker, "");
  report(first, 2);
  EXPECT_EQ(told(asker), All(0, false)) << "the round goes on";
  report(second, 3);
  EXPECT_EQ(told(asker), All(5, true));
  EXPECT_EQ(reactor_.timers(), 0u);
}

TEST_F(StatusQuestionsTest, OnlyContextsOfTheDeviceAreAsked) {
  const Client asker = connect();
  const Client in_a = connect_context("a");
  const Client in_b = connect_context("b");
  ask(asker, "b");
  EXPECT_TRUE(hears_nothing(in_a));
  report(in_b, 1);
  EXPECT_EQ(told(asker), All(1, true));
}

TEST_F(StatusQuestionsTest, WithoutContextsTheAnswerIsThereAtOnce) {
  const Client asker = connect();
  ask(asker, "");
  EXPECT_EQ(told(asker), All(0, true));
}

TEST_F(StatusQuestionsTest, OneQuestionOfAnAskerAtATime) {
  const Client asker = connect();
  const Client context = connect_context();
  ask(asker, "");
  ask(asker, "", 2);
  EXPECT_EQ(refusal(asker, 2), EBUSY);
  report(context, 1);
  EXPECT_EQ(told(asker), All(1, true));
  ask(asker, "", 3);
  report(context, 1);
  EXPECT_EQ(told(asker), All(1, true));
}

TEST_F(StatusQuestionsTest, AStoppedContextDelaysTheAnswerByTheDeadline) {
  const Client asker = connect();
  const Client stopped = connect_context();
  const Client quick = connect_context();
  ask(asker, "");
  report(quick, 1);
  reactor_.advance(StatusQuestions::kDeadlineNs - 1);
  EXPECT_EQ(told(asker), All(0, false));
  reactor_.advance(1);
  EXPECT_EQ(told(asker), All(1, true));
  report(stopped, 1);  // too late
  EXPECT_TRUE(hears_nothing(asker));
}

TEST_F(StatusQuestionsTest, AContextWithManyQueuePairsIsAskedPageByPage) {
  const Client asker = connect();
  const Client context = connect_context();
  ask(asker, "");
  report(context, StatusReport::kFirst, 0, false);
  report(context, StatusReport::kMostInOne, StatusReport::kFirst, false);
  report(context, 5, StatusReport::kFirst + StatusReport::kMostInOne);
  EXPECT_EQ(told(asker), All(StatusReport::kFirst + StatusReport::kMostInOne + 5, true));
}

TEST_F(StatusQuestionsTest, AContextThatFallsSilentInTheMiddleIsLeft) {
  const Client asker = connect();
  const Client context = connect_context();
  ask(asker, "");
  report(context, StatusReport::kFirst, 0, false);
  EXPECT_EQ(told(asker), All(StatusReport::kFirst, false));
  reactor_.advance(StatusQuestions::kDeadlineNs);
  EXPECT_EQ(told(asker), All(0, true));
}

TEST_F(StatusQuestionsTest, NobodyWaitsForAContextThatHasGone) {
  const Client asker = connect();
  const Client first = connect_context();
  const Client second = connect_context();
  ask(asker, "");
  disconnect(first);
  report(second, StatusReport::kFirst, 0, false);
  EXPECT_EQ(told(asker), All(StatusReport::kFirst, false));
  disconnect(second);
  EXPECT_EQ(told(asker), All(0, true));
  EXPECT_EQ(reactor_.timers(), 0u);
}

TEST_F(StatusQuestionsTest, TheRoundEndsWhenTheLastWhoIsAwaitedGoes) {
  const Client asker = connect();
  const Client context = connect_context();
  ask(asker, "");
  disconnect(context);
  EXPECT_EQ(told(asker), All(0, true));
}

TEST_F(StatusQuestionsTest, AnAskerThatGoesLeavesNothing) {
  const Client asker = connect();
  const Client context = connect_context();
  ask(asker, "");
  disconnect(asker);
  EXPECT_EQ(reactor_.timers(), 0u);
  report(context, 1);
}

}  // namespace
}  // namespace verbena::daemon
