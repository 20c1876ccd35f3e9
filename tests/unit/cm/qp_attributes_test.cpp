// SPDX-License-Identifier: BSD-2-Clause
// Tests which attributes a queue pair gets in each of its states, with and without a connection.
#include "verbena/cm/qp_attributes.hpp"

#include <gtest/gtest.h>

namespace verbena::cm {
namespace {

constexpr std::uint32_t kReceive = kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;

class QpAttributesTest : public testing::Test {
 protected:
  QpAttributesTest() {
    id_.tos = 0x20;
    id_.starting_psn = 0x777;
    port_.lid = 3;
    port_.gid = Gid::link_local(3);
    port_.gid_index = 2;
    port_.mtu = 5;
    remote_ = {4, Gid::link_local(4)};
    request_.local_comm_id = 1;
    request_.local_qpn = 0x4001;
    request_.starting_psn = 0x111;
    request_.responder_resources = 3;
    request_.initiator_depth = 2;
    request_.retry_count = 5;
    request_.rnr_retry_count = 6;
    request_.path_mtu = 4;
    request_.primary.traffic_class = 0x40;
    request_.primary.flow_label = 0x55;
    request_.primary.local_ack_timeout = 17;
  }
  void receive_request() { connection_.handle_first_req({}, Mad{1, 0, request_}, request_); }
  std::optional<QpAttr> attributes(std::uint32_t state) {
    return attributes_of(id_, port_, path_of(id_, port_, remote_, &connection_), connection_,
                         state);
  }

