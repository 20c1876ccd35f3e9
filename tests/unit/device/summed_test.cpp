// SPDX-License-Identifier: BSD-2-Clause
// Payloads that are summed while they are copied into a batch: that the sums are those of what is
// sent, that the memory is let go, and that a buffer which is not usable ends as it always does.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "host.hpp"
#include "verbena/wire/crc32.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena {
namespace {

constexpr std::uint32_t kMtu = 4096;

class Summed : public TwoHosts {
 protected:
  explicit Summed(Mtu mtu = Mtu::k4096) : TwoHosts(mtu) {
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
  // What there is to send, in as many turns as it takes.
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

class SummedKib : public Summed {
 protected:
  SummedKib() : Summed(Mtu::k1024) {}
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

// Those amid a message are made together. A window is 64 packets here, and half of it is the most
// that goes without a question.
TEST_F(SummedKib, PacketsAmidAMessageAreLikeThoseMadeOneByOne) {
  std::vector<std::vector<std::uint8_t>> made[2];
  for (const bool is_sealed : {true, false}) {
    left.travels.is_sealed = is_sealed;
    std::fill(right.bytes.begin(), right.bytes.end(), std::uint8_t{0});
    left.on_send = [&](const wire::TxBatch& batch) {
      sent += batch.size();
      for (const wire::TxBatch::Packet& p : batch.packets()) {
        const auto bytes = batch.bytes_of(p);
        made[is_sealed].emplace_back(bytes.begin(), bytes.end());
      }
    };
    const queue::Sge sge = piece(40 * 1024 + 100);
    post(*left_qp, write_of(sge));
    transmit();
    exchange();
    EXPECT_EQ(completed(), 1u);
    expect_arrived(sge.length);
  }
  ASSERT_EQ(made[0].size(), 41u);
  ASSERT_EQ(made[1].size(), 41u);
  std::size_t questions = 0;
  for (std::size_t i = 0; i < made[0].size(); ++i) {
    const wire::BthView one(made[0][i].data());
    const wire::BthView together(made[1][i].data());
    EXPECT_EQ(one.psn(), together.psn() + 41) << i;
    EXPECT_EQ(one.ack_request(), together.ack_request()) << i;
    questions += together.ack_request() ? 1 : 0;
    for (auto& side : made) std::fill_n(side[i].begin() + 8, 4, std::uint8_t{0});
    EXPECT_EQ(made[0][i], made[1][i]) << i;
  }
  EXPECT_EQ(questions, 3u);  // the first, amid, the last
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
  // Waits for whoever is at it.
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
