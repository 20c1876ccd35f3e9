// SPDX-License-Identifier: BSD-2-Clause
// Receives: taken, filled packet by packet, and completed once.
#include "verbena/responder/receive_in_use.hpp"

#include "receiver.hpp"

namespace verbena::responder::testing {
namespace {

using queue::CompletionOpcode;
using queue::Status;
using wire::Opcode;

class ReceiveInUseTest : public ReceiverTest {
 protected:
  ReceiveInUseTest() {
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<std::uint8_t>(200 + i);
  }
  std::span<const std::uint8_t> data(std::size_t from, std::size_t length) const {
    return std::span<const std::uint8_t>(data_).subspan(from, length);
  }
  bool take(const Packet& p) { return receive_.take(p.view, p.view.payload); }
  bool fill(const Packet& p) { return receive_.fill(p.view, failed_); }
  void complete(const Packet& p) {
    receive_.complete(p.view, CompletionOpcode::kReceive,
                      static_cast<std::uint32_t>(receive_.filled()), {Qpn(0x8002), 3, 1});
  }

  std::array<std::uint8_t, 2 * kMtu> data_;
  ReceiveInUse receive_{endpoint_};
  std::optional<ReceiveInUse::Failed> failed_;
};

TEST_F(ReceiveInUseTest, PacketsFillItOneAfterTheOther) {
  post(11, {sge(0, 600)});
  const Packet first = packet(Opcode::kRcSendFirst, data(0, kMtu));
  const Packet last = packet(Opcode::kRcSendLast, data(kMtu, 9));
  ASSERT_TRUE(take(first));
  EXPECT_TRUE(fill(first));
  EXPECT_TRUE(fill(last));
  EXPECT_TRUE(completions().empty());
  complete(last);
  EXPECT_TRUE(holds(0, data(0, kMtu + 9)));
  const auto all = completions();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].id, 11u);
  EXPECT_EQ(all[0].byte_length, kMtu + 9);
  EXPECT_EQ(all[0].qpn, 0x4001u);
  EXPECT_EQ(all[0].source_qpn, 0x8002u);
  EXPECT_EQ(all[0].source_lid, 3u);
  EXPECT_FALSE(receive_.is_active());
}

TEST_F(ReceiveInUseTest, BuffersAreFilledInTheirOrder) {
  post(11, {sge(1000, 10), sge(100, 300)});
  const Packet p = packet(Opcode::kRcSendOnly, data(0, 100));
  ASSERT_TRUE(take(p));
  EXPECT_TRUE(fill(p));
  EXPECT_TRUE(holds(1000, data(0, 10)));
  EXPECT_TRUE(holds(100, data(10, 90)));
}

TEST_F(ReceiveInUseTest, WithoutAReceiveThereIsNone) {
  EXPECT_FALSE(take(packet(Opcode::kRcSendOnly, data(0, 4))));
  EXPECT_FALSE(receive_.is_active());
}

TEST_F(ReceiveInUseTest, AMessageThatIsTooLongFailsIt) {
  post(11, {sge(0, 8)});
  const Packet p = packet(Opcode::kRcSendOnly, data(0, 9));
  ASSERT_TRUE(take(p));
  EXPECT_FALSE(fill(p));
  ASSERT_TRUE(failed_);
  EXPECT_EQ(failed_->code, wire::NakCode::kInvalidRequest);
  EXPECT_STREQ(failed_->why.c_str(),
               "a message of 9 bytes or more does not fit into the 8 of the receive with wr_id 11");
  const auto all = completions();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, Status::kLocalLength);
  EXPECT_FALSE(receive_.is_active());
}

TEST_F(ReceiveInUseTest, MemoryThatIsNotRegisteredFailsIt) {
  post(11, {{address(0), 8, key_ + 0x100}});
  const Packet p = packet(Opcode::kRcSendOnly, data(0, 8));
  ASSERT_TRUE(take(p));
  EXPECT_FALSE(fill(p));
  ASSERT_TRUE(failed_);
  EXPECT_EQ(failed_->code, wire::NakCode::kRemoteOperational);
  EXPECT_EQ(completions().at(0).status, Status::kLocalProtection);
}

TEST_F(ReceiveInUseTest, AnotherMessageMayTakeTheReceiveOfABrokenOne) {
  post(11, {sge(0, 600)});
  const Packet p = packet(Opcode::kUcSendFirst, data(0, kMtu));
  ASSERT_TRUE(take(p));
  EXPECT_TRUE(fill(p));
  receive_.begin_anew();
  const Packet next = packet(Opcode::kUcSendOnly, data(7, 5));
  EXPECT_TRUE(fill(next));
  EXPECT_EQ(receive_.filled(), 5u);
  EXPECT_TRUE(holds(0, data(7, 5)));
}

TEST_F(ReceiveInUseTest, CompletionsSayWhatCameWithTheMessage) {
  post(11, {sge(0, 8)});
  post(12, {sge(0, 8)});
  wire::PacketHeaders headers;
  headers.immediate.data = 0x01020304;
  headers.ieth.rkey = 0x55;
  for (const Opcode opcode : {Opcode::kRcSendOnlyImmediate, Opcode::kRcSendOnlyInvalidate}) {
    const Packet p = packet(opcode, data(0, 4), headers);
    ASSERT_TRUE(take(p));
    EXPECT_TRUE(fill(p));
    complete(p);
  }
  const auto all = completions();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].flags, queue::kHasImmediate);
  EXPECT_EQ(all[0].immediate, 0x01020304u);
  EXPECT_EQ(all[1].flags, queue::kHasInvalidated);
  EXPECT_EQ(all[1].immediate, 0x55u);
}

TEST_F(ReceiveInUseTest, ItAndThePostedOnesAreFlushed) {
  for (std::uint64_t id = 11; id < 14; ++id) post(id, {sge(0, 8)});
  ASSERT_TRUE(take(packet(Opcode::kRcSendFirst, data(0, kMtu))));
  receive_.flush();
  const auto all = completions();
  ASSERT_EQ(all.size(), 3u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].id, 11 + i);
    EXPECT_EQ(all[i].status, Status::kFlushed);
  }
  receive_.flush();
  EXPECT_TRUE(completions().empty());
}

TEST_F(ReceiveInUseTest, XrcReceivesAreOfTheQueueThatTheMessageNames) {
  queue::CompletionQueue other({.capacity = 4}, sink_);
  queue::SharedReceive srq({.capacity = 4, .max_sges = 1, .shared = true}, sink_);
  srq.complete_to(other);
  srq.domain = kDomain + 1;
  const std::uint32_t key = make_key(srq.domain, 64);
  queue::RecvRequest r;
  r.id = 21;
  const std::vector<queue::Sge> sges{{address(0), 64, key}};
  r.sges = sges;
  ASSERT_EQ(srq.queue.post(r), queue::ReceiveQueue::Posted::kOk);

  receive_.lead_to(&srq);
  EXPECT_EQ(receive_.remote_domain(), kDomain + 1);
  const Packet p = packet(Opcode::kXrcSendOnly, data(0, 16));
  ASSERT_TRUE(take(p));
  EXPECT_TRUE(fill(p));
  complete(p);
  EXPECT_TRUE(completions().empty());
  queue::Completion c;
  ASSERT_TRUE(other.poll_one(c));
  EXPECT_EQ(c.id, 21u);
  EXPECT_FALSE(receive_.forget(nullptr));
  EXPECT_TRUE(receive_.forget(&srq));
  EXPECT_EQ(receive_.remote_domain(), kDomain);
}

}  // namespace
}  // namespace verbena::responder::testing
