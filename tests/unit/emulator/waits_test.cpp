// SPDX-License-Identifier: BSD-2-Clause
// What programs wait for, in cases that real programs do not reach easily.
#include "waits.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace verbena::cli {
namespace {

using control::StatusPart;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string device(const std::string& name, const std::string& address) {
  return R"({"name": ")" + name + R"(", "address": ")" + address +
         R"(", "ports": [{"state": "ACTIVE", "drops": {}}]})";
}
std::string context(int pid, const std::string& responds = "true") {
  return R"({"pid": )" + std::to_string(pid) + R"(, "slot": )" + std::to_string(pid) +
         R"(, "further_engine": false, "program": "prog", "responding": )" + responds + "}";
}
std::string pair(const std::string& qpn, const std::string& state, const std::string& peer,
                 int sends, int receives) {
  return R"({"qpn": ")" + qpn + R"(", "type": "RC", "state": ")" + state + R"(", "peer": )" + peer +
         R"(, "receive_cq": 1, "srq": null, "send_psn": 0, "receive_psn": 0, "received_packets": 0)"
         R"(, "send_outstanding": )" +
         std::to_string(sends) + R"(, "receive_outstanding": )" + std::to_string(receives) +
         R"(, "last_error": null})";
}
std::string peer(const std::string& address, const std::string& qpn) {
  return R"({"address": ")" + address + R"(", "qpn": ")" + qpn + R"("})";
}
std::string queue(const std::string& overrun, int unpolled, int unread) {
  return R"({"cq": 1, "capacity": 8, "unpolled": )" + std::to_string(unpolled) +
         R"(, "overrun": )" + overrun +
         R"(, "armed": "no", "channel_fd": 7, "unacknowledged_events": 0, "unread_events": )" +
         std::to_string(unread) + "}";
}

class WaitsTest : public ::testing::Test {
 protected:
  void begin(int pid, const std::string& responds = "true") {
    waits_.take(StatusPart::kContext, context(pid, responds));
  }
  void end(const std::string& complete = "true") {
    waits_.take(StatusPart::kContextEnd, R"({"complete": )" + complete + "}");
  }
  std::vector<std::string> said() const {
    std::vector<std::string> texts;
    for (const Wait& wait : waits_.found(Waits())) texts.push_back(text_of(wait));
    return texts;
  }
  Waits waits_;
};

TEST_F(WaitsTest, OfNothingNothingIsSaid) {
  EXPECT_THAT(said(), IsEmpty());
  waits_.take(StatusPart::kDevice, device("verbena0", "127.0.0.1"));
  begin(12);
  end();
  EXPECT_THAT(said(), ElementsAre("prog[12]: has a device open; nothing is known that it waits "
                                  "for: 0 queue pairs, 0 completion queues, 0 receives in SRQs"));
}

