// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/capture_link.hpp"

#include <gmock/gmock.h>

#include "capture_fixture.hpp"
#include "link_fixture.hpp"
#include "verbena/link/fault_link.hpp"

namespace verbena::link::test {
namespace {

using Direction = CaptureRecord::Direction;
using Fate = CaptureRecord::Fate;

constexpr TimeNs kWhen = 123'456'789;
TimeNs fixed_time() noexcept { return kWhen; }

class CaptureLinkTest : public ::testing::Test {
 protected:
  void start(std::vector<IpAddress> recorded_by_sender = {}) {
    capture_.start(std::move(ring_.writer_end), std::move(recorded_by_sender));
  }
  std::size_t send(Link& link, std::uint32_t psn, std::size_t length = 64) {
    Batch out;
    out.add(make_packet(b_.qp(1), psn, length), to(own_address(1)));
    return link.send(out.get(), a_qp_);
  }
  void receive_one(std::uint32_t psn) {
    Batch back;
    back.add(make_packet(a_qp_, psn, 16), to(own_address(0)));
    ASSERT_EQ(b_.link->send(back.get(), b_.qp(1)), 1u);
    Collector sink;
    ASSERT_TRUE(wait_readable(receiver_));
    ASSERT_EQ(capture_.receive(sink, 64), 1u);
    EXPECT_EQ(sink.arrived.size(), 1u);
  }
  static std::uint32_t psn_of(const CaptureEnds::Taken& taken) {
    return wire::BthView(taken.packet.data()).psn().value();
  }

  SlotGroup group_a_ = open_group(own_address(0));
  SlotGroup group_b_ = open_group(own_address(1));
  Node a_{group_a_};
  Node b_{group_b_};
  const Qpn a_qp_ = a_.qp(1);
  const int receiver_ = a_.link->wait_fd();
  CaptureLink capture_{std::move(a_.link), own_address(0), &fixed_time};
  CaptureEnds ring_;
};

TEST_F(CaptureLinkTest, RecordsBothDirections) {
  start();
  EXPECT_TRUE(capture_.is_running());
  ASSERT_EQ(send(capture_, 77, 1036), 1u);
  receive_one(79);
  const auto taken = ring_.take_all();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].record.direction, Direction::kOutbound);
  EXPECT_EQ(taken[0].record.time, kWhen);
  EXPECT_EQ(taken[0].record.source, own_address(0));
  EXPECT_EQ(taken[0].record.destination, own_address(1));
  EXPECT_EQ(taken[0].record.sender, a_qp_.value());
  EXPECT_EQ(taken[0].record.fate, Fate::kCarried);
  EXPECT_EQ(taken[0].packet, make_packet(b_.qp(1), 77, 1036));
  EXPECT_EQ(taken[1].record.direction, Direction::kInbound);
  EXPECT_EQ(taken[1].record.source, own_address(1));
  EXPECT_EQ(psn_of(taken[1]), 79u);
}

// Gives one datagram with these fields of an IP header.
class Giver final : public Link {
 public:
  std::size_t send(wire::TxBatch& batch, Qpn) noexcept override { return batch.size(); }
  std::size_t receive(RxSink& sink, std::size_t) noexcept override {
    const std::vector<std::uint8_t> packet = make_packet(Qpn(0x4001), 5, 64);
    wire::RxDatagram datagram;
    datagram.bytes = packet;
    datagram.source = own_address(1);
    datagram.destination = own_address(0);
    datagram.traffic_class = 0x6a;
    datagram.hop_limit = 17;
    datagram.flow_label = 0x12345;
    sink.on_datagram(datagram);
    return 1;
  }
};

TEST_F(CaptureLinkTest, KeepsTheHeaderFieldsOfWhatArrives) {
  CaptureLink capture(std::make_unique<Giver>(), own_address(0), &fixed_time);
  capture.start(std::move(ring_.writer_end), {});
  Collector sink;
  ASSERT_EQ(capture.receive(sink, 1), 1u);
  const auto taken = ring_.take_all();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].record.traffic_class, 0x6a);
  EXPECT_EQ(taken[0].record.hop_limit, 17);
  EXPECT_EQ(taken[0].record.flow_label, 0x12345u);
}

