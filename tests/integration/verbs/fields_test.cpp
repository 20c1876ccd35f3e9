// SPDX-License-Identifier: BSD-2-Clause
// Each ibv_wc_read_* function through the real libibverbs, against what ibv_poll_cq and the clocks
// say.
#include <infiniband/tm_types.h>

#include "extended_fixture.hpp"

namespace verbs_test {
namespace {

std::uint64_t nanoseconds(const timespec& t) {
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

class Fields : public Extended {
 protected:
  std::uint64_t device_clock() {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(context_, &values), 0);
    EXPECT_EQ(values.comp_mask, std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK});
    return nanoseconds(values.raw_clock);
  }
  static std::uint64_t wall_clock() {
    timespec now{};
    EXPECT_EQ(clock_gettime(CLOCK_REALTIME, &now), 0);
    return nanoseconds(now);
  }
  ibv_qp* make_plain(ibv_qp_type type) {
    Shape shape;
    shape.type = type;
    shape.srq = type == IBV_QPT_RC ? srq_ : nullptr;
    shape.send_cq = ibv_cq_ex_to_cq(sends_);
    shape.receive_cq = ibv_cq_ex_to_cq(receives_);
    return make(shape);
  }
  void connect_plain(ibv_qp_type type) {
    ibv_qp* const left = make_plain(type);
    join(left, make_plain(type));
  }
};

TEST_F(Fields, OfADatagramNameItsSender) {
  connect_plain(IBV_QPT_UD);
  receive(right_, 3);
  receive(right_, 4);
  ibv_ah_attr to = to_self(false);
  to.sl = 5;
  ahs_.push_back(ibv_create_ah(pd_, &to));
  ASSERT_NE(ahs_.back(), nullptr);
  ibv_send_wr wr = request();
  wr.wr.ud = {ahs_.back(), right_->qp_num, kQkey};
  post(left_, wr);
  post(left_, wr);
  const Done got = next(receives_);
  EXPECT_EQ(got.wr_id, 3u);
  EXPECT_EQ(got.opcode, IBV_WC_RECV);
  EXPECT_EQ(got.qp_num, right_->qp_num);
  EXPECT_EQ(got.src_qp, left_->qp_num);
  EXPECT_EQ(got.byte_len, kGrh + 100);
  EXPECT_EQ(got.dlid_path_bits, 0) << "the port has one LID";
  EXPECT_EQ(got.vendor_err, 0u);
  if (is_infiniband()) {
    EXPECT_EQ(got.slid, port_.lid);
    EXPECT_EQ(got.sl, 5);
    EXPECT_EQ(got.wc_flags, 0u);
  } else {
    EXPECT_EQ(got.slid, 0u);
    EXPECT_EQ(got.sl, 8 | 2) << "UDP over IPv4, as on mlx5";
    EXPECT_EQ(got.wc_flags, unsigned{IBV_WC_GRH});
  }
  // The second of two equal datagrams comes by ibv_poll_cq, and says the same.
  ibv_wc wc{};
  while (ibv_poll_cq(ibv_cq_ex_to_cq(receives_), 1, &wc) == 0) {
  }
  EXPECT_EQ(wc.wr_id, 4u);
  EXPECT_EQ(wc.opcode, got.opcode);
  EXPECT_EQ(wc.qp_num, got.qp_num);
  EXPECT_EQ(wc.src_qp, got.src_qp);
  EXPECT_EQ(wc.byte_len, got.byte_len);
  EXPECT_EQ(wc.slid, got.slid);
  EXPECT_EQ(wc.sl, got.sl);
  EXPECT_EQ(wc.dlid_path_bits, got.dlid_path_bits);
  EXPECT_EQ(wc.vendor_err, got.vendor_err);
  EXPECT_EQ(wc.wc_flags, got.wc_flags);
  // An address handle from these fields leads back to the sender.
  ibv_ah_attr back{};
  ASSERT_EQ(ibv_init_ah_from_wc(context_, 1, &wc, reinterpret_cast<ibv_grh*>(bytes_ + 2048), &back),
            0);
  EXPECT_EQ(back.port_num, 1);
  EXPECT_EQ(back.src_path_bits, wc.dlid_path_bits);
  EXPECT_EQ(back.sl, wc.sl);
  EXPECT_EQ(back.dlid, is_infiniband() ? port_.lid : 0);
  EXPECT_EQ(back.is_global, is_infiniband() ? 0 : 1);
}

TEST_F(Fields, OfAConnectionNameItsQueuePair) {
  connect_plain(IBV_QPT_RC);
  receive(right_, 3);
  ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM);
  wr.imm_data = htobe32(0xa1b2c3d4);
  post(left_, wr);
  const Done sent = next(sends_);
  EXPECT_EQ(sent.wr_id, 2u);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.qp_num, left_->qp_num);
  EXPECT_EQ(sent.wc_flags, 0u);
  EXPECT_EQ(sent.vendor_err, 0u);
  const Done got = next(receives_);
  EXPECT_EQ(got.qp_num, right_->qp_num);
  EXPECT_EQ(got.byte_len, 100u);
  EXPECT_EQ(got.imm_data, htobe32(0xa1b2c3d4));
  EXPECT_EQ(got.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(got.vendor_err, 0u);
}

