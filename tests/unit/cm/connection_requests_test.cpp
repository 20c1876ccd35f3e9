// SPDX-License-Identifier: BSD-2-Clause
// How an ID's properties and a program's parameters appear in the messages of the CM.
#include "verbena/cm/connection_requests.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::cm {
namespace {

class ConnectionRequestsTest : public testing::Test {
 protected:
  ConnectionRequestsTest() {
    port_.node_guid = 0x1122;
    port_.pkey = 0x8001;
    path_.slid = 3;
    path_.dlid = 4;
    path_.sgid = Gid::link_local(3);
    path_.dgid = Gid::link_local(4);
    path_.mtu = 4;
    path_.packet_life_time = 16;
    id_.source = SocketAddress::of(*IpAddress::parse("10.0.0.3"), 5000);
    id_.destination = SocketAddress::of(*IpAddress::parse("10.0.0.4"), 7174);
    id_.starting_psn = 0x654321;
  }
  void use_gids() {
    id_.source = SocketAddress::of_gid(path_.sgid, 0, 0xffff);
    id_.destination = SocketAddress::of_gid(path_.dgid, 0x7777, 0xffff);
  }
  ConnParam with_data(std::size_t size) {
    ConnParam param;
    param.private_data.assign(std::vector<std::uint8_t>(size, 0x5a));
    return param;
  }
  std::optional<Req> req(const ConnParam& param) {
    return req_of(id_, port_, path_, param, Ece{0x15b3, 9});
  }

  RdmaId id_;
  PortInfo port_;
  PathRecord path_;
};

TEST_F(ConnectionRequestsTest, TheAddressesStandBeforeTheUsersData) {
  const std::optional<Req> request = req(with_data(56));
  ASSERT_TRUE(request);
  const std::optional<IpHeader> header = IpHeader::parse(request->private_data);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->ip_version, 4);
  EXPECT_EQ(header->source, id_.source.ip);
  EXPECT_EQ(header->destination, id_.destination.ip);
  EXPECT_EQ(header->source_port, 5000);
  EXPECT_EQ(request->private_data[36], 0x5a);
  EXPECT_EQ(request->private_data[91], 0x5a);
  EXPECT_EQ(request->service_id, service_id_of(PortSpace::kTcp, 7174));
  EXPECT_FALSE(req(with_data(57)));

  id_.space = PortSpace::kUdp;
  id_.source = SocketAddress::of(*IpAddress::parse("::1"), 1);
  id_.destination = SocketAddress::of(*IpAddress::parse("::1"), 2);
  const std::optional<SidrReq> sidr = sidr_req_of(id_, port_, with_data(180));
  ASSERT_TRUE(sidr);
  EXPECT_EQ(IpHeader::parse(sidr->private_data)->ip_version, 6);
  EXPECT_EQ(sidr->private_data[215], 0x5a);
  EXPECT_EQ(sidr->service_id, service_id_of(PortSpace::kUdp, 2));
  EXPECT_EQ(sidr->pkey, 0x8001);
  EXPECT_FALSE(sidr_req_of(id_, port_, with_data(181)));
}

TEST_F(ConnectionRequestsTest, OfAfIbAllIsTheUsers) {
  use_gids();
  const std::optional<Req> request = req(with_data(92));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->private_data[0], 0x5a);
  EXPECT_EQ(request->service_id, 0x7777u) << "which the address names";
  EXPECT_FALSE(req(with_data(93)));
  EXPECT_EQ(user_data_offset(id_.source), 0u);
}

TEST_F(ConnectionRequestsTest, ARequestNamesItsSenderAndThePath) {
  ConnParam param = with_data(0);
  param.qp_num = 0x4001;
  param.responder_resources = 3;
  param.initiator_depth = 2;
  param.retry_count = 9;
  param.rnr_retry_count = 200;
  param.flow_control = 5;
  param.srq = true;
  const std::optional<Req> request = req(param);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->local_qpn, 0x4001u);
  EXPECT_EQ(request->responder_resources, 3);
  EXPECT_EQ(request->initiator_depth, 2);
  EXPECT_EQ(request->retry_count, 7) << "the field has three bits";
  EXPECT_EQ(request->rnr_retry_count, 7);
  EXPECT_EQ(request->flow_control, 1);
  EXPECT_EQ(request->srq, 1);
  EXPECT_EQ(request->starting_psn, 0x654321u);
  EXPECT_EQ(request->local_ca_guid, 0x1122u);
  EXPECT_EQ(request->pkey, 0x8001);
  EXPECT_EQ(request->path_mtu, 4);
  EXPECT_EQ(request->ece_vendor_id, 0x15b3u);
  EXPECT_EQ(request->primary.local_lid, 3);
  EXPECT_EQ(request->primary.remote_lid, 4);
  EXPECT_EQ(request->primary.local_gid, path_.sgid);
  EXPECT_EQ(request->primary.remote_gid, path_.dgid);
  EXPECT_EQ(request->primary.subnet_local, 1);
}

