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
std::string context(int pid, const std::string& responds = "true",
                    const std::string& destroys = "") {
  return R"({"pid": )" + std::to_string(pid) + R"(, "slot": )" + std::to_string(pid) +
         R"(, "further_engine": false, "program": "prog", "waiting_destroys": [)" + destroys +
         R"(], "responding": )" + responds + "}";
}
std::string pair(const std::string& qpn, const std::string& state, const std::string& peer,
                 int sends, int receives, int send_psn = 0) {
  return R"({"qpn": ")" + qpn + R"(", "type": "RC", "state": ")" + state + R"(", "peer": )" + peer +
         R"(, "receive_cq": 1, "srq": null, "receive_psn": 0, "received_packets": 0)"
         R"(, "send_psn": )" +
         std::to_string(send_psn) + R"(, "send_outstanding": )" + std::to_string(sends) +
         R"(, "receive_outstanding": )" + std::to_string(receives) + R"(, "last_error": null})";
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

// --- two looks ----------------------------------------------------------------------------------

class TwoLooksTest : public WaitsTest {
 protected:
  static void look(Waits& waits, int send_psn, int sends, const std::string& destroys = "") {
    waits.take(StatusPart::kDevice, device("verbena0", "127.0.0.1"));
    waits.take(StatusPart::kContext, context(12, "true", destroys));
    waits.take(StatusPart::kQps,
               pair("0x000001", "RTS", peer("127.0.0.1", "0x000002"), sends, 0, send_psn));
    waits.take(StatusPart::kContextEnd, R"({"complete": true})");
  }
  std::vector<std::string> said() const {
    std::vector<std::string> texts;
    for (const Wait& wait : waits_.found(earlier_)) texts.push_back(wait.text);
    return texts;
  }
  Waits earlier_;
};

TEST_F(TwoLooksTest, OneThatSendsMeanwhileIsAtWork) {
  look(earlier_, 7, 1);
  look(waits_, 9, 1);
  EXPECT_THAT(said(), ElementsAre("is at work: it sends or receives"));
}

TEST_F(TwoLooksTest, OneThatStandsStillIsNot) {
  look(earlier_, 7, 1);
  look(waits_, 7, 1);
  EXPECT_THAT(said(), ElementsAre(::testing::StartsWith("RC QP 0x000001: 1 request is not")));
}

// A queue pair that is new has not moved.
TEST_F(TwoLooksTest, OneThatWasNotThereBeforeIsNot) {
  look(waits_, 7, 1);
  EXPECT_THAT(said(), ElementsAre(::testing::StartsWith("RC QP 0x000001: 1 request is not")));
}

TEST_F(TwoLooksTest, ADestroyThatWaitsForAMomentIsNotTold) {
  const std::string destroy =
      R"({"call": "ibv_destroy_srq", "acknowledges": "ibv_ack_async_event", )"
      R"("number": 2149580801, "events": 3, "missing": 2})";
  look(earlier_, 7, 1);
  look(waits_, 7, 1, destroy);
  EXPECT_THAT(said(), ElementsAre(::testing::StartsWith("RC QP 0x000001: 1 request is not")));
  look(earlier_, 7, 1, destroy);
  EXPECT_EQ(said()[0],
            "ibv_destroy_srq waits: 2 events of SRQ 0x80200001 are not acknowledged "
            "(ibv_ack_async_event)");
}

// Each context of a process tells of librdmacm.
TEST_F(WaitsTest, ADestroyOfLibrdmacmIsToldOnce) {
  for (int i = 0; i < 2; ++i) {
    waits_.take(StatusPart::kContext,
                context(12, "true",
                        R"({"call": "rdma_destroy_id", "number": null, "events": 4, )"
                        R"("acknowledges": "rdma_ack_cm_event", "missing": null})"));
    end();
  }
  EXPECT_THAT(said(),
              ElementsAre("prog[12]: rdma_destroy_id waits: of 4 events of the ID that were "
                          "read not all are acknowledged (rdma_ack_cm_event)"));
}

// --- peers that have ended ----------------------------------------------------------------------

class EndedPeerTest : public WaitsTest {
 protected:
  // A peer that was connected as queue pair 2, and what is said of it after these events.
  std::string said_after(const std::string& events) {
    waits_.take(StatusPart::kDevice, device("verbena0", "127.0.0.1"));
    begin(12);
    waits_.take(StatusPart::kQps, pair("0x000001", "RTS", peer("127.0.0.1", "0x000002"), 0, 1));
    end();
    // 2026-01-31T12:00:00Z
    waits_.take_events(kOpened + kConnected + events, 1769860800.0);
    const std::string begin = "1 receive waits for messages of 0x000002 ";
    for (const std::string& text : said()) {
      const auto at = text.find(begin);
      if (at != std::string::npos) return text.substr(at + begin.size());
    }
    return "";
  }
  static std::string event(const std::string& kind, const std::string& more = "") {
    return R"({"time": "2026-01-31T11:59:55.500000Z", "device": "verbena0", "program": "prog", )"
           R"("pid": 13, "kind": ")" +
           kind + "\"" + more + "}\n";
  }
  const std::string kOpened = event("opened");
  const std::string kConnected = event("connected", R"(, "qpn": "0x000002")");
};