// A driver has a value of its own for each kind of failure; both ways to poll return it.
TEST_F(Fields, OfAFailureHaveTheVendorsError) {
  connect_plain(IBV_QPT_RC);
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE);
  wr.wr.rdma.rkey ^= 0x5500;
  post(left_, wr);
  post(left_, request());
  post(left_, request());
  const Done refused = next(sends_, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(refused.wr_id, 2u);
  EXPECT_EQ(refused.qp_num, left_->qp_num);
  EXPECT_NE(refused.vendor_err, 0u);
  const Done flushed = next(sends_, IBV_WC_WR_FLUSH_ERR);
  EXPECT_NE(flushed.vendor_err, 0u);
  EXPECT_NE(flushed.vendor_err, refused.vendor_err);
  ibv_wc wc{};
  ASSERT_EQ(ibv_poll_cq(ibv_cq_ex_to_cq(sends_), 1, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.vendor_err, flushed.vendor_err);
}

// Both clocks are read before the request is posted and after its completion was seen.
TEST_F(Fields, TellWhenTheCompletionCame) {
  connect_plain(IBV_QPT_RC);
  std::uint64_t last_device = 0, last_wall = 0;
  for (int round = 0; round < 5; ++round) {
    receive(right_);
    const std::uint64_t device_before = device_clock(), wall_before = wall_clock();
    post(left_, request());
    const Done got = next(receives_);
    const std::uint64_t device_after = device_clock(), wall_after = wall_clock();
    EXPECT_GE(got.completion_ts, device_before);
    EXPECT_LE(got.completion_ts, device_after);
    EXPECT_GE(got.completion_ts, last_device);
    EXPECT_GE(got.wallclock_ns, wall_before);
    EXPECT_LE(got.wallclock_ns, wall_after);
    EXPECT_GE(got.wallclock_ns, last_wall);
    last_device = got.completion_ts;
    last_wall = got.wallclock_ns;
    next(sends_);
  }
}

// The time is that of the completion, however late it is read.
TEST_F(Fields, TellTheSameTimeHoweverLateTheyAreRead) {
  connect_plain(IBV_QPT_RC);
  receive(right_);
  post(left_, request());
  next(sends_);  // The receiver's completion is there, too.
  ibv_poll_cq_attr attr{};
  ASSERT_EQ(ibv_start_poll(receives_, &attr), 0);
  const std::uint64_t seen = wall_clock();
  const std::uint64_t device = ibv_wc_read_completion_ts(receives_);
  usleep(20'000);
  EXPECT_EQ(ibv_wc_read_completion_ts(receives_), device);
  EXPECT_LE(ibv_wc_read_completion_wallclock_ns(receives_), seen);
  ibv_end_poll(receives_);
}

TEST_F(Fields, OfATaggedMessageHaveItsTag) {
  ibv_srq_init_attr_ex init{};
  init.attr = {kDepth, 1, 0};
  init.srq_type = IBV_SRQT_TM;
  init.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  init.pd = pd_;
  init.cq = ibv_cq_ex_to_cq(receives_);
  init.tm_cap = {16, 16};
  srq_ = ibv_create_srq_ex(context_, &init);
  ASSERT_NE(srq_, nullptr);
  ibv_qp* const left = make_builder(IBV_QPT_RC, 0);
  join(left, make_plain(IBV_QPT_RC));
  ibv_sge buffer{address(kFar), 512, region_->lkey};
  ibv_ops_wr add{};
  ibv_ops_wr* bad = nullptr;
  add.opcode = IBV_WR_TAG_ADD;
  add.tm.add = {77, &buffer, 1, 0x1234, 0xffff};
  ASSERT_EQ(ibv_post_srq_ops(srq_, &add, &bad), 0);

  const ibv_tmh header{IBV_TMH_EAGER, {}, htobe32(0xfeed), htobe64(0x1234)};
  std::memcpy(bytes_, &header, sizeof header);
  put_at(sizeof header, "tagged");
  post(left_, request(), sizeof header + 6);
  const Done got = next(receives_);
  EXPECT_EQ(got.wr_id, 77u);
  EXPECT_EQ(got.opcode, IBV_WC_TM_RECV);
  EXPECT_EQ(got.byte_len, 6u);
  EXPECT_EQ(got.tm.tag, 0x1234u);
  EXPECT_EQ(got.tm.priv, 0xfeedu);
  expect_at(kFar, "tagged");
}

// The program destroys a queue pair when it has taken the first of its completions.
TEST_F(Fields, OfADestroyedQueuePairComeNoMore) {
  connect_plain(IBV_QPT_RC);
  for (std::uint64_t id = 1; id <= 3; ++id) receive(right_, id);
  for (int i = 0; i < 3; ++i) post(left_, request());
  for (int i = 0; i < 3; ++i) next(sends_);
  ibv_poll_cq_attr attr{};
  ASSERT_EQ(ibv_start_poll(receives_, &attr), 0);
  EXPECT_EQ(receives_->wr_id, 1u);
  for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  ibv_end_poll(receives_);
  expect_nothing(receives_);
}

}  // namespace
}  // namespace verbs_test
