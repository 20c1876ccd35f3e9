// SPDX-License-Identifier: BSD-2-Clause
// Tests which contexts are waited for, for how long, and which are named as silent.
#include "outstanding_orders.hpp"

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

class OutstandingOrdersTest : public ClientsTest {
 protected:
  // Begins to wait until these contexts have answered an order.
  void begin(std::uint32_t ticket, const Client& asker, std::set<Session::Id> awaited,
             bool is_of_faults = false) {
    orders_.begin(ticket, {asker.id, std::move(awaited),
                           [this, ticket](Session&, control::SilentProcesses silent) {
                             ended_[ticket] = std::move(silent);
                           },
                           is_of_faults});
  }
  void disconnect(const Client& client) {
    ClientsTest::disconnect(client);
    orders_.on_client_gone(client.id);
  }

  OutstandingOrders orders_{clients_, reactor_};
  std::map<std::uint32_t, control::SilentProcesses> ended_;
};

TEST_F(OutstandingOrdersTest, EndsWhenAllHaveFollowed) {
  const Client asker = connect();
  const Client first = connect_context();
  const Client second = connect_context();
  begin(1, asker, {first.id, second.id});
  EXPECT_TRUE(orders_.has_one_of(asker.id));
  orders_.on_followed(*first.session, 1);
  orders_.on_followed(*first.session, 1);
  orders_.on_followed(*second.session, 2);
  EXPECT_TRUE(ended_.empty());
  orders_.on_followed(*second.session, 1);
  EXPECT_EQ(ended_.at(1).count, 0u);
  EXPECT_FALSE(orders_.has_one_of(asker.id));
  EXPECT_EQ(reactor_.timers(), 0u);
}

TEST_F(OutstandingOrdersTest, WithNobodyToTellEndsAtOnce) {
  const Client asker = connect();
  begin(1, asker, {});
  reactor_.advance(0);
  EXPECT_EQ(ended_.at(1).count, 0u);
}

TEST_F(OutstandingOrdersTest, WhoIsSilentIsNamedOnceForEachProcess) {
  const Client asker = connect();
  const Client quick = connect_context("a", 1);
  const Client stopped = connect_context("a", 2);
  const Client its_other = connect_context("b", 2);
  begin(1, asker, {quick.id, stopped.id, its_other.id});
  orders_.on_followed(*quick.session, 1);
  reactor_.advance(OutstandingOrders::kDeadlineNs - 1);
  EXPECT_TRUE(ended_.empty());
  reactor_.advance(1);
  const control::SilentProcesses expected{1, {{2, "tulip"}}};
  EXPECT_EQ(ended_.at(1), expected);
}

TEST_F(OutstandingOrdersTest, NobodyWaitsAgainForTheSilentUntilTheySaySomething) {
  const Client asker = connect();
  const Client stopped = connect_context();
  begin(1, asker, {stopped.id});
  reactor_.advance(OutstandingOrders::kDeadlineNs);
  begin(2, asker, {stopped.id});
  reactor_.advance(0);
  EXPECT_EQ(ended_.at(2).count, 1u);
  orders_.on_followed(*stopped.session, 1);
  begin(3, asker, {stopped.id});
  reactor_.advance(OutstandingOrders::kDeadlineNs - 1);
  EXPECT_FALSE(ended_.contains(3));
}

TEST_F(OutstandingOrdersTest, FaultsInForceAnswerForAllOrdersOfFaultsBefore) {
  const Client asker = connect();
  const Client context = connect_context();
  begin(1, asker, {context.id}, true);
  begin(2, asker, {context.id});
  begin(3, asker, {context.id}, true);
  begin(4, asker, {context.id}, true);
  orders_.on_faults_in_force(*context.session, 3);
  EXPECT_TRUE(ended_.contains(1));
  EXPECT_FALSE(ended_.contains(2));
  EXPECT_TRUE(ended_.contains(3));
  EXPECT_FALSE(ended_.contains(4));
}

TEST_F(OutstandingOrdersTest, WhoGoesIsNeitherWaitedForNorTold) {
  const Client asker = connect();
  const Client context = connect_context();
  const Client other = connect_context();
  begin(1, asker, {context.id});
  disconnect(context);
  EXPECT_EQ(ended_.at(1).count, 0u);
  begin(2, asker, {other.id});
  disconnect(asker);
  reactor_.advance(OutstandingOrders::kDeadlineNs);
  EXPECT_FALSE(ended_.contains(2));
}

}  // namespace
}  // namespace verbena::daemon
