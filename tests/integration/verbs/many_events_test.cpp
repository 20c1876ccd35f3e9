// SPDX-License-Identifier: BSD-2-Clause
// More events than a pipe holds wait for a program that does not read. None is lost, whichever way
// the program reads them in the end.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <vector>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

class ManyCompletionEvents : public Verbs {
 protected:
  static constexpr std::size_t kQueues = 4;
  static constexpr int kMany = 3000;  // events of each queue; a pipe holds 8192

  void SetUp() override {
    Verbs::SetUp();
    channel_ = ibv_create_comp_channel(context_);
    ASSERT_NE(channel_, nullptr);
    for (std::size_t i = 0; i < kQueues; ++i) {
      queues_[i] = ibv_create_cq(context_, 16, nullptr, channel_, 0);
      ASSERT_NE(queues_[i], nullptr);
      senders_[i] = make({IBV_QPT_RC, nullptr, 1, queues_[i], nullptr});
      ibv_qp* const receiver = make();
      to_rtr(senders_[i], receiver);
      to_rtr(receiver, senders_[i]);
      to_rts(senders_[i]);
      to_rts(receiver);
    }
  }
  void TearDown() override {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
    for (ibv_cq* queue : queues_) {
      if (queue != nullptr) {
        EXPECT_EQ(ibv_destroy_cq(queue), 0);
      }
    }
    Verbs::TearDown();
  }
  // Raises events of each queue in turn. A completion may be visible before its event.
  void raise(int of_each) {
    for (int n = 0; n < of_each; ++n) {
      for (std::size_t i = 0; i < kQueues; ++i) {
        ASSERT_EQ(ibv_req_notify_cq(queues_[i], 0), 0);
        post(senders_[i], request(IBV_WR_RDMA_WRITE), 8);
        ibv_wc wc{};
        while (ibv_poll_cq(queues_[i], 1, &wc) == 0) {
        }
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      }
    }
  }
  void set_nonblocking() {
    ASSERT_EQ(::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  }
  // Takes an event by libibverbs. Returns false if there is none.
  bool take() {
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    if (ibv_get_cq_event(channel_, &cq, &cookie) != 0) return false;
    note(cq);
    return true;
  }
  // Reads events from the channel's file, by a system call that no wrapper sees.
  bool take_directly() {
    std::array<ibv_cq*, 100> seen{};
    const long got = ::syscall(SYS_read, channel_->fd, seen.data(), sizeof seen);
    for (long i = 0; i * static_cast<long>(sizeof(void*)) < got; ++i) {
      note(seen[static_cast<std::size_t>(i)]);
    }
    return got > 0;
  }
  void note(ibv_cq* cq) {
    for (std::size_t i = 0; i < kQueues; ++i) {
      if (queues_[i] != cq) continue;
      ++taken_[i];
      ++all_taken_;
      ibv_ack_cq_events(cq, 1);
      return;
    }
    FAIL() << "an event of no queue of ours";
  }
  // Takes events until all that were raised have come. `await` returns whether there is something
  // to read.
  void take_all(const std::function<bool()>& await, const std::function<bool()>& take_some,
                int of_each = kMany) {
    while (all_taken_ < of_each * static_cast<int>(kQueues)) {
      ASSERT_TRUE(await()) << all_taken_ << " events";
      while (take_some()) {
      }
    }
    for (const int taken : taken_) EXPECT_EQ(taken, of_each);
    EXPECT_FALSE(take_some());
  }
  bool is_polled() {
    pollfd p{channel_->fd, POLLIN, 0};
    return ::poll(&p, 1, kPatienceMs) == 1;
  }

  std::array<ibv_cq*, kQueues> queues_{};
  std::array<ibv_qp*, kQueues> senders_{};
  std::array<int, kQueues> taken_{};
  int all_taken_ = 0;
};

TEST_F(ManyCompletionEvents, AreReadOneByOne) {
  raise(kMany);
  for (std::size_t i = 0; i < kMany * kQueues; ++i) ASSERT_TRUE(take());
  set_nonblocking();
  take_all([] { return true; }, [this] { return take(); });
}

TEST_F(ManyCompletionEvents, AreReadAsPollTells) {
  set_nonblocking();
  raise(kMany);
  take_all([this] { return is_polled(); }, [this] { return take(); });
}

TEST_F(ManyCompletionEvents, AreReadAsPollTellsIfThePipeCannotGrowFurther) {
  constexpr int kBeyond = 34'000;  // a pipe of 1 MiB holds 131,072
  set_nonblocking();
  raise(kBeyond);
  take_all([this] { return is_polled(); }, [this] { return take(); }, kBeyond);
}

TEST_F(ManyCompletionEvents, AreReadAsSelectTells) {
  set_nonblocking();
  raise(kMany);
  take_all(
      [this] {
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(channel_->fd, &readable);
        timeval patience{kPatienceMs / 1000, 0};
        return ::select(channel_->fd + 1, &readable, nullptr, nullptr, &patience) == 1;
      },
      [this] { return take_directly(); });
}

TEST_F(ManyCompletionEvents, AreReadAsAnEdgeOfEpollTells) {
  const int set = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN | EPOLLET, {}};
  ASSERT_EQ(::epoll_ctl(set, EPOLL_CTL_ADD, channel_->fd, &event), 0);
  set_nonblocking();
  raise(kMany);
  take_all([&] { return ::epoll_wait(set, &event, 1, kPatienceMs) == 1; },
           [this] { return take_directly(); });
  ::close(set);
}

