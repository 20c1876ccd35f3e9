// SPDX-License-Identifier: BSD-2-Clause
// When a queue is full. A request keeps its slot until its completion was polled, or, if it is
// unsignaled, that of a later request. A receive keeps its slot until its completion was polled. So
// each queue takes as many as it said, and always refuses the next one at the same place.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

constexpr std::uint32_t kDepth = 8;

// left_ writes to right_, which needs no completions for that.
class Slots : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    quiet_ = ibv_create_cq(context_, 4096, nullptr, nullptr, 0);
    ASSERT_NE(quiet_, nullptr);
  }
  void TearDown() override {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
    EXPECT_EQ(ibv_destroy_cq(quiet_), 0);
    if (ex_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex_)), 0);
    }
    if (mw_ != nullptr) {
      EXPECT_EQ(ibv_dealloc_mw(mw_), 0);
    }
    Verbs::TearDown();
  }

  ibv_qp* make_of(ibv_cq* cq, bool signals_all = false, bool has_builder = false) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = cq;
    init.cap = {kDepth, kDepth, 1, 1, 0};
    init.sq_sig_all = signals_all ? 1 : 0;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd_;
    if (has_builder) {
      init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    }
    ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
    EXPECT_NE(qp, nullptr);
    EXPECT_EQ(init.cap.max_send_wr, kDepth);
    EXPECT_EQ(init.cap.max_recv_wr, kDepth);
    qps_.push_back(qp);
    return qp;
  }
  void to_init(ibv_qp* qp) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    ASSERT_EQ(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
  }
  void join(ibv_qp* one, ibv_qp* other) {
    to_init(one);
    to_init(other);
    to_rtr(one, other);
    to_rtr(other, one);
    to_rts(one);
    to_rts(other);
  }
  // Connects left_, which completes in `cq`, with right_.
  void connect_with(ibv_cq* cq, bool signals_all = false, bool has_builder = false) {
    left_ = make_of(cq, signals_all, has_builder);
    right_ = make_of(quiet_);
    join(left_, right_);
  }

  // Posts a WRITE, which needs no receive.
  int write(ibv_qp* qp, unsigned flags, std::uint64_t id = 2) {
    ibv_sge sge = at(0, 8);
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE);
    ibv_send_wr* bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = flags;
    return ibv_post_send(qp, &wr, &bad);
  }
  // Returns how many requests the queue takes until it is full.
  std::uint32_t fill(ibv_qp* qp, unsigned flags) {
    std::uint32_t taken = 0;
    int error = 0;
    while (taken < 5000 && (error = write(qp, flags)) == 0) ++taken;
    EXPECT_EQ(error, ENOMEM);
    return taken;
  }
  // Lets the device work until all posted requests are acknowledged. They keep their slots.
  void let_it_be_done(ibv_qp* qp) {
    ibv_qp_attr a{};
    ibv_qp_init_attr init{};
    for (int i = 0; i < 200; ++i) {
      ibv_wc wc;
      ASSERT_EQ(ibv_poll_cq(quiet_, 1, &wc), 0);  // lets the device work
      ASSERT_EQ(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
      usleep(200);
    }
  }
  void poll_from(ibv_cq* cq, std::uint32_t count, ibv_wc_status status = IBV_WC_SUCCESS) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ibv_wc wc{};
      int got = 0;
      for (int tries = 0; tries < 1'000'000 && got == 0; ++tries) got = ibv_poll_cq(cq, 1, &wc);
      ASSERT_EQ(got, 1);
      ASSERT_EQ(wc.status, status);
    }
  }

  ibv_cq* quiet_ = nullptr;  // polled only to let the device work
  ibv_cq_ex* ex_ = nullptr;
  ibv_mw* mw_ = nullptr;
};

