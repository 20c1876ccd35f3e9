// SPDX-License-Identifier: BSD-2-Clause
// Tests which contexts are asked about their state, and what the asker is told of those that
// answer, stay silent or go.
#include "status_questions.hpp"

#include "client_fixture.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::daemon {
namespace {

using control::ResourcesOf;
using control::StatusReport;
using control::StatusRequest;

// Has `count` rdma_cm IDs. A third is at device "a", a third at "b". The others are at no device,
// and every second one of these listens on all devices.
class CmIds final : public fabric::Extension {
 public:
  explicit CmIds(std::uint32_t count) : count_(count) {}
  bool takes(control::MessageType) const override { return false; }
  void on_client_message(fabric::ClientId, control::Incoming) override {}
  void on_client_closed(fabric::ClientId) override {}
  std::vector<fabric::CmIdStatus> cm_ids_behind(std::uint32_t number, std::size_t most) override {
    std::vector<fabric::CmIdStatus> page;
    for (std::uint32_t i = number + 1; i <= count_ && page.size() < most; ++i) {
      fabric::CmIdStatus& id = page.emplace_back();
      id.number = id.resource.number = i;
      id.owner = owner;
      id.device = i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "";
      id.listens_everywhere = i % 3 == 2 && i % 2 == 0;
    }
    return page;
  }
  fabric::ClientId owner = 0;

 private:
  std::uint32_t count_;
};

class StatusQuestionsTest : public ClientsTest {
 protected:
  void ask(const Client& asker, const std::string& device, std::uint32_t sequence = 1,
           ResourcesOf of = ResourcesOf::kQueuePairs) {
    status_->on_query_resources(
        *asker.session, incoming(control::QueryResources{device, of}, sequence), extension_);
    reactor_.run();
  }
  // A context answers its next question with `count` queue pairs. The question must ask for those
  // that follow number `after`.
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
  // Returns how many queue pairs the asker was told of since the last call, and if that was all.
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
  // Returns all that the asker is told. The objects of contexts come in parts.
  control::Resources told_in_full(const Client& asker) {
    control::Resources all;
    for (bool is_last = false; !is_last;) {
      reactor_.run();
      const auto in = control::receive_packet(asker.fd.get(), MSG_DONTWAIT);
      if (!in) {
        ADD_FAILURE() << "there is more to come";
        return all;
      }
      auto part = control::decode<control::Resources>(in->payload);
      for (auto& context : part->contexts) all.contexts.push_back(std::move(context));
      for (auto& id : part->cm_ids) all.cm_ids.push_back(std::move(id));
      all.cm_id_count += part->cm_id_count;
      is_last = part->last;
    }
    return all;
  }
  // A context answers its next question with this report.
  void report(const Client& context, const StatusReport& report) {
    const auto [request, sequence] = heard<StatusRequest>(context);
    status_->on_report(*context.session, incoming(report, sequence));
    reactor_.run();
  }

  void SetUp() override {
    ClientsTest::SetUp();
    status_.emplace(*fabric_, clients_, reactor_);
  }