TEST_F(ManyCompletionEvents, AreReadByAForkedChild) {
  set_nonblocking();
  raise(kMany);
  const pid_t child = ::fork();
  if (child == 0) {
    take_all([this] { return is_polled(); }, [this] { return take_directly(); });
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (ibv_cq* queue : queues_) ibv_ack_cq_events(queue, kMany);
  EXPECT_FALSE(take());
}

TEST_F(ManyCompletionEvents, AChildThatDestroysItsCopiesTakesNone) {
  set_nonblocking();
  raise(kMany);
  const pid_t child = ::fork();
  if (child == 0) {
    TearDown();
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  take_all([this] { return is_polled(); }, [this] { return take(); });
}

TEST_F(ManyCompletionEvents, ThoseOfADestroyedQueueGoWithIt) {
  set_nonblocking();
  raise(kMany);
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    if (qps_[i] != senders_[1]) continue;
    EXPECT_EQ(ibv_destroy_qp(qps_[i]), 0);
    qps_.erase(qps_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  EXPECT_EQ(ibv_destroy_cq(queues_[1]), 0);
  queues_[1] = nullptr;
  const int left = kMany * static_cast<int>(kQueues - 1);
  while (all_taken_ < left) {
    ASSERT_TRUE(is_polled()) << all_taken_;
    while (take()) {
    }
  }
  EXPECT_EQ(taken_, (std::array<int, kQueues>{kMany, 0, kMany, kMany}));
}

class ManyAsynchronousEvents : public Verbs {
 protected:
  static constexpr int kMany = 5000;  // a pipe holds 4096

  void SetUp() override {
    Verbs::SetUp();
    for (ibv_srq*& queue : queues_) {
      ibv_srq_init_attr init{};
      init.attr = {16, 1, 0};
      queue = ibv_create_srq(pd_, &init);
      ASSERT_NE(queue, nullptr);
      connect({IBV_QPT_RC, queue, 1});
      senders_.push_back(left_);
    }
  }
  void TearDown() override {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
    for (ibv_srq* queue : queues_) {
      if (queue != nullptr) {
        EXPECT_EQ(ibv_destroy_srq(queue), 0);
      }
    }
    Verbs::TearDown();
  }
  // Picks queues irregularly, so that a wrong order shows.
  static std::size_t queue_of(int event) { return static_cast<std::size_t>(event * event / 3 % 2); }
  // The message takes the only receive, so fewer than the limit of one remain.
  void raise(std::size_t queue) {
    ibv_sge sge = at(2048, 1024);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(ibv_post_srq_recv(queues_[queue], &wr, &bad), 0);
    ibv_srq_attr a{16, 1, 1};
    ASSERT_EQ(ibv_modify_srq(queues_[queue], &a, IBV_SRQ_LIMIT), 0);
    post(senders_[queue], request(), 8);
    for (int both = 0; both < 2; ++both) ASSERT_EQ(poll().status, IBV_WC_SUCCESS);
  }

  std::array<ibv_srq*, 2> queues_{};
  std::vector<ibv_qp*> senders_;
};

TEST_F(ManyAsynchronousEvents, KeepTheirOrder) {
  for (int i = 0; i < kMany; ++i) raise(queue_of(i));
  for (int i = 0; i < kMany; ++i) {
    expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, queues_[queue_of(i)]);
    ASSERT_FALSE(HasFailure()) << i;
  }
  expect_no_event();
}

TEST_F(ManyAsynchronousEvents, ThoseOfADestroyedQueueGoWithIt) {
  int left = 0;
  for (int i = 0; i < kMany; ++i) {
    raise(queue_of(i));
    if (queue_of(i) == 1) ++left;
  }
  for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  EXPECT_EQ(ibv_destroy_srq(queues_[0]), 0);
  queues_[0] = nullptr;
  for (int i = 0; i < left; ++i) {
    expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, queues_[1]);
    ASSERT_FALSE(HasFailure()) << i;
  }
  expect_no_event();
}

}  // namespace
}  // namespace verbs_test