TEST_F(Slots, OfRequestsThatAreNeverSignaledAreNeverFree) {
  for (int round = 0; round < 3; ++round) {
    connect_with(cq_);
    EXPECT_EQ(fill(left_, 0), kDepth);
    let_it_be_done(left_);
    EXPECT_EQ(write(left_, 0), ENOMEM);
    EXPECT_EQ(write(left_, IBV_SEND_SIGNALED), ENOMEM);
  }
}

TEST_F(Slots, OfSignaledRequestsAreFreeWhenTheyWerePolled) {
  for (const bool all : {false, true}) {
    connect_with(cq_, all);
    const unsigned flags = all ? 0 : IBV_SEND_SIGNALED;
    EXPECT_EQ(fill(left_, flags), kDepth);
    let_it_be_done(left_);
    EXPECT_EQ(write(left_, flags), ENOMEM) << "nobody has polled";
    for (std::uint32_t polled = 1; polled <= kDepth; ++polled) {
      poll_from(cq_, polled);
      ASSERT_EQ(fill(left_, flags), polled);
    }
    poll_from(cq_, kDepth);
  }
}

TEST_F(Slots, OfUnsignaledRequestsAreFreeWithALaterOne) {
  connect_with(cq_);
  for (int round = 0; round < 20; ++round) {
    const int unsignaled = round % static_cast<int>(kDepth);
    for (int i = 0; i < unsignaled; ++i) ASSERT_EQ(write(left_, 0), 0);
    ASSERT_EQ(write(left_, IBV_SEND_SIGNALED), 0);
    const std::uint32_t rest = kDepth - 1 - static_cast<std::uint32_t>(unsignaled);
    ASSERT_EQ(fill(left_, 0), rest);
    poll_from(cq_, 1);
    // The requests behind the polled one still have their slots.
    for (std::uint32_t i = 0; i < kDepth - rest - 1; ++i) ASSERT_EQ(write(left_, 0), 0);
    ASSERT_EQ(write(left_, IBV_SEND_SIGNALED), 0);
    ASSERT_EQ(write(left_, 0), ENOMEM);
    poll_from(cq_, 1);
  }
}

// A slot is free once the reader moves on, before it ends its poll.
TEST_F(Slots, AreFreeAsTheExtendedPollReads) {
  ibv_cq_init_attr_ex init{};
  init.cqe = 100;
  init.wc_flags = IBV_CREATE_CQ_SUP_WC_FLAGS;  // all fields that there are
  ex_ = ibv_create_cq_ex(context_, &init);
  ASSERT_NE(ex_, nullptr);
  connect_with(ibv_cq_ex_to_cq(ex_));
  ASSERT_EQ(fill(left_, IBV_SEND_SIGNALED), kDepth);
  let_it_be_done(left_);
  ibv_poll_cq_attr attr{};
  int error = ENOENT;
  for (int tries = 0; tries < 1'000'000 && error == ENOENT; ++tries) {
    error = ibv_start_poll(ex_, &attr);
  }
  ASSERT_EQ(error, 0);
  EXPECT_EQ(ibv_wc_read_cvlan(ex_), 0u);
  EXPECT_EQ(ibv_wc_read_flow_tag(ex_), 0u);
  ASSERT_EQ(fill(left_, 0), 1u);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_next_poll(ex_), 0);
    ASSERT_EQ(fill(left_, 0), 1u);
  }
  ibv_end_poll(ex_);
  EXPECT_EQ(write(left_, 0), ENOMEM);
  poll_from(ibv_cq_ex_to_cq(ex_), kDepth - 4);
  EXPECT_EQ(fill(left_, 0), kDepth - 4);
}

