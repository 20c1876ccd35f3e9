// SPDX-License-Identifier: BSD-2-Clause
// Datagrams through the real libibverbs: their GRH, service levels, Q_Keys, multicast.
#include <arpa/inet.h>
#include <netinet/ip.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

class Datagrams : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    left_ = make({IBV_QPT_UD, nullptr, 0});
    right_ = make({IBV_QPT_UD, nullptr, 0});
    for (ibv_qp* qp : {left_, right_}) {
      to_rtr(qp, qp);
      to_rts(qp);
    }
    std::memset(bytes_, 'x', sizeof bytes_);
  }
  void send(bool with_grh, std::uint32_t qkey) { send(to_self(with_grh), qkey, right_->qp_num); }
  void send(ibv_ah_attr to, std::uint32_t qkey, std::uint32_t number, std::uint32_t length = 100) {
    ibv_ah* ah = ibv_create_ah(pd_, &to);
    ASSERT_NE(ah, nullptr);
    ibv_send_wr wr = request();
    wr.wr.ud = {ah, number, qkey};
    post(left_, wr, length);
    sent_ = ah;
  }
  // Polls both completions, and returns the receive's. Destroys the address handle.
  ibv_wc arrived() {
    ibv_wc received{};
    for (int both = 0; both < 2; ++both) {
      const ibv_wc wc = poll();
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      if ((wc.opcode & IBV_WC_RECV) != 0) received = wc;
    }
    EXPECT_EQ(ibv_destroy_ah(sent_), 0);
    return received;
  }
  ibv_grh* grh() { return reinterpret_cast<ibv_grh*>(bytes_ + 2048); }

  ibv_ah* sent_ = nullptr;
};

TEST_F(Datagrams, LeaveRoomForAGrhWhetherOneCameOrNot) {
  receive(right_, 7);
  send(false, kQkey);
  const ibv_wc wc = arrived();
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(wc.byte_len, 100u + kGrh);
  EXPECT_EQ(wc.src_qp, left_->qp_num);
  EXPECT_EQ((wc.wc_flags & IBV_WC_GRH) != 0, !is_infiniband());
  if (is_infiniband()) {
    EXPECT_EQ(wc.slid, port_.lid);
  }
  EXPECT_EQ(std::string(bytes_ + 2048 + kGrh, 100), std::string(100, 'x'));
}

TEST_F(Datagrams, OnInfiniBandComeWithServiceLevelAndGrh) {
  if (!is_infiniband()) return;
  for (const std::uint32_t flow_label : {0u, 0xabcdeu}) {
    ibv_ah_attr to = to_self(true);
    to.sl = 11;
    to.grh.flow_label = flow_label;
    to.grh.traffic_class = 0x5a;
    receive(right_);
    send(to, kQkey, right_->qp_num);
    const ibv_wc wc = arrived();
    EXPECT_EQ(wc.sl, 11);
    EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(wc.byte_len, 100u + kGrh);
    EXPECT_EQ(ntohl(grh()->version_tclass_flow), 6u << 28 | 0x5au << 20 | flow_label);
    EXPECT_EQ(std::memcmp(grh()->sgid.raw, gid_.raw, sizeof gid_), 0);
    EXPECT_EQ(std::memcmp(grh()->dgid.raw, gid_.raw, sizeof gid_), 0);
    EXPECT_EQ(grh()->next_hdr, 0x1b);
    // Behind the GRH: BTH, DETH, the 100 bytes, ICRC.
    EXPECT_EQ(ntohs(grh()->paylen), 12 + 8 + 100 + 4);
    EXPECT_EQ(std::string(bytes_ + 2048 + kGrh, 100), std::string(100, 'x'));
  }
  ibv_ah_attr plain = to_self(false);
  plain.sl = 3;
  receive(right_);
  send(plain, kQkey, right_->qp_num);
  const ibv_wc wc = arrived();
  EXPECT_EQ(wc.sl, 3);
  EXPECT_EQ(wc.wc_flags & IBV_WC_GRH, 0u);
}

TEST_F(Datagrams, OnInfiniBandFillThePathMtuBesideTheGrh) {
  if (!is_infiniband()) return;
  ibv_ah_attr to = to_self(true);
  to.grh.flow_label = 1;
  ibv_sge sge = at(0, sizeof bytes_);
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ASSERT_EQ(ibv_post_recv(right_, &wr, &bad), 0);
  send(to, kQkey, right_->qp_num, sizeof bytes_ - kGrh);
  EXPECT_EQ(arrived().byte_len, sizeof bytes_);
}

