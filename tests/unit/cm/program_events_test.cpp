// SPDX-License-Identifier: BSD-2-Clause
// Tests which event a program gets for each report of the agent.
#include "verbena/cm/program_events.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::cm {
namespace {

using enum RdmaEventType;

TEST(ProgramEventsTest, ARequestIsSeenFromTheOtherSide) {
  Req req;
  req.local_qpn = 0x4001;
  req.responder_resources = 3;
  req.initiator_depth = 2;
  req.retry_count = 5;
  req.srq = 1;
  req.ece_vendor_id = 0x15b3;
  req.private_data[36] = 'u';
  const RdmaEvent event = request_event(Mad{1, 9, req}, 36);
  EXPECT_EQ(event.type, kConnectRequest);
  EXPECT_EQ(event.status, 0);
  EXPECT_EQ(event.ece.vendor_id, 0x15b3u);
  EXPECT_EQ(event.ece.option, 9u);
  const ConnParam& param = std::get<ConnParam>(event.param);
  EXPECT_EQ(param.qp_num, 0x4001u);
  EXPECT_EQ(param.responder_resources, 2);
  EXPECT_EQ(param.initiator_depth, 3);
  EXPECT_EQ(param.retry_count, 5);
  EXPECT_TRUE(param.srq);
  EXPECT_EQ(param.private_data.size, 92 - 36);
  EXPECT_EQ(param.private_data.bytes[0], 'u');
}

TEST(ProgramEventsTest, ARequestForDatagramsHasItsOwnParameters) {
  SidrReq req;
  req.private_data[215] = 'u';
  const RdmaEvent event = request_event(Mad{1, 9, req}, 0);
  EXPECT_EQ(event.type, kConnectRequest);
  EXPECT_EQ(event.ece.vendor_id, 0u);
  EXPECT_EQ(event.ece.option, 9u);
  const UdParam& param = std::get<UdParam>(event.param);
  EXPECT_EQ(param.private_data.size, 216);
  EXPECT_EQ(param.private_data.bytes[215], 'u');
}

TEST(ProgramEventsTest, AServiceIsAskedForByAQueuePairOfAType) {
  Mad mad{0, 0, Req{}};
  Req& req = std::get<Req>(mad.message);
  req.service_id = 7;
  EXPECT_EQ(service_request_of(mad).service_id, 7u);
  EXPECT_EQ(service_request_of(mad).qp_type, QpType::kRc);
  req.service_type = ServiceType::kUc;
  EXPECT_EQ(service_request_of(mad).qp_type, QpType::kUc);
  req.service_type = ServiceType::kExtended;
  EXPECT_EQ(service_request_of(mad).qp_type, QpType::kXrcRecv);
  EXPECT_EQ(service_request_of(mad).private_data.data(), req.private_data.data());
  const Mad sidr{0, 0, SidrReq{.service_id = 8}};
  EXPECT_EQ(service_request_of(sidr).service_id, 8u);
  EXPECT_EQ(service_request_of(sidr).qp_type, QpType::kUd);
}

TEST(ProgramEventsTest, ADatagramServiceAnswersRefusesOrIsSilent) {
  AhAttr ah;
  ah.dlid = 4;
  CmEvent cause{CmEventKind::kSidrRepReceived, 1, {0, 9, SidrRep{.qpn = 0x8001, .qkey = 7}}};
  SidrRep& rep = std::get<SidrRep>(cause.mad.message);
  rep.ece_vendor_high = 0x1234;
  rep.ece_vendor_low = 0x56;
  rep.private_data[0] = 'y';
  RdmaEvent event = sidr_response_event(cause, ah);
  EXPECT_EQ(event.type, kEstablished);
  EXPECT_EQ(event.status, 0);
  EXPECT_EQ(event.ece.vendor_id, 0x123456u);
  EXPECT_EQ(event.ece.option, 9u);
  EXPECT_EQ(std::get<UdParam>(event.param).qp_num, 0x8001u);
  EXPECT_EQ(std::get<UdParam>(event.param).qkey, 7u);
  EXPECT_EQ(std::get<UdParam>(event.param).ah.dlid, 4);

  event = sidr_response_event(cause, std::nullopt);
  EXPECT_EQ(event.type, kUnreachable) << "the port is gone";

  rep.status = SidrStatus::kReject;
  event = sidr_response_event(cause, ah);
  EXPECT_EQ(event.type, kUnreachable);
  EXPECT_EQ(event.status, 2);
  EXPECT_EQ(std::get<UdParam>(event.param).qp_num, 0u);
  EXPECT_EQ(std::get<UdParam>(event.param).private_data.bytes[0], 'y');

  event = sidr_response_event({CmEventKind::kSidrTimeout, 1}, ah);
  EXPECT_EQ(event.type, kUnreachable);
  EXPECT_EQ(event.status, -ETIMEDOUT);
  EXPECT_TRUE(std::holds_alternative<UdParam>(event.param));
}

TEST(ProgramEventsTest, AResponseIsSeenFromTheOtherSide) {
  Rep rep;
  rep.local_qpn = 0x8001;
  rep.responder_resources = 3;
  rep.initiator_depth = 2;
  rep.set_ece_vendor_id(0x123456);
  const auto event = connection_event({CmEventKind::kRepReceived, 1, {0, 9, rep}});
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, kConnectResponse);
  EXPECT_EQ(event->ece.vendor_id, 0x123456u);
  EXPECT_EQ(event->ece.option, 9u);
  const ConnParam& param = std::get<ConnParam>(event->param);
  EXPECT_EQ(param.qp_num, 0x8001u);
  EXPECT_EQ(param.responder_resources, 2);
  EXPECT_EQ(param.initiator_depth, 3);
  EXPECT_EQ(param.private_data.size, Rep::kPrivateData);
}

