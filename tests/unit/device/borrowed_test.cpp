// SPDX-License-Identifier: BSD-2-Clause
// Payloads that are borrowed until their batch was sent: which payloads are, that their memory is
// pinned exactly that long, that the right bytes arrive, and what becomes of a request whose bytes
// are gone when they are to be copied.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "host.hpp"
#include "verbena/base/short_text.hpp"

namespace verbena::borrowed {
namespace {

constexpr std::uint32_t kMtu = 1024;

class Borrowed : public TwoHosts {
 protected:
  Borrowed() : TwoHosts(Mtu::k1024) {
    count_borrowed(left);
    fill(left);
  }

  void count_borrowed(Host& host) {
    host.travels.borrowed_least = wire::Path::Packing::kBorrowedLeast;
    host.on_send = [this](const wire::TxBatch& batch) {
      for (const wire::TxBatch::Packet& p : batch.packets()) {
        borrowed += p.borrowed != nullptr ? 1 : 0;
      }
      packets += batch.size();
    };
  }
  void carry_out() {
    left.device.doorbell(*left_qp, time);
    exchange();
  }
  // The payload that this host borrows behind `before` others is gone when it is to be copied.
  void lose_one(Host& host, std::size_t before) {
    host.told = &told;
    host.on_send = [this, before, see = host.on_send](const wire::TxBatch& batch) mutable {
      see(batch);
      for (const wire::TxBatch::Packet& p : batch.packets()) {
        if (p.borrowed != nullptr && before-- == 0) batch.note_gone(p);
      }
    };
  }
  // Expects that the explanations name this part of the host's region.
  void expect_told(const Host& host, std::size_t offset, std::size_t length) {
    const auto at = reinterpret_cast<std::uint64_t>(host.bytes.data()) + offset;
    const ShortText where("key 0x%x, address 0x%llx, length %zu: ", host.key,
                          static_cast<unsigned long long>(at), length);
    EXPECT_NE(told.find(where.c_str()), std::string::npos) << told << " lacks " << where.c_str();
  }
  queue::Status next_status() {
    queue::Completion c;
    EXPECT_TRUE(left.send_cq.poll_one(c)) << "nothing has completed";
    return c.status;
  }

  std::string told;
  std::size_t borrowed = 0;
  std::size_t packets = 0;
};

TEST_F(Borrowed, OneLongPieceOfPlainMemoryIs) {
  const queue::Sge sge = piece(3 * kMtu + 101);
  post(*left_qp, write_of(sge));
  carry_out();
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(borrowed, 4u);
  expect_arrived(sge.length);
}

TEST_F(Borrowed, ShortInlineAndScatteredPayloadsAreNot) {
  const queue::Sge small = piece(64);
  post(*left_qp, write_of(small));
  queue::SendRequest in_request = write_of(small);
  in_request.flags |= queue::kInline;
  post(*left_qp, in_request);
  const queue::Sge two[] = {piece(700), piece(800)};
  queue::SendRequest scattered = write_of(small);
  scattered.sges = two;
  post(*left_qp, scattered);
  carry_out();
  EXPECT_EQ(completed(), 3u);
  EXPECT_EQ(borrowed, 0u);
  expect_arrived(64);
}

// A UC request completes when it is sent. After that its buffer belongs to the application.
TEST_F(Borrowed, NothingIsThatNobodyAcknowledges) {
  qp::QueuePair* from = left.create_qp(Transport::kUc);
  qp::QueuePair* to = right.create_qp(Transport::kUc);
  bring_up(left, *from, right, *to, Mtu::k1024);
  bring_up(right, *to, left, *from, Mtu::k1024);
  const queue::Sge sge = piece(2 * kMtu);
  post(*from, write_of(sge));
  left.device.doorbell(*from, time);
  exchange();
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(packets, 2u);
  EXPECT_EQ(borrowed, 0u);
  expect_arrived(sge.length);
  left.device.destroy_qp(from);
  right.device.destroy_qp(to);
}

// The last packet is not borrowed, because it is short.
TEST_F(Borrowed, AnswersToReadsAre) {
  left.bytes.assign(kMemory, 0);
  left.travels.borrowed_least = wire::Path::Packing::kNever;
  fill(right);
  count_borrowed(right);
  const queue::Sge sge = piece(3 * kMtu + 101);
  post(*left_qp, read_of(sge));
  carry_out();
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(borrowed, 3u);
  expect_arrived(sge.length);
  EXPECT_EQ(left.bytes[sge.length], 0);
  EXPECT_TRUE(right.device.memory().deregister(right.key).ok());
}

// On a path with checksums, a payload that changes between sum and sending would be dropped.
TEST_F(Borrowed, NothingIsThatIsSealed) {
  left.travels.is_sealed = true;
  const queue::Sge sge = piece(3 * kMtu + 101);
  post(*left_qp, write_of(sge));
  carry_out();
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(packets, 4u);
  EXPECT_EQ(borrowed, 0u);
  expect_arrived(sge.length);
}

TEST_F(Borrowed, NorIsAnAnswerThatIsSealed) {
  left.bytes.assign(kMemory, 0);
  fill(right);
  count_borrowed(right);
  right.travels.is_sealed = true;
  const queue::Sge sge = piece(3 * kMtu);
  post(*left_qp, read_of(sge));
  carry_out();
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(borrowed, 0u);
  expect_arrived(sge.length);
}

// A thread that withdraws borrowed memory waits until the batch was sent, and no longer.
class BorrowedMemory : public Borrowed {
 protected:
  BorrowedMemory() { count_borrowed(right); }
  ~BorrowedMemory() override {
    if (other_.joinable()) other_.join();
  }

