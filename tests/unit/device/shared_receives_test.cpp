// SPDX-License-Identifier: BSD-2-Clause
// SRQs, which are found by number.
#include "verbena/device/shared_receives.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "../queue/recording_sink.hpp"
#include "verbena/base/types.hpp"

namespace verbena::device {
namespace {

class SharedReceivesTest : public ::testing::Test {
 protected:
  std::unique_ptr<queue::SharedReceive> make(std::uint32_t domain) {
    auto shared = std::make_unique<queue::SharedReceive>(queue::ReceiveQueue::Options{}, sink_);
    shared->xrc_domain = domain;
    return shared;
  }

  queue::testing::RecordingSink sink_;
  UnpredictableRandom random_{1};
  SharedReceives shared_;
};

TEST_F(SharedReceivesTest, EachIsFoundByItsNumberInItsDomain) {
  shared_.add_slot(3, random_);
  const auto a = make(7);
  const auto b = make(8);
  ASSERT_TRUE(shared_.add(*a));
  ASSERT_TRUE(shared_.add(*b));
  EXPECT_NE(a->number, b->number);
  EXPECT_EQ(Qpn(a->number).slot(), 3u);
  EXPECT_EQ(shared_.find(a->number, 7), a.get());
  EXPECT_EQ(shared_.find(b->number, 8), b.get());
  EXPECT_EQ(shared_.find(a->number, 8), nullptr) << "of another domain";
  shared_.remove(*a);
  EXPECT_EQ(shared_.find(a->number, 7), nullptr);
}

TEST_F(SharedReceivesTest, NumbersOfItsSlotsAreItsOwn) {
  shared_.add_slot(3, random_);
  shared_.add_slot(5, random_);
  EXPECT_TRUE(shared_.is_own(Qpn::from(3, 9).value()));
  EXPECT_TRUE(shared_.is_own(Qpn::from(5, 0).value()));
  EXPECT_FALSE(shared_.is_own(Qpn::from(4, 9).value()));
}

TEST_F(SharedReceivesTest, AFullSlotTakesNoMoreUntilThereIsAnother) {
  shared_.add_slot(0, random_);
  std::vector<std::unique_ptr<queue::SharedReceive>> all;
  for (std::uint32_t i = 0; i < NumberPool::kNumbers - 1; ++i) {
    ASSERT_TRUE(shared_.add(*all.emplace_back(make(1)))) << i;
    ASSERT_NE(all.back()->number, 0u) << "0 is none";
  }
  const auto late = make(1);
  EXPECT_FALSE(shared_.add(*late));
  shared_.remove(*late);  // has no number, and takes none from others
  EXPECT_FALSE(shared_.add(*late));
  shared_.remove(*all[5]);
  EXPECT_TRUE(shared_.add(*late));
  shared_.add_slot(1, random_);
  EXPECT_TRUE(shared_.add(*all[5]));
  EXPECT_EQ(Qpn(all[5]->number).slot(), 1u);
}

}  // namespace
}  // namespace verbena::device
