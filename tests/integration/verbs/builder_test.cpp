// SPDX-License-Identifier: BSD-2-Clause
// Each ibv_wr_* function through the real libibverbs: what it posts, what arrives, and what
// completes at both ends.
#include <fcntl.h>

#include <thread>

#include "extended_fixture.hpp"

namespace verbs_test {
namespace {

class Builder : public Extended {
 protected:
  void set(ibv_qp_ex* q, std::size_t offset, std::uint32_t length) {
    ibv_wr_set_sge(q, region_->lkey, address(offset), length);
  }
  // Binds a new window of type 2 to 64 bytes at kFar, by the builder of `qp`.
  ibv_mw* bind(ibv_qp* qp) {
    ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
    EXPECT_NE(mw, nullptr);
    windows_.push_back(mw);
    const std::uint32_t key = ibv_inc_rkey(mw->rkey);
    const ibv_mw_bind_info info{region_, address(kFar), 64, IBV_ACCESS_REMOTE_WRITE};
    EXPECT_EQ(build(qp, [&](ibv_qp_ex* q) { ibv_wr_bind_mw(q, mw, key, &info); }), 0);
    EXPECT_EQ(next(sends_).opcode, IBV_WC_BIND_MW);
    // libibverbs leaves the key to its caller, as ibv_bind_mw alone updates it.
    mw->rkey = key;
    return mw;
  }
  int write_through(const ibv_mw* mw) {
    return build(left_, [&](ibv_qp_ex* q) {
      ibv_wr_rdma_write(q, mw->rkey, address(kFar));
      set(q, 0, 8);
    });
  }
};

TEST_F(Builder, AbortPostsNothing) {
  connect_rc();
  receive(right_, 7);
  put_at(0, "aborted!");
  put_at(64, "kept");
  ibv_qp_ex* const q = ibv_qp_to_qp_ex(left_);
  for (std::uint32_t round = 0; round < 3 * kDepth; ++round) {
    ibv_wr_start(q);
    q->wr_id = round;
    q->wr_flags = IBV_SEND_SIGNALED;
    for (std::uint32_t i = 0; i <= round; ++i) {
      ibv_wr_send(q);
      set(q, 0, 8);
    }
    ibv_wr_abort(q);
  }
  expect_nothing(sends_);
  expect_nothing(receives_);
  // The aborted requests took no slot and no place in the sequence.
  ASSERT_EQ(build(left_,
                  [&](ibv_qp_ex*) {
                    ibv_wr_send(q);
                    set(q, 64, 4);
                    for (std::uint32_t i = 1; i < kDepth; ++i) {
                      ibv_wr_rdma_write(q, region_->rkey, address(kFar + 1024));
                      set(q, 64, 4);
                    }
                  }),
            0);
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    const Done sent = next(sends_);
    EXPECT_EQ(sent.wr_id, 9u);
    EXPECT_EQ(sent.opcode, i == 0 ? IBV_WC_SEND : IBV_WC_RDMA_WRITE);
  }
  const Done got = next(receives_);
  EXPECT_EQ(got.wr_id, 7u);
  EXPECT_EQ(got.byte_len, 4u);
  expect_at(2048, "kept");
  expect_nothing(sends_);
  expect_nothing(receives_);
}

TEST_F(Builder, AbortForgetsAMistakeAndLetsOthersStart) {
  connect_rc();
  receive(right_);
  ibv_qp_ex* const q = ibv_qp_to_qp_ex(left_);
  ibv_wr_start(q);
  set(q, 0, 8);  // there is no request yet
  ibv_wr_send(q);
  std::vector<char> too_much(kInline + 1);
  ibv_wr_set_inline_data(q, too_much.data(), too_much.size());
  ibv_wr_abort(q);
  int posted = -1;
  std::thread([&] {
    posted = build(left_, [&](ibv_qp_ex*) {
      ibv_wr_send(q);
      set(q, 0, 8);
    });
  }).join();
  ASSERT_EQ(posted, 0);
  EXPECT_EQ(next(sends_).opcode, IBV_WC_SEND);
  EXPECT_EQ(next(receives_).byte_len, 8u);
}

TEST_F(Builder, SendsWithImmediateData) {
  connect_rc();
  receive(right_, 5);
  put_at(0, "immediate");
  ASSERT_EQ(build(left_,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_send_imm(q, htobe32(0x01020304));
                    set(q, 0, 9);
                  }),
            0);
  EXPECT_EQ(next(sends_).opcode, IBV_WC_SEND);
  const Done got = next(receives_);
  EXPECT_EQ(got.wr_id, 5u);
  EXPECT_EQ(got.opcode, IBV_WC_RECV);
  EXPECT_EQ(got.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(got.imm_data, htobe32(0x01020304));
  EXPECT_EQ(got.byte_len, 9u);
  expect_at(2048, "immediate");
}

TEST_F(Builder, WritesWithAndWithoutImmediateData) {
  connect_rc();
  receive(right_, 6);
  put_at(0, "written");
  ASSERT_EQ(build(left_,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_rdma_write(q, region_->rkey, address(kFar + 256));
                    const ibv_sge parts[] = {{address(0), 3, region_->lkey},
                                             {address(3), 4, region_->lkey}};
                    ibv_wr_set_sge_list(q, 2, parts);
                    q->wr_id = 10;
                    ibv_wr_rdma_write_imm(q, region_->rkey, address(kFar + 512), htobe32(77));
                    set(q, 0, 5);
                  }),
            0);
  EXPECT_EQ(next(sends_).wr_id, 9u);
  const Done second = next(sends_);
  EXPECT_EQ(second.wr_id, 10u);
  EXPECT_EQ(second.opcode, IBV_WC_RDMA_WRITE);
  const Done got = next(receives_);
  EXPECT_EQ(got.wr_id, 6u);
  EXPECT_EQ(got.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(be32toh(got.imm_data), 77u);
  EXPECT_EQ(got.byte_len, 5u);
  expect_at(kFar + 256, "written");
  expect_at(kFar + 512, "writt");
  expect_at(kFar + 517, std::string(3, '\0'));
}

TEST_F(Builder, Reads) {
  connect_rc();
  put_at(kFar, "over there");
  ASSERT_EQ(build(left_,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_rdma_read(q, region_->rkey, address(kFar));
                    set(q, 0, 10);
                  }),
            0);
  const Done done = next(sends_);
  EXPECT_EQ(done.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(done.byte_len, 10u);
  expect_at(0, "over there");
  expect_nothing(receives_);
}

TEST_F(Builder, ComparesSwapsAndAdds) {
  connect_rc();
  set_word(kFar, 40);
  const auto run = [&](auto&& add) {
    set_word(0, ~0ull);
    EXPECT_EQ(build(left_,
                    [&](ibv_qp_ex* q) {
                      add(q);
                      set(q, 0, 8);
                    }),
              0);
    const Done done = next(sends_);
    EXPECT_EQ(done.byte_len, 8u);
    return done.opcode;
  };
  const std::uint32_t key = region_->rkey;
  const auto add = [&](ibv_qp_ex* q) { ibv_wr_atomic_fetch_add(q, key, address(kFar), 2); };
  EXPECT_EQ(run(add), IBV_WC_FETCH_ADD);
  EXPECT_EQ(word_at(0), 40u);
  EXPECT_EQ(word_at(kFar), 42u);
  const auto other = [&](ibv_qp_ex* q) { ibv_wr_atomic_cmp_swp(q, key, address(kFar), 41, 1); };
  EXPECT_EQ(run(other), IBV_WC_COMP_SWAP);
  EXPECT_EQ(word_at(0), 42u);
  EXPECT_EQ(word_at(kFar), 42u) << "it compared with another value";
  const auto swap = [&](ibv_qp_ex* q) { ibv_wr_atomic_cmp_swp(q, key, address(kFar), 42, 1); };
  EXPECT_EQ(run(swap), IBV_WC_COMP_SWAP);
  EXPECT_EQ(word_at(0), 42u);
  EXPECT_EQ(word_at(kFar), 1u);
}

TEST_F(Builder, LocalInvalidationClosesAWindow) {
  connect_rc();
  const ibv_mw* const mw = bind(right_);
  put_at(0, "through!");
  ASSERT_EQ(write_through(mw), 0);
  EXPECT_EQ(next(sends_).opcode, IBV_WC_RDMA_WRITE);
  expect_at(kFar, "through!");
  ASSERT_EQ(build(
                right_, [&](ibv_qp_ex* q) { ibv_wr_local_inv(q, mw->rkey); }, 12),
            0);
  const Done invalidated = next(sends_);
  EXPECT_EQ(invalidated.wr_id, 12u);
  EXPECT_EQ(invalidated.opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(invalidated.qp_num, right_->qp_num);
  put_at(0, "too late");
  ASSERT_EQ(write_through(mw), 0);
  EXPECT_NE(next(sends_, IBV_WC_REM_ACCESS_ERR).vendor_err, 0u);
  expect_at(kFar, "through!");
}

TEST_F(Builder, ASendInvalidatesTheReceiversWindow) {
  connect_rc();
  const ibv_mw* const mw = bind(right_);
  receive(right_, 8);
  put_at(0, "through!");
  ASSERT_EQ(write_through(mw), 0);
  EXPECT_EQ(next(sends_).opcode, IBV_WC_RDMA_WRITE);
  ASSERT_EQ(build(left_,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_send_inv(q, mw->rkey);
                    set(q, 0, 7);
                  }),
            0);
  EXPECT_EQ(next(sends_).opcode, IBV_WC_SEND);
  const Done got = next(receives_);
  EXPECT_EQ(got.wr_id, 8u);
  EXPECT_EQ(got.opcode, IBV_WC_RECV);
  EXPECT_EQ(got.wc_flags, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(got.invalidated_rkey, mw->rkey);
  EXPECT_EQ(got.byte_len, 7u);
  ASSERT_EQ(write_through(mw), 0);
  next(sends_, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Builder, TakesInlineDataFromAListAtOnce) {
  connect_rc();
  receive(right_);
  char one[] = "one, ", two[] = "two, ", three[] = "three";
  ASSERT_EQ(build(left_,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_send(q);
                    const ibv_data_buf list[] = {{one, 5}, {two, 5}, {two, 0}, {three, 5}};
                    ibv_wr_set_inline_data_list(q, 4, list);
                    for (char* text : {one, two, three}) std::memset(text, 'x', 5);
                  }),
            0);
  EXPECT_EQ(next(sends_).opcode, IBV_WC_SEND);
  EXPECT_EQ(next(receives_).byte_len, 15u);
  expect_at(2048, "one, two, three");
}

TEST_F(Builder, CountsTheBytesOfAnInlineList) {
  connect_rc();
  std::vector<char> half(kInline / 2, 'h');
  ibv_data_buf list[] = {{half.data(), half.size()}, {half.data(), half.size()}, {half.data(), 1}};
  const auto send = [&](std::size_t count) {
    return build(left_, [&](ibv_qp_ex* q) {
      ibv_wr_send(q);
      ibv_wr_set_inline_data_list(q, count, list);
    });
  };
  ASSERT_EQ(send(3), EINVAL) << "one byte more than max_inline_data";
  expect_nothing(sends_);
  receive(right_, 1);
  receive(right_, 2);
  ASSERT_EQ(send(2), 0);
  ASSERT_EQ(send(0), 0);
  EXPECT_EQ(next(receives_).byte_len, kInline);
  expect_at(2048, std::string(kInline, 'h'));
  EXPECT_EQ(next(receives_).byte_len, 0u);
}

TEST_F(Builder, AddressesDatagrams) {
  ibv_qp* const left = make_builder(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
  join(left, make_builder(IBV_QPT_UD, 0));
  ibv_ah_attr to = to_self(false);
  ahs_.push_back(ibv_create_ah(pd_, &to));
  ASSERT_NE(ahs_.back(), nullptr);
  receive(right_, 1);
  receive(left_, 2);
  put_at(0, "datagram");
  ASSERT_EQ(build(left_,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_send_imm(q, htobe32(5));
                    ibv_wr_set_ud_addr(q, ahs_.back(), right_->qp_num, kQkey);
                    set(q, 0, 8);
                    ibv_wr_send(q);
                    ibv_wr_set_ud_addr(q, ahs_.back(), left_->qp_num, kQkey);
                    set(q, 0, 4);
                  }),
            0);
  for (const std::uint64_t id : {1u, 2u}) {
    const Done got = next(receives_);
    EXPECT_EQ(got.wr_id, id);
    EXPECT_EQ(got.qp_num, (id == 1 ? right_ : left_)->qp_num);
    EXPECT_EQ(got.src_qp, left_->qp_num);
    EXPECT_EQ(got.byte_len, kGrh + (id == 1 ? 8u : 4u));
    EXPECT_EQ((got.wc_flags & IBV_WC_WITH_IMM) != 0, id == 1);
  }
}

TEST_F(Builder, NamesTheSharedQueueOfXrc) {
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = O_CREAT;
  domain_ = ibv_open_xrcd(context_, &domain);
  ASSERT_NE(domain_, nullptr);
  ibv_srq* queues[2] = {};
  std::uint32_t numbers[2] = {};
  for (std::uint64_t i = 0; i < 2; ++i) {
    ibv_srq_init_attr_ex init{};
    init.attr = {kDepth, 1, 0};
    init.srq_type = IBV_SRQT_XRC;
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    init.pd = pd_;
    init.cq = ibv_cq_ex_to_cq(receives_);
    init.xrcd = domain_;
    queues[i] = ibv_create_srq_ex(context_, &init);
    ASSERT_NE(queues[i], nullptr);
    ASSERT_EQ(ibv_get_srq_num(queues[i], &numbers[i]), 0);
    ibv_sge sge{address(kFar + 100 * i), 100, region_->lkey};
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(ibv_post_srq_recv(queues[i], &wr, &bad), 0);
  }
  ibv_qp* const left = make_builder(IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_SEND);
  join(left, make_builder(IBV_QPT_XRC_RECV, 0));
  put_at(0, "one");
  put_at(8, "zero");
  ASSERT_EQ(build(left_,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_send(q);
                    ibv_wr_set_xrc_srqn(q, numbers[1]);
                    set(q, 0, 3);
                    ibv_wr_send(q);
                    ibv_wr_set_xrc_srqn(q, numbers[0]);
                    set(q, 8, 4);
                  }),
            0);
  for (const std::uint64_t id : {1u, 0u}) {
    const Done got = next(receives_);
    EXPECT_EQ(got.wr_id, id);
    EXPECT_EQ(got.qp_num, right_->qp_num);
    EXPECT_EQ(got.byte_len, id == 1 ? 3u : 4u);
  }
  expect_at(kFar, "zero");
  expect_at(kFar + 100, "one");
  for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  for (ibv_srq* queue : queues) EXPECT_EQ(ibv_destroy_srq(queue), 0);
}

}  // namespace
}  // namespace verbs_test