TEST_F(WaitsTest, WhatIsNoObjectIsLeftOut) {
  for (const StatusPart part : {StatusPart::kContext, StatusPart::kQps, StatusPart::kCqs,
                                StatusPart::kCmIds, StatusPart::kDevice}) {
    waits_.take(part, "{\n\nnothing");
  }
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(WaitsTest, AnOverrunIsNamedBeforeAllElse) {
  begin(12);
  waits_.take(StatusPart::kCqs, queue("true", 8, 3));
  EXPECT_THAT(said(), ElementsAre("prog[12]: CQ 1 has overrun: there were more than 8 completions "
                                  "at once"));
}

TEST_F(WaitsTest, AQueuePairThatIsHalted) {
  begin(12);
  waits_.take(StatusPart::kQps, pair("0x000001", "SQD", "null", 3, 0));
  EXPECT_THAT(said(),
              ElementsAre("prog[12]: RC QP 0x000001 is in SQD: it sends nothing before RTS"));
}

TEST_F(WaitsTest, OneThatStopsInTheMiddleIsSaidToBeStopped) {
  begin(12);
  waits_.take(StatusPart::kQps, pair("0x000001", "INIT", "null", 0, 0));
  end("false");
  EXPECT_THAT(said(), ElementsAre("prog[12]: does not answer in time: it is "
                                  "stopped, in a debugger, or has no processor"));
}

// Two devices may give out the same queue pair number.
TEST_F(WaitsTest, APeerIsFoundByWhomItNames) {
  waits_.take(StatusPart::kDevice, device("verbena0", "127.0.0.1"));
  begin(12);
  waits_.take(StatusPart::kQps, pair("0x000001", "RTS", peer("127.0.0.2", "0x000002"), 0, 1) +
                                    "\n" +
                                    pair("0x000002", "RTS", peer("127.0.0.9", "0x000009"), 0, 0));
  end();
  waits_.take(StatusPart::kDevice, device("verbena1", "127.0.0.2"));
  begin(13);
  waits_.take(StatusPart::kQps, pair("0x000002", "RTS", peer("127.0.0.1", "0x000001"), 0, 0));
  end();
  EXPECT_THAT(said(), ElementsAre("prog[12]: RC QP 0x000001: nothing of its own is outstanding, "
                                  "and 1 receive waits for messages of 0x000002 of "
                                  "prog[13], which has sent all that it has posted",
                                  ::testing::StartsWith("prog[13]: nothing is outstanding")));
}

TEST_F(WaitsTest, APeerOfAnotherHostIsNotLookedForHere) {
  waits_.take(StatusPart::kDevice, device("verbena0", "127.0.0.1"));
  begin(12);
  waits_.take(StatusPart::kQps, pair("0x000001", "RTS", peer("10.0.0.9", "0x000002"), 2, 0) + "\n" +
                                    pair("0x000002", "RTS", "null", 0, 1));
  end();
  EXPECT_EQ(
      said()[0],
      "prog[12]: RC QP 0x000001: 2 requests are not complete; the peer is 0x000002 at "
      "10.0.0.9, which no program of this emulator has: it has ended, or the number is wrong");
}

// The receives of an XRC receive queue pair are in an SRQ.
TEST_F(WaitsTest, ReceivesInAnSrqAreOutstanding) {
  begin(12);
  waits_.take(StatusPart::kQps, pair("0x000001", "RTS", "null", 0, 0));
  waits_.take(StatusPart::kSrqs, R"({"srq": "0x000001", "receive_outstanding": 3})");
  EXPECT_THAT(said(), ElementsAre("prog[12]: has a device open; nothing is known that it waits "
                                  "for: 1 queue pair, 0 completion queues, 3 receives in SRQs"));
}

// Each device numbers its queues on its own.
TEST_F(WaitsTest, TwoQueuesOfOneNumberAreToldApart) {
  for (const int slot : {1, 2}) {
    waits_.take(StatusPart::kDevice, device("verbena" + std::to_string(slot), "127.0.0.1"));
    std::string of = context(12);
    of.replace(of.find("\"slot\": 12"), 10, "\"slot\": " + std::to_string(slot));
    waits_.take(StatusPart::kContext, of);
    waits_.take(StatusPart::kCqs, queue("false", slot == 1 ? 2 : 0, 0));
    if (slot == 2) waits_.take(StatusPart::kQps, pair("0x000001", "RTS", "null", 0, 4));
    end();
  }
  EXPECT_THAT(said(), ElementsAre(::testing::StartsWith("prog[12]: CQ 1 of verbena1 holds 2"),
                                  "prog[12]: RC QP 0x000001: nothing of its own is outstanding, "
                                  "and 4 receives wait for messages"));
}

TEST_F(WaitsTest, NamesDoNotReachTheTerminalAsTheyAre) {
  EXPECT_EQ(text_of({7, "a\x1b[31m\nb", "text"}), "a?[31m?b[7]: text");
}

}  // namespace
}  // namespace verbena::cli
