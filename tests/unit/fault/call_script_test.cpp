// SPDX-License-Identifier: BSD-2-Clause
// Tests which calls of a device fail.
#include "verbena/fault/call_script.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <vector>

namespace verbena::fault {
namespace {

class CallScriptTest : public ::testing::Test {
 protected:
  void set(std::initializer_list<std::string_view> lines, std::uint64_t first_id = 1) {
    std::vector<ActiveRule> rules;
    for (const std::string_view line : lines) {
      auto rule = parse_rule(line);
      ASSERT_TRUE(rule.ok()) << rule.error();
      rules.push_back(activate(first_id++, std::move(*rule), 5, 1000));
      rules.back().counters = &counters_;
    }
    script_.set_rules(std::move(rules));
  }
  std::vector<int> errors_of(int count, std::string_view function = "ibv_post_send",
                             std::uint32_t place = 1) {
    std::vector<int> errors;
    for (int i = 0; i < count; ++i) {
      errors.push_back(script_.judge({function, place, Qpn(0x4001), now_}));
    }
    return errors;
  }

  TimeNs now_ = 1000;
  RuleCounters counters_;
  CallScript script_;
};

using Errors = std::vector<int>;

TEST_F(CallScriptTest, CountsCalls) {
  set({"fail=ENOMEM call=ibv_post_send nth=2"});
  EXPECT_EQ(errors_of(4), (Errors{0, ENOMEM, 0, 0}));
  EXPECT_EQ(counters_.matched(), 4u);
  EXPECT_EQ(counters_.fired(), 1u);
  set({"fail=EAGAIN call=ibv_post_send first=2"}, 2);
  EXPECT_EQ(errors_of(4), (Errors{EAGAIN, EAGAIN, 0, 0}));
  set({"fail=EIO call=ibv_post_send every=2"}, 3);
  EXPECT_EQ(errors_of(4), (Errors{0, EIO, 0, EIO}));
}

TEST_F(CallScriptTest, OfOneFunctionAndQueuePair) {
  set({"fail=EIO call=ibv_post_send qp=client:2", "fail=EPERM call=ibv_post_send qp=0x4002"});
  EXPECT_EQ(errors_of(1, "ibv_post_recv", 2), (Errors{0}));
  EXPECT_EQ(errors_of(1, "ibv_post_send", 1), (Errors{0}));
  EXPECT_EQ(errors_of(1, "ibv_post_send", 2), (Errors{EIO}));
  EXPECT_TRUE(script_.names("ibv_post_send"));
  EXPECT_FALSE(script_.names("ibv_post_recv"));
}

TEST_F(CallScriptTest, ForATime) {
  set({"fail=EIO call=ibv_post_send after=1us until=2us"});
  EXPECT_EQ(errors_of(1), (Errors{0}));
  now_ += 1000;
  EXPECT_EQ(errors_of(1), (Errors{EIO}));
  now_ += 1000;
  EXPECT_EQ(errors_of(1), (Errors{0}));
}

TEST_F(CallScriptTest, AShareOfThemBySeed) {
  set({"fail=EIO call=ibv_post_send percent=30"});
  const Errors once = errors_of(100);
  const auto failed = std::count(once.begin(), once.end(), EIO);
  EXPECT_GT(failed, 10);
  EXPECT_LT(failed, 60);
  script_ = {};
  set({"fail=EIO call=ibv_post_send percent=30"});
  EXPECT_EQ(errors_of(100), once);
}

TEST_F(CallScriptTest, OneThatStaysGoesOnCounting) {
  set({"fail=EIO call=ibv_post_send nth=3"});
  errors_of(2);
  set({"fail=EIO call=ibv_post_send nth=3", "fail=EPERM call=ibv_post_recv"});
  EXPECT_EQ(errors_of(2), (Errors{EIO, 0}));
  set({});
  EXPECT_EQ(errors_of(1, "ibv_post_recv"), (Errors{0}));
}

}  // namespace
}  // namespace verbena::fault