// The receives of a shared queue, when their last user with this completion queue is destroyed
// while a reader looks.
TEST_F(Slots, OfASharedQueueOutliveItsUsers) {
  ibv_srq_init_attr shared{};
  shared.attr = {kDepth, 1, 0};
  ibv_srq* const srq = ibv_create_srq(pd_, &shared);
  ASSERT_NE(srq, nullptr);
  const auto fill_srq = [&] {
    ibv_sge sge = at(2048, 1024);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    std::uint32_t taken = 0;
    while (taken < 100 && ibv_post_srq_recv(srq, &wr, &bad) == 0) ++taken;
    return taken;
  };
  ASSERT_EQ(fill_srq(), kDepth);
  for (int round = 0; round < 4; ++round) {
    ibv_cq_init_attr_ex init{};
    init.cqe = 100;
    ex_ = ibv_create_cq_ex(context_, &init);
    ASSERT_NE(ex_, nullptr);
    Shape receives;
    receives.srq = srq;
    receives.receive_cq = receives.send_cq = ibv_cq_ex_to_cq(ex_);
    connect(receives);
    for (std::uint32_t i = 0; i < kDepth; ++i) post(left_, request());
    poll_from(cq_, kDepth);
    ibv_poll_cq_attr attr{};
    ASSERT_EQ(ibv_start_poll(ex_, &attr), 0);
    ASSERT_EQ(ibv_next_poll(ex_), 0);
    ASSERT_EQ(qps_.back(), right_);
    qps_.pop_back();
    ASSERT_EQ(ibv_destroy_qp(right_), 0);
    while (ibv_next_poll(ex_) == 0) {
    }
    ibv_end_poll(ex_);
    ASSERT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex_)), 0);
    ex_ = nullptr;
    ASSERT_EQ(fill_srq(), kDepth) << round;
  }
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Slots, AreTheBuildersToo) {
  connect_with(cq_, false, true);
  ibv_qp_ex* const q = ibv_qp_to_qp_ex(left_);
  const auto build = [&](std::uint32_t count) {
    ibv_wr_start(q);
    for (std::uint32_t i = 0; i < count; ++i) {
      q->wr_flags = i + 1 == count ? IBV_SEND_SIGNALED : 0;
      ibv_wr_rdma_write(q, mr_->rkey, reinterpret_cast<std::uintptr_t>(bytes_) + 2048);
      ibv_wr_set_sge(q, mr_->lkey, reinterpret_cast<std::uintptr_t>(bytes_), 8);
    }
    return ibv_wr_complete(q);
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(build(kDepth + 1), ENOMEM) << "all or none";
    ASSERT_EQ(build(kDepth - 1), 0);
    EXPECT_EQ(build(2), ENOMEM);
    ASSERT_EQ(build(1), 0);
    let_it_be_done(left_);
    EXPECT_EQ(build(1), ENOMEM);
    poll_from(cq_, 2);
  }
}

