// SPDX-License-Identifier: BSD-2-Clause
// What a rule's words mean, and which words are refused with a sentence.
#include "verbena/fault/rule.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace verbena::fault {
namespace {

Rule parsed(std::string_view line) {
  auto rule = parse_rule(line);
  EXPECT_TRUE(rule.ok()) << line << ": " << (rule.ok() ? "" : rule.error());
  return rule.ok() ? *rule : Rule{};
}

std::string refused(std::string_view line) {
  const auto rule = parse_rule(line);
  EXPECT_FALSE(rule.ok()) << line;
  return rule.ok() ? "" : rule.error();
}

TEST(Rule, HasOneTextForEachValue) {
  for (const std::string_view line : {
           "drop",
           "drop opcode=SEND nth=3 qp=server:1",
           "duplicate direction=response",
           "corrupt=icrc",
           "corrupt=payload opcode=WRITE_LAST,WRITE_ONLY first=2",
           "delay=5ms opcode=READ_RESPONSE every=10 order=keep",
           "hold=1500us msg=4",
           "reorder=3 psn=5-9",
           "nak=rnr nth=2 attempt=any qp=client:1",
           "nak=operation opcode=RC_SEND_ONLY attempt=2 qp=0x004001",
           "drop cm=REQ nth=1",
           "delay=1s direction=management device=verbena0",
           "drop percent=5 burst=4",
           "drop opcode=SEND nth=3 unit=message qp=client:1",
           "cut qp=client:1 after=10ms until=2s",
           "cut nth=3 unit=message for=50ms",
           "rate=10Mbit program=client",
           "rate=2400bit cm=REQ",
           "complete=RETRY_EXC_ERR opcode=SEND nth=3 qp=client:1",
           "kill program=client after=30ms",
           "port-down device=verbena0",
           "fail=EIO call=ibv_post_send nth=3+",
           "fail=ECONNREFUSED call=rdma_connect nth=2 program=client",
           "fail=ENOMEM call=ibv_reg_mr nth=3 program=client",
           "fail=EAGAIN call=ibv_post_send every=2 qp=client:1 percent=5 after=1s until=2s",
           "kill program=verbenad after=1s",
           "raise=qp-fatal qp=client:1 after=30ms",
           "raise=path-mig-err qp=0x004001",
           "raise=srq-err srq=server:2",
           "raise=client-reregister program=server device=verbena0",
           "drop program=ib_write_bw percent=0.0001 after=10ms until=2s",
       }) {
    EXPECT_EQ(to_string(parsed(line)), line);
  }
}

TEST(Rule, SpellingAndOrderDoNotCount) {
  for (const auto& [one, other] : {
           std::pair{"  drop\tnth=3   opcode=send ", "drop opcode=SEND nth=3"},
           std::pair{"corrupt", "corrupt=icrc"},
           std::pair{"delay=0.005s", "delay=5ms"},
           std::pair{"drop percent=10%", "drop percent=10"},
           std::pair{"drop qp=client:2 program=client", "drop qp=client:2"},
           std::pair{"drop qp=0x4001", "drop qp=16385"},
           std::pair{"drop cm=req", "drop cm=REQ"},
           std::pair{"drop psn=7-7", "drop psn=7"},
           std::pair{"drop nth=3 unit=packet", "drop nth=3"},
           std::pair{"rate=1.25MB", "rate=10Mbit"},
           std::pair{"complete=ibv_wc_fatal_err", "complete=FATAL_ERR"},
       }) {
    EXPECT_EQ(parsed(one), parsed(other)) << one;
    EXPECT_EQ(to_string(parsed(one)), to_string(parsed(other))) << one;
  }
  EXPECT_NE(parsed("drop nth=3"), parsed("drop nth=4"));
}

TEST(Rule, NamesOpcodes) {
  using wire::Opcode;
  const auto names = [](std::string_view word, Opcode opcode) {
    return parsed("drop opcode=" + std::string(word))
        .opcodes->set.test(static_cast<std::size_t>(opcode));
  };
  EXPECT_TRUE(names("SEND", Opcode::kRcSendMiddle) && names("SEND", Opcode::kUdSendOnly));
  EXPECT_FALSE(names("SEND", Opcode::kRcWriteOnly) || names("RC_SEND", Opcode::kUdSendOnly));
  EXPECT_TRUE(names("XRC_SEND", Opcode::kXrcSendOnly));
  EXPECT_FALSE(names("RC_SEND", Opcode::kXrcSendOnly));
  EXPECT_TRUE(names("READ", Opcode::kRcReadRequest));
  EXPECT_FALSE(names("READ", Opcode::kRcReadResponseOnly));
  EXPECT_TRUE(names("READ_RESPONSE_MIDDLE", Opcode::kRcReadResponseMiddle));
  EXPECT_FALSE(names("READ_RESPONSE_MIDDLE", Opcode::kRcReadResponseLast));
  EXPECT_TRUE(names("ATOMIC", Opcode::kRcFetchAdd) && names("ATOMIC", Opcode::kRcCompareSwap));
  EXPECT_FALSE(names("ATOMIC", Opcode::kRcAtomicAcknowledge));
  EXPECT_TRUE(names("ATOMIC_ACK", Opcode::kRcAtomicAcknowledge));
  EXPECT_TRUE(names("WRITE_ONLY_IMM", Opcode::kRcWriteOnlyImmediate));
  EXPECT_FALSE(names("WRITE_ONLY_IMM", Opcode::kRcWriteOnly));
  EXPECT_TRUE(names("SEND_INV", Opcode::kRcSendLastInvalidate));
  EXPECT_TRUE(names("NAK", Opcode::kRcAcknowledge) && names("ACK", Opcode::kRcAcknowledge));
  EXPECT_NE(parsed("drop opcode=NAK").opcodes->answers, parsed("drop opcode=ACK").opcodes->answers);
  for (const char* none :
       {"SENT", "SEND_", "SEND_FIRST_LAST", "UD_WRITE", "READ_FIRST", "", "RC_"}) {
    EXPECT_NE(refused("drop opcode=" + std::string(none)).find("there is no such packet"),
              std::string::npos)
        << none;
  }
}

TEST(Rule, IsRefusedWithASentence) {
  for (const auto& [line, sentence] : {
           std::pair{"", "a rule is empty"},
           std::pair{"lose", "is not what a rule can do: it begins with drop, duplicate"},
           std::pair{"drop=1", "stands alone"},
           std::pair{"delay", "a time is wanted"},
           std::pair{"delay=5", "a time is wanted"},
           std::pair{"delay=0ms", "does nothing"},
           std::pair{"nak=busy", "it may be rnr, psn, invalid, access or operation"},
           std::pair{"corrupt=colour", "it may be icrc, opcode"},
           std::pair{"drop nth", "is not a condition"},
           std::pair{"drop color=red", "nothing is known of \"color\"; there are the conditions"},
           std::pair{"drop nth=1 nth=2", "\"nth\" is said twice"},
           std::pair{"drop nth=x", "a number is wanted"},
           std::pair{"drop psn=a", "a number or two are wanted"},
           std::pair{"drop direction=up", "it may be request, response or management"},
           std::pair{"drop cm=HELLO", "it may be REQ, MRA"},
           std::pair{"drop qp=client:0", "from 1 on"},
           std::pair{"drop qp=client", "a number as 0x004001 is wanted"},
           std::pair{"drop qp=1", "are the emulator's"},
           std::pair{"drop percent=some", "a share is wanted"},
           std::pair{"drop percent=101", "is more than all"},
           std::pair{"delay=1ms order=lost", "it may be keep"},
           std::pair{"rate=10", "a speed is wanted"},
           std::pair{"fail=EWHAT call=ibv_reg_mr", "the error is none of EACCES"},
           std::pair{"fail=EIO call=ibv_wait", "can be made to fail"},
           std::pair{"fail=EIO call=rdma_conect", "there are rdma_accept, rdma_bind_addr, "},
           std::pair{"fail=EIO call=rdma_get_cm_event", "`verbena run --fail rdma_get_cm_event="},
           std::pair{"fail=EMFILE call=ibv_open_device", "--fail ibv_open_device"},
           std::pair{"raise=sm-change", "it may be qp-fatal"},
           std::pair{"raise=srq-err srq=server", "as srq=server:1"},
           std::pair{"complete=SUCCESS", "it may be LOC_LEN_ERR"},
           std::pair{"complete=WR_FLUSH_ERR", "are flushed behind one that has failed"},
           std::pair{"rate=7bit", "a speed is wanted"},
           std::pair{"drop nth=1 unit=call", "it may be message or packet"},
       }) {
    EXPECT_NE(refused(line).find(sentence), std::string::npos) << line << ": " << refused(line);
  }
}

TEST(Rule, ThatCouldNeverFireIsRefused) {
  for (const char* line : {
           "drop nth=0",
           "reorder=0",
           "drop attempt=0",
           "drop percent=0",
           "drop psn=9-5",
           "drop nth=1 every=2",
           "drop opcode=ACK direction=request",
           "drop opcode=SEND direction=response",
           "drop opcode=SEND cm=REQ",
           "drop cm=REQ direction=request",
           "drop cm=REQ program=rping",
           "drop cm=REQ psn=1",
           "nak=rnr cm=REQ",
           "nak=rnr opcode=ACK",
           "nak=rnr opcode=UD_SEND",
           "nak=rnr direction=response",
           "corrupt=qkey opcode=WRITE",
           "corrupt=payload opcode=READ",
           "corrupt=rkey opcode=SEND",
           "drop msg=1 opcode=ACK",
           "drop msg=1 direction=response",
           "drop after=2s until=1s",
           "hold=1s after=2s",
           "drop burst=3",
           "drop percent=90 burst=2",
           "drop nth=1 percent=5 burst=2",
           "drop program=a qp=b:1",
           "drop order=keep",
           "drop unit=message",
           "complete=FATAL_ERR opcode=UD_SEND",
           "complete=FATAL_ERR opcode=SEND_LAST",
           "complete=FATAL_ERR direction=response",
           "complete=FATAL_ERR cm=REQ",
           "drop nth=1 unit=message direction=response",
           "drop nth=1 unit=message opcode=ACK",
           "drop nth=1 unit=message cm=REQ",
           "drop nth=1 unit=message msg=2",
           "drop for=1s",
           "cut for=0s",
           "cut first=2",
           "cut msg=2",
           "cut percent=5",
           "rate=1Mbit attempt=any",
           "kill",
           "port-up nth=1",
           "stop program=a percent=5",
           "cont qp=a:1",
           "drop opcode=UC_SEND attempt=2",
           "drop direction=request psn=3-4 nth=3",
           "drop opcode=WRITE psn=3 every=2",
           "drop opcode=SEND_LAST,WRITE_LAST msg=2 nth=2",
           "fail=EIO",
           "fail=EIO call=ibv_reg_mr opcode=SEND",
           "fail=EIO call=ibv_reg_mr qp=a:1",
           "fail=EIO call=rdma_connect qp=a:1",
           "fail=EIO call=rdma_connect device=verbena0",
           "fail=EIO call=ibv_post_send unit=message nth=1",
           "fail=EIO call=ibv_post_send nth=1 first=2",
           "drop call=ibv_post_send",
           "stop program=verbenad",
           "raise=qp-fatal",
           "raise=qp-fatal srq=a:1",
           "raise=qp-fatal qp=a:1 srq=a:1",
           "raise=srq-err qp=a:1",
           "raise=wq-fatal qp=a:1",
           "raise=wq-fatal nth=2",
           "drop srq=a:1",
       }) {
    EXPECT_NE(refused(line), "") << line;
  }
}

TEST(Rule, AnotherAttemptWantsARuleThatTakesTheFirst) {
  const auto why = [](std::initializer_list<std::string_view> lines) {
    std::vector<Rule> rules;
    for (const std::string_view line : lines) rules.push_back(parsed(line));
    return why_one_never_fires(rules);
  };
  EXPECT_NE(why({"drop nth=1 attempt=2"}).find("'drop nth=1 attempt=2' can never fire"),
            std::string::npos);
  EXPECT_NE(why({"delay=1ms", "drop attempt=3"}), "");
  for (const std::string_view first : {"drop nth=1", "corrupt", "nak=rnr", "cut until=1s"}) {
    EXPECT_EQ(why({"duplicate attempt=2", first}), "") << first;
  }
  EXPECT_EQ(why({"drop attempt=any", "delay=1ms"}), "");
}

TEST(Rule, ProgramsAreCalledAsTheKernelDoes) {
  EXPECT_TRUE(is_called("ib_write_bw", "ib_write_bw"));
  EXPECT_TRUE(is_called("a-program-with-", "a-program-with-a-long-name"));
  EXPECT_FALSE(is_called("ib_write_bw", "ib_write"));
}

}  // namespace
}  // namespace verbena::fault