  RdmaId id_;
  PortInfo port_;
  RemotePort remote_;
  CmOutputs out_;
  Connection connection_{1, 1, 7, out_};
  Req request_;
};

TEST_F(QpAttributesTest, APathLeadsFromThePortToTheRemoteOne) {
  PathRecord path = path_of(id_, port_, remote_, nullptr);
  EXPECT_EQ(path.slid, 3);
  EXPECT_EQ(path.dlid, 4);
  EXPECT_EQ(path.sgid, port_.gid);
  EXPECT_EQ(path.dgid, remote_.gid);
  EXPECT_EQ(path.hop_limit, 0);
  EXPECT_EQ(path.mtu, 5);
  EXPECT_EQ(path.traffic_class, 0x20) << "what the program wants";
  const AhAttr ah = ah_of(path, port_);
  EXPECT_EQ(ah.dlid, 4);
  EXPECT_EQ(ah.dgid, remote_.gid);
  EXPECT_EQ(ah.sgid_index, 2);
  EXPECT_EQ(ah.traffic_class, 0x20);
  EXPECT_FALSE(ah.is_global);
  receive_request();
  EXPECT_EQ(path_of(id_, port_, remote_, &connection_).traffic_class, 0x40) << "of the request";
  port_.roce = true;
  path = path_of(id_, port_, remote_, nullptr);
  EXPECT_EQ(path.hop_limit, 64);
  EXPECT_TRUE(ah_of(path, port_).is_global);
}

TEST_F(QpAttributesTest, AGroupHasALidOnInfiniBandOnly) {
  const Gid group = Gid::from_ip(*IpAddress::parse("ff12::1"));
  AhAttr ah = ah_of_group(group, port_, 0x30);
  EXPECT_EQ(ah.dgid, group);
  EXPECT_GE(ah.dlid, 0xc000);
  EXPECT_EQ(ah.hop_limit, 0);
  EXPECT_EQ(ah.traffic_class, 0x30);
  EXPECT_EQ(ah.sgid_index, 2);
  EXPECT_TRUE(ah.is_global);
  port_.roce = true;
  ah = ah_of_group(group, port_, 0);
  EXPECT_EQ(ah.dlid, 0);
  EXPECT_EQ(ah.hop_limit, 64);
}

TEST_F(QpAttributesTest, ARouteIsKnownStepByStep) {
  id_.source = SocketAddress::of(IpAddress::v4(1), 5000);
  RouteInfo info = route_info(id_, nullptr, std::nullopt);
  EXPECT_EQ(info.port, nullptr);
  EXPECT_EQ(info.source, id_.source);
  EXPECT_EQ(info.source_service, service_id_of(PortSpace::kTcp, 5000));
  EXPECT_EQ(info.path.sgid, Gid{});

  port_.pkey = 0x8001;
  info = route_info(id_, &port_, std::nullopt);
  EXPECT_EQ(info.port, &port_);
  EXPECT_EQ(info.path.sgid, port_.gid);
  EXPECT_EQ(info.path.pkey, 0x8001);
  EXPECT_FALSE(info.has_path);

  id_.destination = SocketAddress::of(IpAddress::v4(2), 7174);
  id_.state = IdState::kAddressQuery;
  EXPECT_FALSE(id_.is_addressed());
  id_.state = IdState::kAddressResolved;
  EXPECT_TRUE(id_.is_addressed());
  const PathRecord path = path_of(id_, port_, remote_, nullptr);
  info = route_info(id_, &port_, path);
  EXPECT_EQ(info.destination_service, service_id_of(PortSpace::kTcp, 7174));
  EXPECT_EQ(info.path.dlid, 4);
  EXPECT_FALSE(info.has_path) << "the program has not asked for it";
  id_.state = IdState::kRouteResolved;
  EXPECT_TRUE(route_info(id_, &port_, path).has_path);
}

TEST_F(QpAttributesTest, WithoutAConnectionAQueuePairIsOnlyInitialized) {
  EXPECT_EQ(attributes_without_connection(id_, kQpInit).mask,
            kMaskState | kMaskPkeyIndex | kMaskPort | kMaskAccessFlags);
  id_.qp_type = QpType::kUd;
  const QpAttr attr = attributes_without_connection(id_, kQpReadyToSend);
  EXPECT_EQ(attr.mask, kMaskState | kMaskPkeyIndex | kMaskPort | kMaskQkey);
  EXPECT_EQ(attr.qkey, kUdpQkey);
  EXPECT_EQ(attr.qp_state, kQpReadyToSend);
}

TEST_F(QpAttributesTest, WhoAskedKnowsNoMoreThanInitUntilItIsAnswered) {
  EXPECT_FALSE(attributes(kQpInit)) << "before the request";
  connection_.send_req(0, {}, request_, 0);
  EXPECT_TRUE(attributes(kQpInit));
  EXPECT_FALSE(attributes(kQpReadyToReceive));
  EXPECT_FALSE(attributes(kQpReadyToSend));
}

TEST_F(QpAttributesTest, WhoIsAskedKnowsAll) {
  receive_request();
  const std::optional<QpAttr> init = attributes(kQpInit);
  ASSERT_TRUE(init);
  EXPECT_EQ(init->access_flags, 2u | 4u | 8u) << "the peer will read";
  const std::optional<QpAttr> receive = attributes(kQpReadyToReceive);
  ASSERT_TRUE(receive);
  EXPECT_EQ(receive->mask, kReceive | kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  EXPECT_EQ(receive->dest_qp_num, 0x4001u);
  EXPECT_EQ(receive->rq_psn, 0x777u) << "where this side told the peer to start";
  EXPECT_EQ(receive->path_mtu, 4u);
  EXPECT_EQ(receive->max_dest_rd_atomic, 2);
  EXPECT_EQ(receive->ah.flow_label, 0u);
  const std::optional<QpAttr> send = attributes(kQpReadyToSend);
  ASSERT_TRUE(send);
  EXPECT_EQ(send->mask, kMaskState | kMaskSqPsn | kMaskRetryCount | kMaskRnrRetry |
                            kMaskMaxRdAtomic | kMaskTimeout);
  EXPECT_EQ(send->sq_psn, 0x111u);
  EXPECT_EQ(send->max_rd_atomic, 3);
  EXPECT_EQ(send->retry_count, 5);
  EXPECT_EQ(send->rnr_retry, 6);
  EXPECT_EQ(send->timeout, 17);
  EXPECT_FALSE(attributes(7)) << "no such state";
  port_.roce = true;
  EXPECT_EQ(attributes(kQpReadyToReceive)->ah.flow_label, 0x55u);
  id_.ack_timeout = 9;
  EXPECT_EQ(attributes(kQpReadyToSend)->timeout, 9);
}

TEST_F(QpAttributesTest, WhichAttributesThereAreDependsOnTheType) {
  receive_request();
  id_.qp_type = QpType::kUc;
  EXPECT_EQ(attributes(kQpReadyToReceive)->mask, kReceive);
  EXPECT_EQ(attributes(kQpReadyToSend)->mask, kMaskState | kMaskSqPsn);
  id_.qp_type = QpType::kXrcRecv;
  EXPECT_EQ(attributes(kQpReadyToReceive)->mask,
            kReceive | kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  EXPECT_EQ(attributes(kQpReadyToSend)->mask, kMaskState | kMaskSqPsn | kMaskTimeout);
  id_.qp_type = QpType::kXrcSend;
  EXPECT_EQ(attributes(kQpReadyToReceive)->mask, kReceive);
}

}  // namespace
}  // namespace verbena::cm
