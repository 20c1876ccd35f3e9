// SPDX-License-Identifier: BSD-2-Clause
// Tests which contexts are asked for a queue pair, and what the asker is told when one has it, none
// has it, or none answers.
#include "queue_pair_search.hpp"

#include "client_fixture.hpp"
#include "verbena/control/fault_messages.hpp"

namespace verbena::daemon {
namespace {

class QueuePairSearchTest : public ClientsTest {
 protected:
  void begin(const Client& asker, std::uint32_t sequence, const std::string& device,
             std::uint32_t qpn) {
    search_.begin(*asker.session, sequence, device, qpn,
                  [this](Session&, const std::string& where) { found_.push_back(where); });
  }
  // Sends the answer of a context that was asked.
  void answer(const Client& context, bool has_it) {
    const auto question = heard<control::FindQueuePair>(context).first;
    search_.on_answer(*context.session, incoming(control::QueuePairFound{question.ticket, has_it}));
  }
  static std::uint32_t qpn_of(const Client& context) {
    return Qpn::from(context.session->context->slot, 1).value();
  }
  void disconnect(const Client& client) {
    ClientsTest::disconnect(client);
    search_.on_client_gone(client.id);
  }

  QueuePairSearch search_{clients_, reactor_};
  std::vector<std::string> found_;
};

TEST_F(QueuePairSearchTest, WhoeverCouldHaveItIsAsked) {
  const Client asker = connect();
  const Client in_a = connect_context("a");
  const Client in_b = connect_context("b");
  const Client other = connect_context("a");
  other.session->context->extra_slots = {77};
  begin(asker, 1, "", qpn_of(in_a));
  answer(in_a, false);
  answer(in_b, true);
  EXPECT_EQ(found_, std::vector<std::string>{"b"});
  begin(asker, 2, "a", Qpn::from(77, 5).value());
  answer(other, true);
  EXPECT_EQ(found_, (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(hears_nothing(in_b));
  EXPECT_TRUE(hears_nothing(asker));
  EXPECT_EQ(reactor_.timers(), 0u);
}

TEST_F(QueuePairSearchTest, OfTwoDevicesThatHaveItOneMustBeNamed) {
  const Client asker = connect();
  const Client in_a = connect_context("a");
  const Client in_b = connect_context("b");
  ASSERT_EQ(qpn_of(in_a), qpn_of(in_b));
  begin(asker, 1, "", qpn_of(in_a));
  answer(in_a, true);
  answer(in_b, true);
  EXPECT_EQ(refusal(asker, 1), EINVAL);
  EXPECT_TRUE(found_.empty());
  begin(asker, 2, "b", qpn_of(in_b));
  answer(in_b, true);
  EXPECT_EQ(found_, std::vector<std::string>{"b"});
  EXPECT_TRUE(hears_nothing(in_a));
}

TEST_F(QueuePairSearchTest, ASilentProgramDoesNotHideWhoHasIt) {
  const Client asker = connect();
  const Client in_a = connect_context("a");
  const Client in_b = connect_context("b");
  begin(asker, 1, "", qpn_of(in_a));
  answer(in_a, true);
  EXPECT_TRUE(found_.empty()) << "b may have one as well";
  reactor_.advance(QueuePairSearch::kDeadlineNs);
  EXPECT_EQ(found_, std::vector<std::string>{"a"});
}

TEST_F(QueuePairSearchTest, AQueuePairOfNobodyIsRefused) {
  const Client asker = connect();
  const Client context = connect_context();
  begin(asker, 1, "", Qpn::from(900, 1).value());
  EXPECT_EQ(refusal(asker, 1), ENOENT);
  begin(asker, 2, "", qpn_of(context));
  answer(context, false);
  EXPECT_EQ(refusal(asker, 2), ENOENT);
  EXPECT_TRUE(found_.empty());
}

TEST_F(QueuePairSearchTest, ASilentProgramIsNamedAsSuchAfterTheDeadline) {
  const Client asker = connect();
  const Client context = connect_context();
  begin(asker, 1, "", qpn_of(context));
  begin(asker, 2, "", qpn_of(context));
  EXPECT_EQ(refusal(asker, 2), EBUSY);
  reactor_.advance(QueuePairSearch::kDeadlineNs - 1);
  EXPECT_TRUE(hears_nothing(asker));
  reactor_.advance(1);
  EXPECT_EQ(refusal(asker, 1), ETIMEDOUT);
  answer(context, true);
  EXPECT_TRUE(found_.empty()) << "too late";
}

TEST_F(QueuePairSearchTest, AProgramThatGoesHasNoQueuePairs) {
  const Client asker = connect();
  const Client context = connect_context();
  begin(asker, 1, "", qpn_of(context));
  disconnect(context);
  EXPECT_EQ(refusal(asker, 1), ENOENT);
}

TEST_F(QueuePairSearchTest, AnAskerThatGoesIsToldNothing) {
  const Client asker = connect();
  const Client context = connect_context();
  begin(asker, 1, "", qpn_of(context));
  disconnect(asker);
  answer(context, true);
  EXPECT_TRUE(found_.empty());
}

}  // namespace
}  // namespace verbena::daemon
