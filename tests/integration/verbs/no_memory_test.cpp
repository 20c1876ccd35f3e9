// SPDX-License-Identifier: BSD-2-Clause
// A program that has no memory left posts its first requests. They are refused, and the program
// goes on.
#include <malloc.h>
#include <sys/resource.h>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

// While it lives, the process gets no more memory than it has.
class Poverty {
 public:
  Poverty() {
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
    const rlimit less_than_it_has{1 << 20, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &less_than_it_has), 0);
  }
  ~Poverty() { EXPECT_EQ(::setrlimit(RLIMIT_AS, &before_), 0); }

 private:
  rlimit before_{};
};

class NoMemory : public Verbs {
 protected:
  void SetUp() override {
    // The C library must have no spare memory: neither what another test has freed, nor the address
    // space that it reserves for each thread.
    ::mallopt(M_MMAP_THRESHOLD, 64 * 1024);
    ::mallopt(M_ARENA_MAX, 1);
    Verbs::SetUp();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers need address space of their own";
#endif
    ASSERT_EQ(ibv_query_device(context_, &limits_), 0);
  }
  Shape longest() const {
    const auto sges = static_cast<std::uint32_t>(limits_.max_sge);
    const auto requests = static_cast<std::uint32_t>(limits_.max_qp_wr);
    return {.caps = {requests, requests, sges, sges, 0}};
  }

  ibv_device_attr limits_{};
  ibv_recv_wr receive_{};
};

TEST_F(NoMemory, ReceivesAreRefused) {
  ibv_srq_init_attr srq_init{};
  srq_init.attr.max_wr = static_cast<std::uint32_t>(limits_.max_srq_wr);
  srq_init.attr.max_sge = static_cast<std::uint32_t>(limits_.max_srq_sge);
  ibv_srq* const srq = ibv_create_srq(pd_, &srq_init);
  ASSERT_NE(srq, nullptr);
  left_ = make(longest());
  ibv_recv_wr* bad = nullptr;
  {
    const Poverty poverty;
    EXPECT_EQ(ibv_post_recv(left_, &receive_, &bad), ENOMEM);
    EXPECT_EQ(bad, &receive_);
    bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(srq, &receive_, &bad), ENOMEM);
    EXPECT_EQ(bad, &receive_);
  }
  EXPECT_EQ(ibv_post_recv(left_, &receive_, &bad), 0);
  EXPECT_EQ(ibv_post_srq_recv(srq, &receive_, &bad), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(NoMemory, SendsAreRefused) {
  left_ = make(longest());
  right_ = make();
  to_rtr(left_, right_);
  to_rts(left_);
  ibv_sge part{reinterpret_cast<std::uintptr_t>(bytes_), 8, mr_->lkey};
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  write.sg_list = &part;
  write.num_sge = 1;
  ibv_send_wr add = write;
  add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  ibv_send_wr* bad = nullptr;
  {
    const Poverty poverty;
    EXPECT_EQ(ibv_post_send(left_, &write, &bad), ENOMEM);
    EXPECT_EQ(bad, &write);
  }
  EXPECT_EQ(ibv_post_send(left_, &write, &bad), 0);
  {
    const Poverty poverty;
    EXPECT_EQ(ibv_post_send(left_, &add, &bad), ENOMEM);
    EXPECT_EQ(bad, &add);
  }
  EXPECT_EQ(ibv_post_send(left_, &add, &bad), 0);
}

}  // namespace
}  // namespace verbs_test