TEST_F(CaptureLinkTest, LeavesOutWhatItsSenderRecords) {
  start({own_address(0), own_address(1)});
  ASSERT_EQ(send(capture_, 1), 1u);
  receive_one(2);
  const auto taken = ring_.take_all();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(psn_of(taken[0]), 1u);
}

// The file shows what left, even if the program changes its buffer afterwards.
TEST_F(CaptureLinkTest, CopiesABorrowedPayloadBeforeItIsSent) {
  start();
  constexpr std::size_t kPayload = 600;
  const std::vector<std::uint8_t> payload(kPayload, 7);
  const auto head = make_packet(b_.qp(1), 5, wire::Bth::kSize + kPayload);
  Batch out;
  out.add(head, to(own_address(1)));
  out.get().borrow(wire::Bth::kSize, payload.data(), kPayload);
  Gate gate;
  gate.reopen();
  ASSERT_TRUE(gate.enter());
  out.get().hold(gate);
  EXPECT_EQ(capture_.send(out.get(), a_qp_), 1u);
  gate.close_and_wait();
  const auto taken = ring_.take_all();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].packet.back(), 7);
}

TEST_F(CaptureLinkTest, RunsOnlyBetweenStartAndStop) {
  ASSERT_EQ(send(capture_, 0), 1u);
  start();
  ASSERT_EQ(send(capture_, 1), 1u);
  capture_.stop();
  EXPECT_FALSE(capture_.is_running());
  ASSERT_EQ(send(capture_, 2), 1u);
  const auto taken = ring_.take_all();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(psn_of(taken[0]), 1u);
}

// The ring is not read. The program under capture must not notice.
TEST_F(CaptureLinkTest, NeverWaitsForARoom) {
  start();
  Collector sink;
  for (std::uint32_t psn = 0; psn < 300; ++psn) {
    ASSERT_EQ(send(capture_, psn, 1036), 1u);
    ASSERT_EQ(receive_count(*b_.link, sink, 1), 1u);
  }
  EXPECT_EQ(sink.arrived.size(), 300u);
  EXPECT_GT(ring_.reader.dropped(), 0u);
  EXPECT_EQ(ring_.reader.recorded() + ring_.reader.dropped(), 300u);
}

TEST_F(CaptureLinkTest, MarksWhatAFaultTook) {
  auto inner = std::make_unique<CaptureLink>(std::move(b_.link), own_address(1), &fixed_time);
  inner->start(std::move(ring_.writer_end), {});
  DropCounters drops;
  FaultLink faults(std::move(inner), 1, drops);
  const auto set = [&](const fault::Settings& settings) {
    const FaultRule rules[] = {{.settings = settings}};
    faults.set_rules(rules);
  };
  const auto send_one = [&](std::uint32_t psn) {
    Batch out;
    out.add(make_packet(a_qp_, psn, 64), to(own_address(0)));
    ASSERT_EQ(faults.send(out.get(), b_.qp(1)), 1u);
  };
  send_one(1);
  set({.drop_ppm = 1'000'000});
  send_one(2);
  set({.corrupt_ppm = 1'000'000});
  send_one(3);
  set({});
  faults.set_script({fault::activate(1, *fault::parse_rule("duplicate nth=1"), 0, 0)});
  send_one(4);
  send_one(5);
  const auto taken = ring_.take_all();
  ASSERT_EQ(taken.size(), 6u);
  EXPECT_EQ(psn_of(taken[3]), 4u);
  EXPECT_EQ(taken[4].record.fate, Fate::kRuled);
  EXPECT_EQ(psn_of(taken[5]), 5u);
  EXPECT_EQ(taken[5].record.fate, Fate::kCarried);
  const Fate fates[] = {Fate::kCarried, Fate::kLost, Fate::kDamaged, Fate::kRuled};
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(psn_of(taken[i]), i + 1);
    EXPECT_EQ(taken[i].record.fate, fates[i]);
    EXPECT_EQ(taken[i].packet, make_packet(a_qp_, i + 1, 64)) << "whole all the same";
  }
}

}  // namespace
}  // namespace verbena::link::test
