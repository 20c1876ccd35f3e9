// SPDX-License-Identifier: BSD-2-Clause
// Payloads that are summed while they are copied into a batch: the sums are those of what is sent,
// the memory is released, and a buffer that is not usable gives the usual error.
#include <gtest/gtest.h>

#include "host.hpp"
#include "verbena/wire/crc32.hpp"

namespace verbena {
namespace {

constexpr std::uint32_t kMtu = 4096;

class Summed : public TwoHosts {
 protected:
  Summed() : TwoHosts(Mtu::k4096) {
    check_sums_of(left);
    fill(left);
  }

  void check_sums_of(Host& host) {
    host.travels.is_sealed = true;
    host.on_send = [this](const wire::TxBatch& batch) {
      sent += batch.size();
      for (const wire::TxBatch::Packet& p : batch.packets()) check_sum(batch, p);
    };
  }
  void check_sum(const wire::TxBatch& batch, const wire::TxBatch::Packet& p) {
    if (p.summed == 0) return;
    ++summed;
    const auto payload = batch.bytes_of(p).last(p.summed);
    EXPECT_EQ(p.sum, wire::crc32(0, payload.data(), payload.size()));
  }
  // Sends what there is to send, in as many turns as needed.
  void transmit() {
    left.device.doorbell(*left_qp, time);
    for (std::uint64_t before = ~sent; before != sent;) {
      before = sent;
      left.receive(++time, device::Acknowledge::kNow);
    }
  }

  std::uint64_t sent = 0;
  std::uint64_t summed = 0;
};

TEST_F(Summed, WholePayloadsHaveTheSumOfWhatIsSent) {
  const queue::Sge sge = piece(5 * kMtu + 100);
  post(*left_qp, write_of(sge));
  transmit();
  exchange();
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(sent, 6u);
  EXPECT_EQ(summed, 5u);
  expect_arrived(sge.length);
}

TEST_F(Summed, SoHaveAnswersToReads) {
  left.bytes.assign(kMemory, 0);
  fill(right);
  check_sums_of(right);
  const queue::Sge sge = piece(5 * kMtu + 100);
  post(*left_qp, read_of(sge));
  transmit();
  exchange();
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(summed, 5u);
  expect_arrived(sge.length);
  EXPECT_TRUE(right.device.memory().deregister(right.key).ok());
}

TEST_F(Summed, MemoryIsPinnedNoLongerThanItIsRead) {
  const queue::Sge sge = piece(kMtu);
  post(*left_qp, write_of(sge));
  transmit();
  // Waits for any thread that still uses the memory.
  EXPECT_TRUE(left.device.memory().deregister(left.key).ok());
  exchange();
  EXPECT_EQ(completed(), 1u);
}

TEST_F(Summed, ABufferThatLeavesItsRegionIsALocalProtectionError) {
  queue::Sge sge = piece(2 * kMtu);
  sge.address += kMemory - kMtu;
  post(*left_qp, write_of(sge));
  transmit();
  exchange();
  EXPECT_EQ(completed(queue::Status::kLocalProtection), 1u);
}

}  // namespace
}  // namespace verbena