// The IPv4 header is as on mlx5 and Soft-RoCE. As on mlx5, the completion's sl says that the packet
// came by UDP over IPv4.
TEST_F(Datagrams, OnRoceComeWithTheIpv4Header) {
  if (is_infiniband()) return;
  ibv_ah_attr to = to_self(true);
  to.sl = 3;
  to.grh.flow_label = 0xfffff;
  to.grh.traffic_class = 0x5a;
  to.grh.hop_limit = 33;
  receive(right_);
  send(to, kQkey, right_->qp_num);
  const ibv_wc wc = arrived();
  EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0u);
  EXPECT_EQ(wc.sl, 8 | 2);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(grh());
  iphdr ip;
  std::memcpy(&ip, bytes + 20, sizeof ip);
  EXPECT_EQ(ip.version, 4);
  EXPECT_EQ(ip.ihl, 5);
  EXPECT_EQ(ip.tos, 0x5a);
  EXPECT_EQ(ip.ttl, 33);
  EXPECT_EQ(ip.protocol, 17);
  // These are the lengths of IPv4, UDP, BTH, DETH, 100 bytes and the ICRC.
  EXPECT_EQ(ntohs(ip.tot_len), 20 + 8 + 12 + 8 + 100 + 4);
  ibv_gid v4{};
  ASSERT_EQ(ibv_query_gid(context_, 1, 3, &v4), 0);
  EXPECT_EQ(std::memcmp(&ip.saddr, v4.raw + 12, 4), 0);
  EXPECT_EQ(std::memcmp(&ip.daddr, v4.raw + 12, 4), 0);
  std::uint32_t sum = 0;
  for (int i = 0; i < 10; ++i) {
    std::uint16_t word;
    std::memcpy(&word, bytes + 20 + 2 * i, sizeof word);
    sum += word;
  }
  EXPECT_EQ((sum >> 16) + (sum & 0xffff), 0xffffu) << "the header's checksum";
  EXPECT_EQ(std::string(bytes_ + 2048 + kGrh, 100), std::string(100, 'x'));
}

class OwnMulticast : public Datagrams {
 protected:
  // Makes the group's sender. With `blocks` it does not receive what it sends to the group.
  void make_left(bool blocks) {
    ibv_qp_init_attr_ex a{};
    a.qp_type = IBV_QPT_UD;
    a.send_cq = a.recv_cq = cq_;
    a.cap = {16, 16, 1, 1, 0};
    a.sq_sig_all = 1;
    a.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    a.pd = pd_;
    a.create_flags = blocks ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
    left_ = ibv_create_qp_ex(context_, &a);
    ASSERT_NE(left_, nullptr);
    qps_.push_back(left_);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    ASSERT_EQ(
        ibv_modify_qp(left_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
        0);
    to_rtr(left_, left_);
    to_rts(left_);
  }
  ibv_ah_attr to_group() const {
    ibv_ah_attr a = to_self(true);
    a.dlid = is_infiniband() ? 0xc009 : 0;
    a.grh.dgid = group_;
    return a;
  }
  std::uint64_t blocked() const {
    std::ifstream file("/sys/class/infiniband/" + std::string(context_->device->name) +
                       "/ports/1/hw_counters/rx_drop_own_multicast_blocked");
    std::uint64_t count = 0;
    EXPECT_TRUE(file >> count);
    return count;
  }

  ibv_gid group_ = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 7, 7, 7}};
};

// Two threads share a queue pair. Each joins and leaves its own groups.
TEST_F(OwnMulticast, ThreadsAttachAndDetachOneQueuePair) {
  make_left(false);
  constexpr int kGroups = 24;
  const std::uint16_t lid = is_infiniband() ? 0xc009 : 0;
  const auto group_of = [this](int thread, int i) {
    ibv_gid group = group_;
    group.raw[14] = static_cast<std::uint8_t>(thread);
    group.raw[15] = static_cast<std::uint8_t>(i);
    return group;
  };
  std::atomic<int> refused{0};
  const auto work = [&](int thread) {
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < kGroups; ++i) {
        const ibv_gid group = group_of(thread, i);
        if (ibv_attach_mcast(left_, &group, lid) != 0) ++refused;
      }
      for (int i = 0; i < kGroups; ++i) {
        const ibv_gid group = group_of(thread, i);
        if (ibv_detach_mcast(left_, &group, lid) != 0) ++refused;
      }
    }
  };
  std::thread other([&] { work(1); });
  work(2);
  other.join();
  EXPECT_EQ(refused, 0);
}