  // Withdraws the memory while the host sends its first batch.
  void withdraw_while_sending(Host& host) {
    host.on_send = [this, &host, see = host.on_send](const wire::TxBatch& batch) {
      see(batch);
      if (other_.joinable()) return;
      other_ = std::thread([this, &host] {
        EXPECT_TRUE(host.device.memory().deregister(host.key).ok());
        is_gone_ = true;
      });
      // The withdrawal has begun. From here on only the pins of the batch delay it.
      while (is_open(host)) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_FALSE(is_gone_);
    };
  }
  static bool is_open(Host& host) {
    const auto at = reinterpret_cast<std::uint64_t>(host.bytes.data());
    return host.device.memory().pin({host.key, kDomain, at, 1, 0, 0}).ok();
  }
  void carry_out_and_expect(std::size_t length) {
    carry_out();
    other_.join();
    EXPECT_TRUE(is_gone_);
    EXPECT_EQ(borrowed, 1u);
    EXPECT_EQ(completed(), 1u);
    expect_arrived(length);
  }

 private:
  std::atomic<bool> is_gone_{false};
  std::thread other_;
};

TEST_F(BorrowedMemory, IsPinnedUntilTheBatchWasSent) {
  const queue::Sge sge = piece(kMtu);
  post(*left_qp, write_of(sge));
  withdraw_while_sending(left);
  carry_out_and_expect(sge.length);
}

TEST_F(BorrowedMemory, OfAnAnswerIsToo) {
  left.bytes.assign(kMemory, 0);
  fill(right);
  const queue::Sge sge = piece(kMtu);
  post(*left_qp, read_of(sge));
  withdraw_while_sending(right);
  carry_out_and_expect(sge.length);
}

// Every buffer is pinned on its own; buffers that alternate are pinned anew each time.
TEST_F(Borrowed, AreAsManyAsABatchTakes) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    queue::Sge sge = piece(520);
    sge.address += 520 * (i % 2 == 0 ? i : 2);
    queue::SendRequest r = write_of(sge);
    r.remote_address += sge.address - piece(1).address;
    post(*left_qp, r);
  }
  carry_out();
  EXPECT_EQ(completed(), 100u);
  EXPECT_EQ(borrowed, 100u);
  for (std::size_t i = 0; i < 100; i += 2) {
    EXPECT_EQ(std::memcmp(left.bytes.data() + 520 * i, right.bytes.data() + 520 * i, 520), 0);
  }
  EXPECT_TRUE(left.device.memory().deregister(left.key).ok());
}

// A local request in the queue may withdraw memory, and would wait for its own batch.
TEST_F(Borrowed, NothingIsAnyMoreWhenALocalRequestRuns) {
  const queue::Sge sge = piece(2 * kMtu);
  memory::RegionRequest region;
  region.domain = kDomain;
  region.host_address = region.base = sge.address;
  region.length = sge.length;
  region.access = memory::kLocalWrite | memory::kWindowBind;
  queue::SendRequest bind;
  bind.opcode = queue::WorkOpcode::kBindWindow;
  bind.flags = queue::kSignaled;
  bind.window_key = *left.device.memory().allocate_window(kDomain, true);
  bind.window_new_key = bind.window_key + 1;
  bind.window_region_key = *left.device.memory().register_region(region);
  bind.window_address = sge.address;
  bind.window_length = sge.length;
  post(*left_qp, write_of(sge));
  post(*left_qp, bind);
  carry_out();
  EXPECT_EQ(completed(), 2u);
  EXPECT_EQ(packets, 2u);
  EXPECT_EQ(borrowed, 0u);
  expect_arrived(sge.length);
}

// --- bytes that are gone when they are to be copied ----------------------------------------------

// No time passes, so nothing is sent again.
TEST_F(Borrowed, AnAnswerThatIsGoneIsRefusedAtOnce) {
  left.bytes.assign(kMemory, 0);
  left.travels.borrowed_least = wire::Path::Packing::kNever;
  fill(right);
  count_borrowed(right);
  lose_one(right, 1);
  const queue::Sge sge = piece(3 * kMtu + 101);
  post(*left_qp, read_of(sge));
  carry_out();
  EXPECT_EQ(next_status(), queue::Status::kRemoteAccess);
  expect_arrived(kMtu);
  EXPECT_EQ(right_qp->state(), qp::State::kError);
  expect_told(right, kMtu, kMtu);
}

// The later request is refused before the answer is copied, and the peer gets both NAKs.
TEST_F(Borrowed, AnAnswerThatIsGoneIsRefusedBehindALaterRequest) {
  left.travels.borrowed_least = wire::Path::Packing::kNever;
  count_borrowed(right);
  lose_one(right, 0);
  const queue::Sge sge = piece(kMtu);
  post(*left_qp, read_of(sge));
  queue::SendRequest beyond = write_of(sge);
  beyond.remote_address += kMemory;
  post(*left_qp, beyond);
  carry_out();
  EXPECT_EQ(next_status(), queue::Status::kRemoteAccess);
  EXPECT_EQ(next_status(), queue::Status::kFlushed);
  expect_told(right, 0, kMtu);
}

TEST_F(Borrowed, ARequestThatIsGoneFailsAtOnce) {
  lose_one(left, 2);
  const queue::Sge sge = piece(2 * kMtu);
  for (int i = 0; i < 3; ++i) post(*left_qp, write_of(sge));
  carry_out();
  EXPECT_EQ(next_status(), queue::Status::kSuccess);
  EXPECT_EQ(next_status(), queue::Status::kLocalProtection);
  EXPECT_EQ(next_status(), queue::Status::kFlushed);
  EXPECT_EQ(left_qp->state(), qp::State::kError);
  EXPECT_NE(told.find("cannot read the buffers of RDMA_WRITE"), std::string::npos) << told;
}

}  // namespace
}  // namespace verbena::borrowed