TEST_F(EndedPeerTest, OneThatDied) {
  EXPECT_EQ(said_after(event("died", R"(, "signal": "SIGKILL")")),
            "of prog[13], which died by SIGKILL 4 s ago");
}

TEST_F(EndedPeerTest, OneThatDiedOfSomethingThatOnlyItsParentKnows) {
  EXPECT_EQ(said_after(event("died", R"(, "signal": null)")), "of prog[13], which died 4 s ago");
}

TEST_F(EndedPeerTest, OneThatExited) {
  EXPECT_EQ(said_after(event("closed", R"(, "by": "exit")")), "of prog[13], which exited 4 s ago");
}

// The number is the queue pair's; it may have gone with a context that is not the last.
TEST_F(EndedPeerTest, OneThatHasClosedOneOfTwoContextsHasNotEnded) {
  EXPECT_EQ(said_after(event("opened") + event("closed", R"(, "by": "ibv_close_device")")),
            "at 127.0.0.1, which no program of this emulator has: it has ended, or the number is "
            "wrong");
}

TEST_F(EndedPeerTest, OneThatIsThereHasDestroyedIt) {
  begin(13);
  end();
  EXPECT_EQ(said_after(""), "of prog[13], which has destroyed it");
}

TEST_F(EndedPeerTest, OneThatDoesNotAnswerMayHaveItStill) {
  begin(13, "false");
  end("false");
  EXPECT_EQ(said_after(""), "at 127.0.0.1, which no program that answers has");
}

// --- drops --------------------------------------------------------------------------------------

TEST_F(WaitsTest, DropsThatAreInOrderAreNotTold) {
  const auto said_of = [](const std::string& drops) {
    Waits waits;
    waits.take(StatusPart::kDevice,
               R"({"name": "verbena0", "address": "127.0.0.1", "ports": [{"state": "ACTIVE", )"
               R"("drops": {)" +
                   drops + "}}]}");
    waits.take(StatusPart::kContext, context(12));
    const auto found = waits.found(Waits());
    return found.size() == 2 ? found[1].text : "";
  };
  EXPECT_EQ(said_of(R"("psn_out_of_sequence": 3, "duplicate_request": 1)"), "");
  EXPECT_EQ(said_of(R"("psn_out_of_sequence": 3, "unknown_qp": 2)"),
            "it has dropped packets since its counters began: 2 unknown_qp");
}

TEST_F(WaitsTest, NamesDoNotReachTheTerminalAsTheyAre) {
  EXPECT_EQ(text_of({7, "a\x1b[31m\nb", "text"}), "a?[31m?b[7]: text");
}

}  // namespace
}  // namespace verbena::cli