TEST(ProgramEventsTest, ARejectionHasItsReason) {
  Rej rej;
  rej.reason = RejectReason::kConsumerDefined;
  rej.private_data[0] = 'n';
  const auto event = connection_event({CmEventKind::kRejReceived, 1, {0, 0, rej}});
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, kRejected);
  EXPECT_EQ(event->status, 28);
  EXPECT_EQ(std::get<ConnParam>(event->param).private_data.bytes[0], 'n');
}

TEST(ProgramEventsTest, AMembershipHasTheNameThatItsProgramGaveIt) {
  const RdmaEvent event = membership_event(kMulticastError, 7, 50);
  EXPECT_EQ(event.type, kMulticastError);
  EXPECT_EQ(event.id, 7u);
  EXPECT_EQ(event.membership, 7u);
  EXPECT_EQ(event.uid, 50u);
  EXPECT_TRUE(std::holds_alternative<UdParam>(event.param));
}

TEST(ProgramEventsTest, TheRestIsATypeAndAStatus) {
  struct Row {
    CmEventKind cause;
    RdmaEventType type;
    int status;
  };
  for (const Row& row : {Row{CmEventKind::kEstablished, kEstablished, 0},
                         Row{CmEventKind::kReqTimeout, kUnreachable, -ETIMEDOUT},
                         Row{CmEventKind::kRepTimeout, kUnreachable, -ETIMEDOUT},
                         Row{CmEventKind::kDreqReceived, kDisconnected, 0},
                         Row{CmEventKind::kDrepReceived, kDisconnected, 0},
                         Row{CmEventKind::kDreqTimeout, kDisconnected, -ETIMEDOUT},
                         Row{CmEventKind::kTimewaitExit, kTimewaitExit, 0}}) {
    const auto event = connection_event({row.cause, 1});
    ASSERT_TRUE(event);
    EXPECT_EQ(event->type, row.type);
    EXPECT_EQ(event->status, row.status);
  }
  EXPECT_FALSE(connection_event({CmEventKind::kSidrTimeout, 1}));
}

}  // namespace
}  // namespace verbena::cm