// A queue pair that attached a group with two LIDs is a member until it has detached both.
TEST_F(OwnMulticast, LastsUntilEachLidIsDetached) {
  make_left(false);
  for (const std::uint16_t lid : {0xc009, 0xc00a}) {
    ASSERT_EQ(ibv_attach_mcast(left_, &group_, lid), 0);
  }
  ASSERT_EQ(ibv_detach_mcast(left_, &group_, 0xc009), 0);
  receive(left_, left_->qp_num);
  send(to_group(), kQkey, 0xffffff);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_ah(sent_), 0);
  EXPECT_EQ(ibv_detach_mcast(left_, &group_, 0xc009), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(left_, &group_, 0xc00a), 0);
}

TEST_F(OwnMulticast, HasAsManyMembersAsTheDeviceSays) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  EXPECT_GE(device.max_total_mcast_qp_attach, device.max_mcast_qp_attach);
  const std::uint16_t lid = is_infiniband() ? 0xc009 : 0;
  std::vector<ibv_qp*> members;
  const auto attach_another = [&] {
    members.push_back(make({.type = IBV_QPT_UD, .caps = {1, 1, 1, 1, 0}}));
    return ibv_attach_mcast(members.back(), &group_, lid);
  };
  for (int i = 0; i < device.max_mcast_qp_attach; ++i) ASSERT_EQ(attach_another(), 0) << i;
  EXPECT_EQ(attach_another(), ENOMEM);
  members.pop_back();
  for (ibv_qp* member : members) EXPECT_EQ(ibv_detach_mcast(member, &group_, lid), 0);
}

TEST_F(OwnMulticast, DoesNotComeBackWhereItIsBlocked) {
  for (const bool blocks : {false, true}) {
    make_left(blocks);
    for (ibv_qp* qp : {left_, right_}) {
      ASSERT_EQ(ibv_attach_mcast(qp, &group_, is_infiniband() ? 0xc009 : 0), 0);
      receive(qp, qp->qp_num);
    }
    const std::uint64_t blocked_before = blocked();
    send(to_group(), kQkey, 0xffffff);
    // Polls the send, the other member's receive, and its own if that is not blocked.
    std::vector<std::uint64_t> receivers;
    for (int left = blocks ? 2 : 3; left != 0; --left) {
      const ibv_wc wc = poll();
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      if ((wc.opcode & IBV_WC_RECV) != 0) receivers.push_back(wc.wr_id);
    }
    EXPECT_EQ(ibv_destroy_ah(sent_), 0);
    EXPECT_EQ(blocked(), blocked_before + (blocks ? 1 : 0));
    if (blocks) {
      EXPECT_EQ(receivers, std::vector<std::uint64_t>{right_->qp_num});
      // The sender still receives: the next datagram to it is the first one that completes.
      send(to_self(false), kQkey, left_->qp_num);
      EXPECT_EQ(arrived().wr_id, left_->qp_num);
    } else {
      EXPECT_EQ(receivers.size(), 2u);
    }
    for (ibv_qp* qp : {left_, right_}) {
      ASSERT_EQ(ibv_detach_mcast(qp, &group_, is_infiniband() ? 0xc009 : 0), 0);
    }
  }
}

TEST_F(Datagrams, CanBeAnsweredFromTheirCompletion) {
  for (const bool with_grh : {false, true}) {
    receive(right_);
    send(with_grh, kQkey);
    ibv_wc wc = arrived();
    ibv_ah* back = ibv_create_ah_from_wc(pd_, &wc, grh(), 1);
    ASSERT_NE(back, nullptr);
    receive(left_);
    ibv_send_wr wr = request();
    wr.wr.ud = {back, wc.src_qp, kQkey};
    post(right_, wr);
    sent_ = back;
    EXPECT_EQ(arrived().src_qp, right_->qp_num);
  }
}

TEST_F(Datagrams, WithTheHighBitSetUseTheSendersOwnQkey) {
  receive(right_);
  send(false, 0x80000001);
  EXPECT_EQ(arrived().src_qp, left_->qp_num);
}

TEST_F(Datagrams, WithAWrongQkeyAreDroppedAndCounted) {
  const std::uint32_t before = port().qkey_viol_cntr;
  receive(right_, 8);
  send(false, kQkey + 1);
  EXPECT_EQ(poll().opcode, IBV_WC_SEND);
  EXPECT_EQ(ibv_destroy_ah(sent_), 0);
  send(false, kQkey);
  EXPECT_EQ(arrived().wr_id, 8u);
  EXPECT_EQ(port().qkey_viol_cntr, before + 1);
}

}  // namespace
}  // namespace verbs_test