// Local operations send nothing, but take slots as all others do.
TEST_F(Slots, AreTakenByLocalOperations) {
  connect_with(cq_);
  mw_ = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ibv_mr* const region = ibv_reg_mr(pd_, bytes_, sizeof bytes_, +IBV_ACCESS_MW_BIND);
  ASSERT_TRUE(mw_ != nullptr && region != nullptr);
  const auto bind = [&](unsigned flags) {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = flags;
    wr.bind_mw.mw = mw_;
    wr.bind_mw.rkey = ibv_inc_rkey(mw_->rkey);
    wr.bind_mw.bind_info = {region, reinterpret_cast<std::uintptr_t>(bytes_), 64, 0};
    return ibv_post_send(left_, &wr, &bad);
  };
  const auto invalidate = [&](unsigned flags) {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.send_flags = flags;
    wr.invalidate_rkey = ibv_inc_rkey(mw_->rkey);
    return ibv_post_send(left_, &wr, &bad);
  };
  ASSERT_EQ(bind(0), 0);
  ASSERT_EQ(invalidate(IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(fill(left_, 0), kDepth - 2);
  EXPECT_EQ(bind(0), ENOMEM);
  poll_from(cq_, 1);
  EXPECT_EQ(fill(left_, 0), 2u);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_F(Slots, OfFlushedRequestsAreFreeWhenTheyWerePolled) {
  connect_with(cq_);
  ASSERT_EQ(write(left_, 0), 0);
  let_it_be_done(left_);
  ASSERT_EQ(to_state(left_, IBV_QPS_ERR), 0);
  // The unsignaled request had finished. Flushed requests complete in any case.
  EXPECT_EQ(fill(left_, 0), kDepth - 1);
  poll_from(cq_, 3, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(fill(left_, 0), 4u) << "three, and the one before them";
  poll_from(cq_, kDepth, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(fill(left_, 0), kDepth);
}

TEST_F(Slots, AreAllFreeAfterAReset) {
  connect_with(cq_);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(fill(left_, round % 2 == 0 ? IBV_SEND_SIGNALED : 0), kDepth);
    let_it_be_done(left_);
    for (ibv_qp* qp : {left_, right_}) ASSERT_EQ(to_state(qp, IBV_QPS_RESET), 0);
    join(left_, right_);
    ibv_wc wc;
    ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  }
  EXPECT_EQ(fill(left_, 0), kDepth);
}

TEST_F(Slots, AreEachQueuePairsOwn) {
  connect_with(cq_);
  ibv_qp* const first = left_;
  connect_with(cq_);
  ASSERT_EQ(fill(first, IBV_SEND_SIGNALED), kDepth);
  ASSERT_EQ(fill(left_, 0), kDepth);
  poll_from(cq_, kDepth);
  EXPECT_EQ(write(left_, 0), ENOMEM);
  EXPECT_EQ(fill(first, IBV_SEND_SIGNALED), kDepth);
  let_it_be_done(first);
  // The queue pair's completions vanish with it, and free no slots of the next queue pair.
  EXPECT_EQ(ibv_destroy_qp(first), 0);
  std::erase(qps_, first);
  connect_with(cq_);
  EXPECT_EQ(fill(left_, IBV_SEND_SIGNALED), kDepth);
  poll_from(cq_, kDepth);
  EXPECT_EQ(fill(left_, 0), kDepth);
}

TEST_F(Slots, StayCountedWhereTheCompletionQueueIsResized) {
  connect_with(cq_);
  ASSERT_EQ(fill(left_, IBV_SEND_SIGNALED), kDepth);
  let_it_be_done(left_);
  ASSERT_EQ(ibv_resize_cq(cq_, 4000), 0);
  EXPECT_EQ(write(left_, 0), ENOMEM);
  poll_from(cq_, 5);
  ASSERT_EQ(ibv_resize_cq(cq_, 50), 0);
  EXPECT_EQ(fill(left_, 0), 5u);
}

// With several threads that post and poll, never more requests are outstanding than the queue
// holds, and no slot is lost.
TEST_F(Slots, AreCountedByManyThreads) {
  constexpr int kPosts = 4000;
  connect_with(cq_);
  std::atomic<int> begun{0}, posted{0}, polled{0}, most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (begun.fetch_add(1) < kPosts) {
        for (;;) {
          const int polled_before = polled;
          const int error = write(left_, IBV_SEND_SIGNALED);
          if (error == 0) {
            // So many requests were outstanding, or fewer if a thread has not counted all that it
            // polled.
            const int out = ++posted - polled;
            if (out > most) most = out;
            break;
          }
          ASSERT_EQ(error, ENOMEM);
          if (polled == polled_before) std::this_thread::yield();
        }
      }
    });
    threads.emplace_back([&] {
      ibv_wc wc[3];
      while (polled < kPosts) {
        const int got = ibv_poll_cq(cq_, 3, wc);
        ASSERT_GE(got, 0);
        polled += got;
        if (got == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(polled, kPosts);
  // Each of the two polling threads may count three polled completions late.
  EXPECT_LE(most, static_cast<int>(kDepth) + 2 * 3);
  EXPECT_EQ(fill(left_, 0), kDepth);
}

TEST_F(Slots, OfReceivesAreFreeWhenTheyWerePolled) {
  left_ = make_of(quiet_);
  right_ = make_of(cq_);
  join(left_, right_);
  const auto receive_one = [&] {
    ibv_sge sge = at(2048, 1024);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_recv(right_, &wr, &bad);
  };
  const auto fill_receives = [&] {
    std::uint32_t taken = 0;
    while (taken < 100 && receive_one() == 0) ++taken;
    EXPECT_EQ(receive_one(), ENOMEM);
    return taken;
  };
  ASSERT_EQ(fill_receives(), kDepth);
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    ibv_send_wr wr = request();
    wr.send_flags = i + 1 == kDepth ? IBV_SEND_SIGNALED : 0;
    post(left_, wr);
  }
  poll_from(quiet_, 1);
  let_it_be_done(left_);
  EXPECT_EQ(receive_one(), ENOMEM) << "all have arrived, and nobody has polled";
  poll_from(cq_, 3);
  EXPECT_EQ(fill_receives(), 3u);
  poll_from(cq_, kDepth - 3);
  EXPECT_EQ(fill_receives(), kDepth - 3);
  ASSERT_EQ(to_state(right_, IBV_QPS_ERR), 0);
  EXPECT_EQ(receive_one(), ENOMEM);
  poll_from(cq_, 2, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(fill_receives(), 2u);
  for (ibv_qp* qp : {left_, right_}) ASSERT_EQ(to_state(qp, IBV_QPS_RESET), 0);
  join(left_, right_);
  EXPECT_EQ(fill_receives(), kDepth);
}

// Receives of a shared queue are free once polled, whichever completion queue its users have.
TEST_F(Slots, OfASharedQueueAreFreeWhenTheyWerePolled) {
  ibv_srq_init_attr init{};
  init.attr = {kDepth, 1, 0};
  srq_ = ibv_create_srq(pd_, &init);
  ASSERT_NE(srq_, nullptr);
  const auto receive_one = [&] {
    ibv_sge sge = at(2048, 1024);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_srq_recv(srq_, &wr, &bad);
  };
  const auto fill_receives = [&] {
    std::uint32_t taken = 0;
    while (taken < 100 && receive_one() == 0) ++taken;
    EXPECT_EQ(receive_one(), ENOMEM);
    return taken;
  };
  ibv_cq* const second = ibv_create_cq(context_, 100, nullptr, nullptr, 0);
  ASSERT_NE(second, nullptr);
  std::vector<ibv_qp*> senders;
  for (ibv_cq* cq : {cq_, second}) {
    Shape shape;
    shape.srq = srq_;
    shape.send_cq = shape.receive_cq = cq;
    ibv_qp* const receiver = make(shape);
    ibv_qp* const sender = make_of(quiet_);
    to_init(sender);
    to_rtr(sender, receiver);
    to_rtr(receiver, sender);
    to_rts(sender);
    to_rts(receiver);
    senders.push_back(sender);
  }
  ASSERT_EQ(fill_receives(), kDepth);
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    ibv_send_wr wr = request();
    wr.send_flags = IBV_SEND_SIGNALED;
    post(senders[i % 2], wr);
    poll_from(quiet_, 1);
  }
  EXPECT_EQ(receive_one(), ENOMEM) << "all have arrived, and nobody has polled";
  poll_from(cq_, 1);
  EXPECT_EQ(fill_receives(), 1u);
  poll_from(second, 2);
  EXPECT_EQ(fill_receives(), 2u);
  // Destroying a queue pair frees the receives that it has completed and that were not polled.
  for (ibv_qp* qp : std::vector<ibv_qp*>(qps_)) {
    if (qp->recv_cq != second) continue;
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    std::erase(qps_, qp);
  }
  EXPECT_EQ(fill_receives(), kDepth / 2 - 2);
  EXPECT_EQ(ibv_destroy_cq(second), 0);
}

}  // namespace
}  // namespace verbs_test
