// SPDX-License-Identifier: BSD-2-Clause
// What programs wait for, where no real program comes to it easily.
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
  return R"({"pid": )" + std::to_string(pid) + R"(, "program": "prog", "responding": )" + responds +
         "}";
}
std::string pair(const std::string& qpn, const std::string& state, const std::string& peer,
                 int sends, int receives) {
  return R"({"qpn": ")" + qpn + R"(", "type": "RC", "state": ")" + state + R"(", "peer": )" + peer +
         R"(, "receive_cq": 1, "send_outstanding": )" + std::to_string(sends) +
         R"(, "receive_outstanding": )" + std::to_string(receives) + R"(, "last_error": null})";
}
std::string peer(const std::string& address, const std::string& qpn) {
  return R"({"address": ")" + address + R"(", "qpn": ")" + qpn + R"("})";
}
std::string queue(const std::string& overrun, int unpolled, int unread) {
  return R"({"cq": 1, "capacity": 8, "unpolled": )" + std::to_string(unpolled) +
         R"(, "overrun": )" + overrun + R"(, "armed": "no", "channel_fd": 7, "unread_events": )" +
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
    for (const Wait& wait : waits_.found()) texts.push_back(text_of(wait));
    return texts;
  }
  Waits waits_;
};

TEST_F(WaitsTest, OfNothingNothingIsSaid) {
  EXPECT_THAT(said(), IsEmpty());
  waits_.take(StatusPart::kDevice, device("verbena0", "127.0.0.1"));
  begin(12);
  end();
  EXPECT_THAT(said(), IsEmpty()) << "a program without objects";
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
  EXPECT_THAT(said(), ElementsAre("prog[12]: does not answer: it is stopped, or in a debugger"));
}

// Two devices may give the same number.
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
  EXPECT_THAT(said(),
              ElementsAre("prog[12]: RC QP 0x000001: 1 receive waits for messages of 0x000002 of "
                          "prog[13], which has sent all that it has posted",
                          ::testing::StartsWith("prog[13]: nothing is outstanding")));
}

TEST_F(WaitsTest, APeerOfAnotherHostIsNotLookedForHere) {
  waits_.take(StatusPart::kDevice, device("verbena0", "127.0.0.1"));
  begin(12);
  waits_.take(StatusPart::kQps, pair("0x000001", "RTS", peer("10.0.0.9", "0x000002"), 2, 0) + "\n" +
                                    pair("0x000002", "RTS", "null", 0, 1));
  end();
  EXPECT_EQ(said()[0],
            "prog[12]: RC QP 0x000001: 2 requests are not complete; the peer is 0x000002 at "
            "10.0.0.9, which no program of this emulator has");
}

}  // namespace
}  // namespace verbena::cli
