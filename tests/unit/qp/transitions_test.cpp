// SPDX-License-Identifier: BSD-2-Clause
// Every cell of the table of transitions, compared with a second table, which was written row by
// row from ibv_modify_qp(3) and IBTA Vol 1, 11.2.5.2, in the names that programs use.
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <sstream>
#include <tuple>
#include <vector>

#include "transition_fixture.hpp"

namespace verbena::qp {
namespace {

using namespace testing;  // the shared names of these tests
using ::testing::HasSubstr;

const std::map<std::string, std::uint32_t> kBits{
    {"CUR_STATE", kMaskCurrentState},
    {"EN_SQD_ASYNC_NOTIFY", kMaskSqdNotify},
    {"ACCESS_FLAGS", kMaskAccessFlags},
    {"PKEY_INDEX", kMaskPkeyIndex},
    {"PORT", kMaskPort},
    {"QKEY", kMaskQkey},
    {"AV", kMaskPath},
    {"PATH_MTU", kMaskPathMtu},
    {"TIMEOUT", kMaskTimeout},
    {"RETRY_CNT", kMaskRetryCount},
    {"RNR_RETRY", kMaskRnrRetry},
    {"RQ_PSN", kMaskRqPsn},
    {"MAX_QP_RD_ATOMIC", kMaskMaxRdAtomic},
    {"ALT_PATH", kMaskAlternatePath},
    {"MIN_RNR_TIMER", kMaskMinRnrTimer},
    {"SQ_PSN", kMaskSqPsn},
    {"MAX_DEST_RD_ATOMIC", kMaskMaxDestRdAtomic},
    {"PATH_MIG_STATE", kMaskPathMigration},
    {"CAP", kMaskCapabilities},
    {"DEST_QPN", kMaskDestQpn},
    {"RATE_LIMIT", kMaskRateLimit},
};

struct Row {
  State from;
  State to;
  const char* required;
  const char* optional;
};

using enum State;

const std::map<Transport, std::vector<Row>> kRows{
    {Transport::kRc,
     {{kReset, kInit, "PKEY_INDEX PORT ACCESS_FLAGS", ""},
      {kInit, kInit, "", "PKEY_INDEX PORT ACCESS_FLAGS"},
      {kInit, kRtr, "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
       "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
      {kRtr, kRts, "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC",
       "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE RATE_LIMIT"},
      {kRts, kRts, "", "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER RATE_LIMIT"},
      {kRts, kSqd, "", "EN_SQD_ASYNC_NOTIFY"},
      {kSqd, kSqd, "",
       "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH "
       "ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE"},
      {kSqd, kRts, "", "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"}}},
    {Transport::kUc,
     {{kReset, kInit, "PKEY_INDEX PORT ACCESS_FLAGS", ""},
      {kInit, kInit, "", "PKEY_INDEX PORT ACCESS_FLAGS"},
      {kInit, kRtr, "AV PATH_MTU DEST_QPN RQ_PSN", "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
      {kRtr, kRts, "SQ_PSN", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE RATE_LIMIT"},
      {kRts, kRts, "", "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE RATE_LIMIT"},
      {kRts, kSqd, "", "EN_SQD_ASYNC_NOTIFY"},
      {kSqd, kSqd, "", "AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE"},
      {kSqd, kRts, "", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"},
      {kSqe, kRts, "", "CUR_STATE ACCESS_FLAGS"}}},
    {Transport::kUd,
     {{kReset, kInit, "PKEY_INDEX PORT QKEY", ""},
      {kInit, kInit, "", "PKEY_INDEX PORT QKEY"},
      {kInit, kRtr, "", "PKEY_INDEX QKEY"},
      {kRtr, kRts, "SQ_PSN", "CUR_STATE QKEY"},
      {kRts, kRts, "", "CUR_STATE QKEY"},
      {kRts, kSqd, "", "EN_SQD_ASYNC_NOTIFY"},
      {kSqd, kSqd, "", "PKEY_INDEX QKEY"},
      {kSqd, kRts, "", "CUR_STATE QKEY"},
      {kSqe, kRts, "", "CUR_STATE QKEY"}}},
    {Transport::kXrcSend,
     {{kReset, kInit, "PKEY_INDEX PORT ACCESS_FLAGS", ""},
      {kInit, kInit, "", "PKEY_INDEX PORT ACCESS_FLAGS"},
      {kInit, kRtr, "AV PATH_MTU DEST_QPN RQ_PSN", "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
      {kRtr, kRts, "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC",
       "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE RATE_LIMIT"},
      {kRts, kRts, "", "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE RATE_LIMIT"},
      {kRts, kSqd, "", "EN_SQD_ASYNC_NOTIFY"},
      {kSqd, kSqd, "",
       "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX "
       "PATH_MIG_STATE"},
      {kSqd, kRts, "", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"}}},
    {Transport::kXrcReceive,
     {{kReset, kInit, "PKEY_INDEX PORT ACCESS_FLAGS", ""},
      {kInit, kInit, "", "PKEY_INDEX PORT ACCESS_FLAGS"},
      {kInit, kRtr, "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
       "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
      {kRtr, kRts, "TIMEOUT SQ_PSN",
       "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"},
      {kRts, kRts, "", "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER"},
      {kRts, kSqd, "", "EN_SQD_ASYNC_NOTIFY"},
      {kSqd, kSqd, "",
       "PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER "
       "PATH_MIG_STATE"},
      {kSqd, kRts, "", "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"}}},
};

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::uint32_t mask_of(const std::vector<std::string>& names) {
  std::uint32_t mask = 0;
  for (const std::string& name : names) mask |= kBits.at(name);
  return mask;
}

const Row* find_row(Transport transport, State from, State to) {
  static const Row kAnywhere{kReset, kReset, "", ""};
  if (to == kReset || (to == kError && from != kReset)) return &kAnywhere;
  for (const Row& row : kRows.at(transport)) {
    if (row.from == from && row.to == to) return &row;
  }
  return nullptr;
}

using Cell = std::tuple<Transport, State, State>;

class EveryCell : public ::testing::TestWithParam<Cell> {
 protected:
  std::string modify(std::uint32_t mask) {
    return attempt(transport_, from_, good_attributes(from_, to_), mask);
  }
  std::string arrow() const { return std::string(to_string(from_)) + "->" + to_string(to_); }

  Transport transport_ = std::get<0>(GetParam());
  State from_ = std::get<1>(GetParam());
  State to_ = std::get<2>(GetParam());
  const Row* row_ = find_row(transport_, from_, to_);
};

TEST_P(EveryCell, TakesWhatItNeedsAndMayTakeAndNothingElse) {
  if (row_ == nullptr) {
    // The transition is illegal with every single attribute.
    EXPECT_THAT(modify(kMaskState), HasSubstr(arrow()));
    for (const auto& [name, bit] : kBits) {
      EXPECT_THAT(modify(kMaskState | bit), HasSubstr("is not a transition")) << name;
    }
    return;
  }
  const auto required = words(row_->required);
  const auto optional = words(row_->optional);
  const std::uint32_t needs = kMaskState | mask_of(required);
  EXPECT_EQ(modify(needs), "");
  EXPECT_EQ(modify(needs | mask_of(optional)), "");
  for (const std::string& name : required) {
    const std::string reason = modify(needs & ~kBits.at(name));
    EXPECT_THAT(reason, HasSubstr(arrow()));
    EXPECT_THAT(reason, HasSubstr("; attr_mask lacks IBV_QP_" + name));
  }
  for (const std::string& name : optional) EXPECT_EQ(modify(needs | kBits.at(name)), "") << name;
  for (const auto& [name, bit] : kBits) {
    if (((needs | mask_of(optional)) & bit) != 0) continue;
    const std::string reason = modify(needs | bit);
    EXPECT_THAT(reason, HasSubstr(arrow()));
    EXPECT_THAT(reason, HasSubstr(" does not take IBV_QP_" + name + ";"));
  }
}

std::string cell_name(const ::testing::TestParamInfo<Cell>& info) {
  static constexpr const char* kNames[] = {"Rc", "Uc", "Ud", "XrcSend", "XrcReceive"};
  return std::string(kNames[static_cast<std::size_t>(std::get<0>(info.param))]) + "_" +
         to_string(std::get<1>(info.param)) + "_to_" + to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Table, EveryCell,
                         ::testing::Combine(::testing::ValuesIn(kAllTransports),
                                            ::testing::ValuesIn(kAllStates),
                                            ::testing::ValuesIn(kAllStates)),
                         cell_name);

TEST(Transitions, WithoutTheStateBitOnlyAttributesChange) {
  for (Transport t : kAllTransports) {
    const std::uint32_t init_bit = t == Transport::kUd ? kMaskQkey : kMaskAccessFlags;
    // qp_state holds garbage, which is ignored without its bit.
    const auto modify = [t](State in, std::uint32_t mask) {
      return attempt(t, in, good_attributes(in, static_cast<State>(200)), mask);
    };
    EXPECT_EQ(modify(kInit, init_bit), "");
    EXPECT_EQ(modify(kRts, init_bit), "");
    EXPECT_EQ(modify(kSqd, init_bit), "");
    EXPECT_EQ(modify(kRts, 0), "");
    for (State in : {kRtr, kSqe}) {
      EXPECT_THAT(modify(in, init_bit), HasSubstr("without IBV_QP_STATE")) << to_string(in);
    }
    for (State in : {kReset, kError}) {
      EXPECT_THAT(modify(in, init_bit), HasSubstr("does not take")) << to_string(in);
    }
  }
}

TEST(Transitions, ExplanationsNameWhatTheProgrammerWrote) {
  const auto modify = [](Transport t, State from, State to, std::uint32_t mask) {
    return attempt(t, from, good_attributes(from, to), mask);
  };
  EXPECT_EQ(modify(Transport::kRc, kInit, kRtr,
                   kMaskState | kMaskPath | kMaskPathMtu | kMaskMaxDestRdAtomic | kMaskMinRnrTimer),
            "ibv_modify_qp INIT->RTR of an RC queue pair needs IBV_QP_AV | IBV_QP_PATH_MTU | "
            "IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN; "
            "attr_mask lacks IBV_QP_RQ_PSN | IBV_QP_DEST_QPN");
  EXPECT_EQ(modify(Transport::kRc, kReset, kRtr, kMaskState),
            "ibv_modify_qp RESET->RTR of an RC queue pair is not a transition: from RESET it may "
            "go to RESET or INIT");
  EXPECT_EQ(modify(Transport::kUc, kRtr, kRts, kMaskState | kMaskSqPsn | kMaskTimeout),
            "ibv_modify_qp RTR->RTS of a UC queue pair does not take IBV_QP_TIMEOUT; it takes "
            "IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_SQ_PSN | "
            "IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT, and a UC queue pair has no use for "
            "IBV_QP_TIMEOUT");
  EXPECT_THAT(modify(Transport::kRc, kRtr, kReset, kMaskState | kMaskSqPsn),
              HasSubstr("it takes only IBV_QP_STATE, and IBV_QP_SQ_PSN is taken by RTR->RTS"));
  EXPECT_THAT(modify(Transport::kUd, kRts, kRts, kMaskCapabilities),
              HasSubstr("queues keep the size they were created with"));
  EXPECT_THAT(modify(Transport::kXrcSend, kError, kRts, kMaskState), HasSubstr("XRC_SEND"));
  EXPECT_THAT(modify(Transport::kXrcReceive, kError, kRts, kMaskState), HasSubstr("XRC_RECV"));
}

TEST(Transitions, UnknownBitsAndStatesAreNamed) {
  for (unsigned bit : {21u, 22u, 23u, 24u, 26u, 31u}) {
    std::ostringstream number;
    number << "0x" << std::hex << (1u << bit);
    EXPECT_THAT(attempt(Transport::kRc, kRts, good_attributes(kRts, kRts), 1u << bit),
                HasSubstr(number.str()));
  }
  for (unsigned state : {7u, 8u, 255u}) {
    const Attributes wanted = good_attributes(kInit, static_cast<State>(state));
    EXPECT_THAT(attempt(Transport::kRc, kInit, wanted, kMaskState),
                HasSubstr("qp_state is " + std::to_string(state) + ";"));
  }
}

TEST(Transitions, CurStateMustBeTrue) {
  Attributes wanted = good_attributes(kSqe, kRts);
  EXPECT_THAT(attempt(Transport::kUd, kRts, wanted, kMaskState | kMaskCurrentState),
              HasSubstr("IBV_QP_CUR_STATE says cur_qp_state SQE, but the queue pair is in RTS"));
  wanted.current_state = static_cast<State>(99);
  EXPECT_THAT(attempt(Transport::kUd, kRts, wanted, kMaskState | kMaskCurrentState),
              HasSubstr("UNKNOWN"));
  EXPECT_EQ(attempt(Transport::kUd, kRts, wanted, kMaskState), "");
}

}  // namespace
}  // namespace verbena::qp
