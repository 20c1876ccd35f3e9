// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs that share no completion queue are divided among several engines of an opened device.
// A program must notice nothing but the speed of its threads.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

constexpr std::uint32_t kSlotShift = 14;  // bits of a queue pair number below its slot

std::uint32_t slot_of(const ibv_qp* qp) { return qp->qp_num >> kSlotShift; }

std::ptrdiff_t entries_of(const char* directory) {
  std::filesystem::directory_iterator begin(directory), end;
  return std::distance(begin, end);
}

class Engines : public Verbs {
 protected:
  static constexpr const char* kWanted = "3";

  void SetUp() override {
    ::setenv("VERBENA_ENGINES", kWanted, 1);
    Verbs::SetUp();
  }
  void TearDown() override {
    Verbs::TearDown();
    ::unsetenv("VERBENA_ENGINES");
  }
  ibv_cq* make_cq(ibv_comp_channel* channel = nullptr) {
    ibv_cq* const cq = ibv_create_cq(context_, 100, nullptr, channel, 0);
    EXPECT_NE(cq, nullptr);
    return cq;
  }
  ibv_qp* make_with(ibv_cq* send, ibv_cq* receive, ibv_qp_type type = IBV_QPT_RC) {
    Shape shape;
    shape.type = type;
    shape.send_cq = send;
    shape.receive_cq = receive;
    ibv_qp* const qp = make(shape);
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  ibv_qp* make_with(ibv_cq* cq) { return make_with(cq, cq); }
  void join(ibv_qp* one, ibv_qp* other) {
    to_rtr(one, other);
    to_rtr(other, one);
    to_rts(one);
    to_rts(other);
  }
  // Destroys the queue pairs before the completion queues.
  void destroy(std::initializer_list<ibv_cq*> cqs) {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
    for (ibv_cq* cq : cqs) EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
  static ibv_wc next(ibv_cq* cq) {
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    return wc;
  }
  void expect_message(ibv_qp* from, ibv_cq* sends, ibv_qp* to, ibv_cq* receives) {
    receive(to);
    post(from, request());
    EXPECT_EQ(next(receives).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(sends).status, IBV_WC_SUCCESS);
  }
};

TEST_F(Engines, AreTakenInTurnByCompletionQueuesOfTheirOwn) {
  ibv_cq* cqs[4];
  ibv_qp* qps[4];
  for (int i = 0; i < 4; ++i) qps[i] = make_with(cqs[i] = make_cq());
  EXPECT_NE(slot_of(qps[0]), slot_of(qps[1]));
  EXPECT_NE(slot_of(qps[1]), slot_of(qps[2]));
  EXPECT_NE(slot_of(qps[0]), slot_of(qps[2]));
  EXPECT_EQ(slot_of(qps[0]), slot_of(qps[3])) << "there are three";
  // Pairs of queue pairs on different engines send to each other.
  for (int i = 0; i < 4; i += 2) {
    join(qps[i], qps[i + 1]);
    expect_message(qps[i], cqs[i], qps[i + 1], cqs[i + 1]);
    expect_message(qps[i + 1], cqs[i + 1], qps[i], cqs[i]);
  }
  destroy({cqs[0], cqs[1], cqs[2], cqs[3]});
}

TEST_F(Engines, AreOnesWhereCompletionQueuesAreShared) {
  ibv_cq* const first = make_cq();
  ibv_cq* const second = make_cq();
  ibv_qp* const a = make_with(first);
  ibv_qp* const b = make_with(second);
  ibv_qp* const like_a = make_with(first);
  ibv_qp* const across = make_with(first, second);
  EXPECT_NE(slot_of(a), slot_of(b));
  EXPECT_EQ(slot_of(a), slot_of(like_a));
  EXPECT_EQ(slot_of(b), slot_of(across)) << "receiving decides";
  // The completion queue `first` now has queue pairs of two engines.
  join(a, like_a);
  expect_message(a, first, like_a, first);
  join(b, across);
  expect_message(b, second, across, second);
  expect_message(across, first, b, second);
  destroy({first, second});
}

TEST_F(Engines, LeaveToTheFirstWhatOthersHaveAPartIn) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  ibv_cq* const cqs[] = {make_cq(), make_cq(channel), make_cq(), make_cq()};
  const std::uint32_t first = slot_of(make_with(cqs[0]));
  EXPECT_EQ(slot_of(make_with(cqs[1])), first) << "a channel";
  EXPECT_EQ(slot_of(make_with(cqs[2], cqs[2], IBV_QPT_UD)), first);
  Shape shared;
  shared.srq = make_srq(0);
  shared.send_cq = shared.receive_cq = cqs[3];
  ibv_qp* const qp = make(shared);
  EXPECT_EQ(slot_of(qp), first) << "a shared receive queue";
  // Later queue pairs with these completion queues stay on the first engine.
  EXPECT_EQ(slot_of(make_with(cqs[2])), first);
  EXPECT_EQ(slot_of(make_with(cqs[3])), first);
  destroy({cqs[0], cqs[1], cqs[2], cqs[3]});
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

// Each end has a thread, and all share one memory region.
TEST_F(Engines, CarryTheMessagesOfThreads) {
  constexpr int kEnds = 4;
  constexpr int kMessages = 3000;
  ibv_cq* cqs[kEnds];
  ibv_qp* qps[kEnds];
  for (int i = 0; i < kEnds; ++i) qps[i] = make_with(cqs[i] = make_cq());
  for (int i = 0; i < kEnds; i += 2) join(qps[i], qps[i + 1]);
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int end = 0; end < kEnds; ++end) {
    threads.emplace_back([&, end] {
      char* const mine = bytes_ + 64 * end;
      char* const peers = bytes_ + 64 * (end ^ 1);
      const auto element = [&](char* at) {
        return ibv_sge{reinterpret_cast<std::uintptr_t>(at), 1, mr_->lkey};
      };
      const auto take_receive = [&] {
        ibv_sge sge = element(mine + 1);
        ibv_recv_wr wr{};
        ibv_recv_wr* rejected = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        bad += ibv_post_recv(qps[end], &wr, &rejected) != 0;
      };
      // A WRITE brings the data, and a SEND announces it.
      const auto say = [&](int n) {
        mine[0] = static_cast<char>(n);
        ibv_sge sge = element(mine);
        ibv_send_wr write{};
        ibv_send_wr send{};
        ibv_send_wr* rejected = nullptr;
        write.sg_list = send.sg_list = &sge;
        write.num_sge = send.num_sge = 1;
        write.opcode = IBV_WR_RDMA_WRITE;
        write.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peers + 2);
        write.wr.rdma.rkey = mr_->rkey;
        write.next = &send;
        send.opcode = IBV_WR_SEND;
        bad += ibv_post_send(qps[end], &write, &rejected) != 0;
      };
      int sent = 0;
      const auto hear = [&](int n) {
        for (;;) {
          ibv_wc wc{};
          const int got = ibv_poll_cq(cqs[end], 1, &wc);
          if (got == 0) continue;
          if (got < 0 || wc.status != IBV_WC_SUCCESS) return void(++bad);
          if (wc.opcode != IBV_WC_RECV) {
            ++sent;
            continue;
          }
          bad += mine[1] != static_cast<char>(n) || mine[2] != static_cast<char>(n);
          return;
        }
      };
      for (int i = 0; i < 4; ++i) take_receive();
      for (int n = 0; n < kMessages && bad == 0; ++n) {
        if (end % 2 == 0) say(n);
        hear(n);
        take_receive();
        if (end % 2 == 1) say(n);
      }
      while (sent < 2 * kMessages && bad == 0) {
        ibv_wc wc{};
        const int got = ibv_poll_cq(cqs[end], 1, &wc);
        bad += got < 0 || (got == 1 && wc.status != IBV_WC_SUCCESS);
        sent += got;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  destroy({cqs[0], cqs[1], cqs[2], cqs[3]});
}

TEST_F(Engines, TellOnceOfWhatHappensToThePort) {
  ibv_cq* const cqs[] = {make_cq(), make_cq(), make_cq()};
  for (ibv_cq* cq : cqs) make_with(cq);
  const std::string device = ibv_get_device_name(context_->device);
  command("port " + device + " down");
  expect_event(IBV_EVENT_PORT_ERR, nullptr);
  command("port " + device + " up");
  expect_event(IBV_EVENT_PORT_ACTIVE, nullptr);
  join(qps_[1], qps_[2]);
  expect_message(qps_[1], cqs[1], qps_[2], cqs[2]);
  expect_no_event();
  destroy({cqs[0], cqs[1], cqs[2]});
}

TEST_F(Engines, TellTheDeviceOfWhatHappensToTheirQueuePairs) {
  ibv_cq* const cqs[] = {make_cq(), make_cq(), make_cq()};
  for (ibv_cq* cq : cqs) make_with(cq);
  join(qps_[1], qps_[2]);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE);
  ++write.wr.rdma.rkey;
  post(qps_[1], write);
  EXPECT_EQ(next(cqs[1]).status, IBV_WC_REM_ACCESS_ERR);
  expect_event(IBV_EVENT_QP_ACCESS_ERR, qps_[2]);
  destroy({cqs[0], cqs[1], cqs[2]});
}

std::vector<std::string> slots_in_status() {
  const std::string line = std::string(std::getenv("VERBENA_COMMAND")) + " status";
  FILE* const status = ::popen(line.c_str(), "r");
  std::vector<std::string> slots;
  if (status == nullptr) return slots;
  char text[512];
  while (std::fgets(text, sizeof text, status) != nullptr) {
    if (std::strstr(text, ", slot ") != nullptr) slots.emplace_back(text);
  }
  EXPECT_EQ(::pclose(status), 0);
  return slots;
}

TEST_F(Engines, AreShownAsWhatTheyAre) {
  ibv_cq* const cqs[] = {make_cq(), make_cq(), make_cq()};
  for (ibv_cq* cq : cqs) make_with(cq);
  // The emulator may not have noticed yet that the engines of the previous test are gone.
  std::vector<std::string> slots = slots_in_status();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (slots.size() != 3 && std::chrono::steady_clock::now() < end) slots = slots_in_status();
  ASSERT_EQ(slots.size(), 3u);
  const auto count = [&](const char* words) {
    return std::count_if(slots.begin(), slots.end(), [&](const std::string& slot) {
      return slot.find(words) != std::string::npos;
    });
  };
  EXPECT_EQ(count(": 1 QP, 4 CQ, 1 MR, 1 PD"), 1);
  EXPECT_EQ(count(", a further engine: 1 QP, 0 CQ, 0 MR, 0 PD"), 2);
  destroy({cqs[0], cqs[1], cqs[2]});
}

TEST_F(Engines, AreGoneWithTheirDevice) {
  const std::ptrdiff_t threads = entries_of("/proc/self/task");
  const std::ptrdiff_t descriptors = entries_of("/proc/self/fd");
  ibv_device** const list = ibv_get_device_list(nullptr);
  for (int i = 0; i < 3; ++i) {
    ibv_context* const context = ibv_open_device(list[0]);
    ASSERT_NE(context, nullptr);
    ibv_pd* const pd = ibv_alloc_pd(context);
    std::vector<ibv_qp*> qps;
    std::vector<ibv_cq*> cqs;
    for (int n = 0; n < 3; ++n) {
      cqs.push_back(ibv_create_cq(context, 10, nullptr, nullptr, 0));
      ibv_qp_init_attr init{};
      init.qp_type = IBV_QPT_RC;
      init.send_cq = init.recv_cq = cqs.back();
      init.cap = {1, 1, 1, 1, 0};
      qps.push_back(ibv_create_qp(pd, &init));
      ASSERT_NE(qps.back(), nullptr);
    }
    EXPECT_EQ(entries_of("/proc/self/task"), threads + 3);
    for (ibv_qp* qp : qps) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    for (ibv_cq* cq : cqs) EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  ibv_free_device_list(list);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
}

// Without enough descriptors only speed is lost, even if an engine has to be given up half made.
class FewDescriptors : public Engines, public testing::WithParamInterface<int> {};

TEST_P(FewDescriptors, MakeFewEngines) {
  ibv_cq* const cqs[] = {make_cq(), make_cq(), make_cq()};
  const std::uint32_t first = slot_of(make_with(cqs[0]));
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const std::ptrdiff_t open = entries_of("/proc/self/fd");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{static_cast<rlim_t>(next + GetParam()), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  ibv_qp* const qp = make_with(cqs[1]);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(entries_of("/proc/self/fd"), open);
  EXPECT_EQ(slot_of(qp), first);
  EXPECT_EQ(slot_of(make_with(cqs[2])), first) << "it is not tried again";
  join(qps_[0], qps_[2]);
  expect_message(qps_[0], cqs[0], qps_[2], cqs[2]);
  destroy({cqs[0], cqs[1], cqs[2]});
}

INSTANTIATE_TEST_SUITE_P(Each, FewDescriptors, testing::Values(0, 1, 2, 3));

// The child has no engine, and may close the objects that it inherited.
TEST_F(Engines, AreTheParentsAfterAFork) {
  ibv_cq* const cqs[] = {make_cq(), make_cq(), make_cq()};
  for (ibv_cq* cq : cqs) make_with(cq);
  join(qps_[1], qps_[2]);
  expect_message(qps_[1], cqs[1], qps_[2], cqs[2]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (ibv_qp* qp : qps_) ibv_destroy_qp(qp);
    for (ibv_cq* cq : cqs) ibv_destroy_cq(cq);
    ibv_destroy_cq(cq_);
    ibv_dereg_mr(mr_);
    ibv_dealloc_pd(pd_);
    ::_exit(ibv_close_device(context_));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_message(qps_[2], cqs[2], qps_[1], cqs[1]);
  destroy({cqs[0], cqs[1], cqs[2]});
}

// A value that is not a number of engines costs one line of explanation and has no other effect.
TEST_F(Engines, AreAsManyAsProcessorsIfTheirNumberIsNone) {
  for (const char* word : {"0", "9", "many", "-1", "3x", "03"}) {
    ::setenv("VERBENA_ENGINES", word, 1);
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context, nullptr) << word;
    ibv_pd* const pd = ibv_alloc_pd(context);
    ibv_cq* const cq = ibv_create_cq(context, 10, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_UC;
    init.send_cq = init.recv_cq = cq;
    init.cap = {1, 1, 1, 1, 0};
    ibv_qp* const qp = ibv_create_qp(pd, &init);
    ASSERT_NE(qp, nullptr) << word;
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
}

}  // namespace
}  // namespace verbs_test