TEST_F(ConnectionRequestsTest, RoceHasNoLids) {
  port_.roce = true;
  const std::optional<Req> request = req(with_data(0));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->primary.local_lid, 0xffff);
  EXPECT_EQ(request->primary.remote_lid, 0xffff);
  EXPECT_EQ(request->primary.subnet_local, 0);
}

TEST_F(ConnectionRequestsTest, TheAckTimeoutIsTwiceThePathUnlessTheProgramSetsIt) {
  EXPECT_EQ(req(with_data(0))->primary.local_ack_timeout, 17);
  id_.ack_timeout = 21;
  EXPECT_EQ(req(with_data(0))->primary.local_ack_timeout, 21);
}

TEST_F(ConnectionRequestsTest, TheServiceTypeIsThatOfTheQueuePair) {
  EXPECT_EQ(req(with_data(0))->service_type, ServiceType::kRc);
  id_.qp_type = QpType::kUc;
  EXPECT_EQ(req(with_data(0))->service_type, ServiceType::kUc);
  id_.qp_type = QpType::kXrcSend;
  EXPECT_EQ(req(with_data(0))->service_type, ServiceType::kExtended);
  EXPECT_EQ(req(with_data(0))->extended_type, kExtendedXrc);
}

TEST_F(ConnectionRequestsTest, AnAnswerHasTheUsersDataAlone) {
  ConnParam param = with_data(196);
  param.qp_num = 0x8001;
  param.initiator_depth = 5;
  param.rnr_retry_count = 8;
  const std::optional<Rep> rep = rep_of(id_, port_, param, Ece{0x123456, 0});
  ASSERT_TRUE(rep);
  EXPECT_EQ(rep->private_data[0], 0x5a);
  EXPECT_EQ(rep->private_data[195], 0x5a);
  EXPECT_EQ(rep->local_qpn, 0x8001u);
  EXPECT_EQ(rep->initiator_depth, 5);
  EXPECT_EQ(rep->rnr_retry_count, 7);
  EXPECT_EQ(rep->starting_psn, 0x654321u);
  EXPECT_EQ(rep->local_ca_guid, 0x1122u);
  EXPECT_EQ(rep->ece_vendor_id(), 0x123456u);
  EXPECT_FALSE(rep_of(id_, port_, with_data(197), Ece{}));
}

TEST_F(ConnectionRequestsTest, ADatagramsKeyIsTheProgramsElseTheIdsElseThatOfThePortSpace) {
  id_.qp_type = QpType::kUd;
  ConnParam param = with_data(136);
  param.qp_num = 0x8001;
  const auto rep = [&] { return sidr_rep_of(id_, param, Ece{0x123456, 0}); };
  ASSERT_TRUE(rep());
  EXPECT_EQ(rep()->private_data[135], 0x5a);
  EXPECT_EQ(rep()->qpn, 0x8001u);
  EXPECT_EQ(rep()->ece_vendor_high, 0x1234);
  EXPECT_EQ(rep()->ece_vendor_low, 0x56);
  EXPECT_EQ(rep()->qkey, kUdpQkey);
  id_.space = PortSpace::kIpoib;
  EXPECT_EQ(rep()->qkey, kIpoibQkey);
  id_.qkey = 7;
  EXPECT_EQ(rep()->qkey, 7u);
  param.qkey = 8;
  EXPECT_EQ(rep()->qkey, 8u);
  EXPECT_FALSE(sidr_rep_of(id_, with_data(137), Ece{}));
}

}  // namespace
}  // namespace verbena::cm