  std::optional<StatusQuestions> status_;
  fabric::Extension* extension_ = nullptr;
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
  report(stopped, 1);  // this comes too late
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

TEST_F(StatusQuestionsTest, WhoCountsIsToldOfNoObjects) {
  CmIds ids(2000);
  extension_ = &ids;
  const Client asker = connect();
  const Client context = connect_context("a");
  ask(asker, "a", 1, ResourcesOf::kCounts);
  report(context, StatusReport::kFirst, 0, false);
  const control::Resources told = told_in_full(asker);
  EXPECT_EQ(told.cm_id_count, 666u + 334u) << "of the device, and of no device";
  EXPECT_TRUE(told.cm_ids.empty());
  ASSERT_EQ(told.contexts.size(), 1u);
  EXPECT_EQ(told.contexts[0].counts.qps, 1000u);
  EXPECT_TRUE(told.contexts[0].qps.empty());
  EXPECT_NE(told.contexts[0].slot, 0u);
  EXPECT_TRUE(hears_nothing(context)) << "one answer has all counts";
}

TEST_F(StatusQuestionsTest, AStoppedProgramIsOneContextWhateverEnginesItHas) {
  const Client asker = connect();
  const Client first = connect_context("a");
  const Client further = connect_context("a");
  further.session->is_further_engine = true;
  ask(asker, "a", 1, ResourcesOf::kCounts);
  reactor_.advance(StatusQuestions::kDeadlineNs);
  std::uint32_t contexts = 0;
  for (const auto& part : told_in_full(asker).contexts) contexts += part.counts.contexts;
  EXPECT_EQ(contexts, 1u);
}

TEST_F(StatusQuestionsTest, AContextIsAskedForTheObjectsOfOneKind) {
  const Client asker = connect();
  const Client context = connect_context("a");
  StatusReport all;
  all.counts = {1, 2, 1, 0, 1};
  all.qps.objects.emplace_back().qpn = 0x4001;
  all.cqs.objects.resize(2);
  all.srqs.objects.emplace_back().number = 1;
  for (const ResourcesOf of :
       {ResourcesOf::kQueuePairs, ResourcesOf::kCompletionQueues, ResourcesOf::kSharedReceives}) {
    ask(asker, "a", 1, of);
    report(context, all);
    std::size_t qps = 0, cqs = 0, srqs = 0, contexts = 0;
    for (const control::ContextResources& part : told_in_full(asker).contexts) {
      qps += part.qps.size();
      cqs += part.cqs.size();
      srqs += part.srqs.size();
      contexts += part.counts.contexts;
    }
    EXPECT_EQ(contexts, 1u) << "counted once";
    EXPECT_EQ(qps, of == ResourcesOf::kCompletionQueues ? 0u : 1u);
    EXPECT_EQ(cqs, of == ResourcesOf::kCompletionQueues ? 2u : 0u);
    EXPECT_EQ(srqs, of == ResourcesOf::kSharedReceives ? 1u : 0u);
  }
}

TEST_F(StatusQuestionsTest, RdmaCmIdsAreThoseOfTheDeviceAndOfListenersOnAll) {
  CmIds ids(2000);
  extension_ = &ids;
  const Client asker = connect();
  const Client context = connect_context("a");
  ids.owner = context.id;
  ask(asker, "b", 1, ResourcesOf::kCmIds);
  const control::Resources told = told_in_full(asker);
  EXPECT_TRUE(hears_nothing(context)) << "the emulator knows them itself";
  EXPECT_TRUE(told.contexts.empty());
  EXPECT_EQ(told.cm_id_count, 667u + 334u);
  ASSERT_EQ(told.cm_ids.size(), 1001u);
  for (const control::CmIdResource& id : told.cm_ids) {
    EXPECT_EQ(id.device, id.number % 3 == 1 ? "b" : "");
    EXPECT_EQ(id.pid, context.session->info.pid);
  }
}

TEST_F(StatusQuestionsTest, NoMoreRdmaCmIdsAreToldThanHaveRoomButAllAreCounted) {
  CmIds ids(9000);
  extension_ = &ids;
  const Client asker = connect();
  ask(asker, "", 1, ResourcesOf::kCmIds);
  const control::Resources told = told_in_full(asker);
  EXPECT_EQ(told.cm_ids.size(), control::Resources::kMost);
  EXPECT_EQ(told.cm_id_count, 7500u);
}

TEST_F(StatusQuestionsTest, NoMoreObjectsAreToldThanHaveRoom) {
  const Client asker = connect();
  const Client context = connect_context();
  ask(asker, "");
  std::uint32_t after = 0;
  report(context, StatusReport::kFirst, after, false);
  for (after = StatusReport::kFirst; after < control::Resources::kMost;
       after += StatusReport::kMostInOne) {
    told(asker);
    report(context, StatusReport::kMostInOne, after, false);
  }
  EXPECT_TRUE(told(asker).second);
  EXPECT_TRUE(hears_nothing(context));
}

}  // namespace
}  // namespace verbena::daemon
