// SPDX-License-Identifier: BSD-2-Clause
// What contexts are told of a change of faults, and when its asker learns that it is in force.
#include "fault_changes.hpp"

#include "client_fixture.hpp"

namespace verbena::daemon {
namespace {

using control::ChangeFault;
using control::FaultChanged;
using control::SetFault;

class FaultChangesTest : public ClientsTest {
 protected:
  void SetUp() override {
    ClientsTest::SetUp();
    faults_.emplace(*fabric_, clients_, reactor_, journal_, orders_, [this] { ++changes_; });
  }
  static ChangeFault loss_at(const std::string& device) {
    ChangeFault change;
    change.device = device;
    change.named = control::kFaultLoss;
    change.values.loss_ppm = 500'000;
    return change;
  }
  void ask(const Client& asker, const ChangeFault& change, std::uint32_t sequence = 1) {
    faults_->on_request(*asker.session, incoming(change, sequence));
  }
  void say_in_force(const Client& context, std::uint32_t ticket) {
    faults_->on_in_force(*context.session, incoming(control::FaultsInForce{ticket}));
  }

  EventJournal journal_{clients_, reactor_};
  OutstandingOrders orders_{clients_, reactor_};
  int changes_ = 0;
  std::optional<FaultChanges> faults_;
};

TEST_F(FaultChangesTest, TheAskerIsAnsweredWhenAllHaveTheChangeInForce) {
  const Client asker = connect();
  const Client in_a = connect_context("a");
  const Client in_b = connect_context("b");
  ask(asker, loss_at("a"));
  EXPECT_EQ(changes_, 1);
  const SetFault at_a = heard<SetFault>(in_a).first;
  const SetFault at_b = heard<SetFault>(in_b).first;
  EXPECT_EQ(at_a.ticket, at_b.ticket);
  EXPECT_FALSE(at_a.faults.empty());
  EXPECT_TRUE(at_b.faults.empty());
  say_in_force(in_a, at_a.ticket);
  EXPECT_TRUE(hears_nothing(asker));
  say_in_force(in_b, at_b.ticket);
  const auto [changed, sequence] = heard<FaultChanged>(asker);
  EXPECT_EQ(sequence, 1u);
  EXPECT_TRUE(changed.has_seed);
  EXPECT_EQ(changed.silent.count, 0u);
}

TEST_F(FaultChangesTest, ASeedForSomeFaultsLeavesTheRules) {
  const Client asker = connect();
  ChangeFault both;
  both.cm = true;
  both.named = control::kFaultLoss | control::kFaultSeed;
  both.values.loss_ppm = 1;
  both.seed = 7;
  both.rules = {"drop percent=10"};
  ask(asker, both);
  const auto seed_of_rule = [this] { return fabric_->rules().all().front().spec.seed; };
  ChangeFault change;
  change.named = control::kFaultSeed;
  change.seed = 8;
  ask(asker, change);  // --data
  change.data = false;
  change.cm = true;
  ask(asker, change);  // --cm
  change.data = true;
  change.device = "a";
  ask(asker, change);  // --device
  EXPECT_EQ(seed_of_rule(), 7u);
  EXPECT_EQ(fabric_->find("a")->faults().in_force().front().seed, 8u);
  change.device = "";
  change.seed = 9;
  ask(asker, change);
  EXPECT_EQ(seed_of_rule(), 9u);
  EXPECT_EQ(fabric_->find("b")->faults().in_force().front().seed, 9u);
}

TEST_F(FaultChangesTest, ADelayThatNoClockCountsIsRefused) {
  const Client asker = connect();
  ChangeFault change;
  change.cm = true;
  change.named = control::kFaultJitter;
  change.values.jitter_ns = ~std::uint64_t{0};
  ask(asker, change, 7);
  EXPECT_EQ(refusal(asker, 7), EINVAL);
  EXPECT_EQ(changes_, 0);
}

TEST_F(FaultChangesTest, WhoIsSilentIsNamed) {
  const Client asker = connect();
  const Client stopped = connect_context("a", 12);
  ask(asker, loss_at("a"));
  reactor_.advance(OutstandingOrders::kDeadlineNs);
  EXPECT_EQ(heard<FaultChanged>(asker).first.silent.named.at(0).pid, 12u);
}

TEST_F(FaultChangesTest, WhatCannotBeIsRefusedAndNobodyIsTold) {
  const Client asker = connect();
  const Client context = connect_context("a");
  ask(asker, loss_at("nobody"), 1);
  EXPECT_EQ(refusal(asker, 1), ENODEV);
  ChangeFault change;
  change.rules = {"drop device=nobody"};
  ask(asker, change, 2);
  EXPECT_EQ(refusal(asker, 2), ENODEV);
  change.rules = {"nonsense"};
  ask(asker, change, 3);
  EXPECT_EQ(refusal(asker, 3), EINVAL);
  EXPECT_TRUE(hears_nothing(context));
  EXPECT_EQ(changes_, 0);
}

TEST_F(FaultChangesTest, TheFaultOfAQueuePairEndsWithIt) {
  const Client asker = connect();
  const Client context = connect_context("a");
  const Client other = connect_context("a");
  ChangeFault change = loss_at("a");
  change.qpn = Qpn::from(context.session->context->slot, 7).value();
  fabric::FaultTable& table = fabric_->find("a")->faults();
  ASSERT_TRUE(table.change(change, 1).ok());
  const auto say_gone = [this](const Client& who, std::uint32_t qpn) {
    faults_->on_queue_pair_gone(*who.session, incoming(control::QueuePairGone{qpn}));
  };
  say_gone(other, change.qpn);
  say_gone(asker, change.qpn);
  say_gone(context, change.qpn + 1);
  EXPECT_TRUE(hears_nothing(context));
  ASSERT_EQ(table.in_force().size(), 1u);
  say_gone(context, change.qpn);
  EXPECT_TRUE(heard<SetFault>(context).first.faults.empty());
  EXPECT_TRUE(heard<SetFault>(other).first.faults.empty());
  ASSERT_EQ(table.all().size(), 1u) << "it is shown on";
  EXPECT_TRUE(table.all()[0].ended);
}

TEST_F(FaultChangesTest, OneDeviceWithoutRoomRefusesTheChangeForAll) {
  const Client asker = connect();
  const Client context = connect_context("a");
  ChangeFault of_one = loss_at("b");
  for (std::uint32_t i = 0; i < control::kFaultsMost; ++i) {
    of_one.qpn = Qpn::from(3, i + 1).value();
    ASSERT_TRUE(fabric_->find("b")->faults().change(of_one, 1).ok());
  }
  ChangeFault change = loss_at("");
  change.rules = {"drop percent=10"};
  ask(asker, change, 7);
  EXPECT_EQ(refusal(asker, 7), ENOSPC);
  EXPECT_TRUE(fabric_->find("a")->faults().all().empty());
  EXPECT_EQ(fabric_->find("b")->faults().all().size(), control::kFaultsMost);
  EXPECT_TRUE(fabric_->rules().all().empty());
  EXPECT_TRUE(hears_nothing(context));
  EXPECT_EQ(changes_, 0);
}

TEST_F(FaultChangesTest, OfOneQueuePairItsDeviceIsChangedIfThereIsSuchAQueuePair) {
  const Client asker = connect();
  const Client context = connect_context("b");
  ChangeFault change = loss_at("");
  change.qpn = Qpn::from(context.session->context->slot, 1).value();
  ask(asker, change);
  const std::uint32_t ticket = heard<control::FindQueuePair>(context).first.ticket;
  EXPECT_EQ(changes_, 0);
  faults_->on_queue_pair_found(*context.session, incoming(control::QueuePairFound{ticket, true}));
  EXPECT_EQ(changes_, 1);
  EXPECT_FALSE(fabric_->find("b")->faults().in_force().empty());
  EXPECT_TRUE(fabric_->find("a")->faults().in_force().empty());
  // A fault may be removed for a queue pair that no longer exists.
  change.clear = true;
  ask(asker, change, 2);
  EXPECT_TRUE(fabric_->find("b")->faults().in_force().empty());
}

}  // namespace
}  // namespace verbena::daemon
