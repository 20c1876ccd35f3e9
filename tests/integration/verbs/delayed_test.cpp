// SPDX-License-Identifier: BSD-2-Clause
// Packets that a fault delays leave in time, whatever the program that sent them does meanwhile.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Every packet is late while it lives.
class Delayed : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    command("fault --delay 50ms --data");
  }
  void TearDown() override {
    command("fault --clear");
    Verbs::TearDown();
  }
  // Waits for a completion of the queue. Returns false if there is none for long.
  static bool await(ibv_cq* cq, ibv_wc& wc) {
    const auto end = steady_clock::now() + milliseconds(kPatienceMs);
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
      if (steady_clock::now() > end) return false;
    }
    return true;
  }
};

// The completion is there at once, and then the sender polls no more, as one that waits for a word
// of its peer on another way.
TEST_F(Delayed, ADatagramGoesThoughItsSenderRests) {
  Device sender;
  const Shape ud{.type = IBV_QPT_UD};
  right_ = make(ud);
  ibv_qp* const from = sender.make(ud);
  for (ibv_qp* qp : {right_, from}) {
    to_rtr(qp, qp, ud);
    to_rts(qp);
  }
  ibv_ah_attr to = sender.to_self(false);
  ibv_ah* const ah = ibv_create_ah(sender.pd_, &to);
  ASSERT_NE(ah, nullptr);
  for (int i = 0; i < 3; ++i) {
    receive(right_);
    std::this_thread::sleep_for(milliseconds(200));
    ibv_send_wr wr = sender.request();
    wr.wr.ud = {ah, right_->qp_num, kQkey};
    sender.post(from, wr);
    ibv_wc wc{};
    ASSERT_TRUE(await(sender.cq_, wc));
    const auto sent = steady_clock::now();
    ASSERT_TRUE(await(cq_, wc)) << "datagram " << i << " never came";
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_GT(steady_clock::now() - sent, milliseconds(30));
  }
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// Writes the number of its queue pair, reads that of its peer, waits for a message, and ends
// without closing anything.
[[noreturn]] void be_a_receiver_that_ends(int out, int in) {
  Device self;
  ibv_qp* const qp = self.make();
  ibv_qp peer{};
  if (::write(out, &qp->qp_num, sizeof qp->qp_num) != sizeof qp->qp_num) ::_exit(1);
  if (::read(in, &peer.qp_num, sizeof peer.qp_num) != sizeof peer.qp_num) ::_exit(1);
  self.to_rtr(qp, &peer);
  self.to_rts(qp);
  ibv_sge part{reinterpret_cast<std::uintptr_t>(&peer), 0, 0};
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.sg_list = &part;
  if (ibv_post_recv(qp, &wr, &bad) != 0) ::_exit(1);
  if (::write(out, "r", 1) != 1) ::_exit(1);
  ibv_wc wc{};
  while (ibv_poll_cq(self.cq_, 1, &wc) == 0) {
  }
  std::exit(wc.status == IBV_WC_SUCCESS ? 0 : 1);
}

// Its last acknowledgement is late then, and leaves all the same.
TEST(DelayedEnd, OfAProgramThatClosesNothingTakesNoAcknowledgementAlong) {
  int to_child[2];
  int to_parent[2];
  ASSERT_EQ(::pipe(to_child), 0);
  ASSERT_EQ(::pipe(to_parent), 0);
  const pid_t child = ::fork();
  if (child == 0) be_a_receiver_that_ends(to_parent[1], to_child[0]);
  {
    Device sender;
    ibv_qp* const qp = sender.make();
    ibv_qp peer{};
    ASSERT_EQ(::read(to_parent[0], &peer.qp_num, sizeof peer.qp_num), ssize_t{sizeof peer.qp_num});
    sender.to_rtr(qp, &peer);
    sender.to_rts(qp);
    ASSERT_EQ(::write(to_child[1], &qp->qp_num, sizeof qp->qp_num), ssize_t{sizeof qp->qp_num});
    char ready = 0;
    ASSERT_EQ(::read(to_parent[0], &ready, 1), 1);
    const std::string verbena = std::getenv("VERBENA_COMMAND");
    ASSERT_EQ(std::system((verbena + " fault --delay 50ms --data").c_str()), 0);
    sender.post(qp, sender.request(), 0);
    ibv_wc wc{};
    while (ibv_poll_cq(sender.cq_, 1, &wc) == 0) {
    }
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(std::system((verbena + " fault --clear").c_str()), 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
}

}  // namespace
}  // namespace verbs_test
