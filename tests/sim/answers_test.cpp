// SPDX-License-Identifier: BSD-2-Clause
// READ responses that stand for several packets.
#include <string>

#include "steps.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::sim {
namespace {

// A scene in which READ responses of 256 bytes are merged, four in one, or arrive in runs.
class Answers : public Scene {
 public:
  Answers() {
    auto bytes = right.target.bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
    }
    pair.world.faults().merged_most = 1024;
  }
  void be_merged() { pair.world.faults().merged = 1'000'000; }
  void read(std::uint32_t length) { left.post(left.read(1, length, right)); }
  std::uint64_t drops(Peer& peer, DropReason why) {
    return peer.node().device().counters().drops.read(why);
  }
  void expect_data(std::size_t length) {
    EXPECT_EQ(statuses(left.sends), std::vector{Status::kSuccess});
    EXPECT_NO_THROW(expect_equal(left.result.bytes().first(length),
                                 right.target.bytes().first(length), "data"));
  }
  // Whether a packet carries READ data for the left.
  static bool is_answer(std::span<const std::uint8_t> bytes) {
    const auto packet = wire::parse_packet(bytes);
    return packet.ok() && packet->row->operation == wire::Operation::kReadResponse;
  }
  // Applies `change` to the first READ response when it leaves.
  void change_answer(std::function<void(Load&)> change) {
    pair.world.filter = [this, change, done = false](const Node&, auto bytes) mutable {
      if (done || is_beside(bytes) || !is_answer(bytes)) return true;
      done = true;
      Load load = pair.world.seen();
      change(load);
      pair.world.inject(0, right.node().address(), load);
      return false;
    };
  }
  // Counts ten packets: ten headers of 12 bytes, and an AETH in the first and the last packet.
  void expect_counters() {
    const auto& sent = right.qp().endpoint().counters;
    const auto& received = left.qp().endpoint().counters;
    EXPECT_EQ(sent.packets_sent.read(), 10u);
    EXPECT_EQ(sent.bytes_sent.read(), 2499u);
    EXPECT_EQ(received.packets_received.read(), 10u);
    EXPECT_EQ(received.bytes_received.read(), 2499u);
    EXPECT_EQ(received.retransmitted.read(), 0u);
    const auto& port = right.node().device().counters();
    EXPECT_EQ(port.sent.packets(), 10u);
    EXPECT_EQ(port.sent.bytes(), 10 * 12 + 2 * 4 + 2500u);
    EXPECT_EQ(left.node().device().counters().received.packets.read(), 10u);
    EXPECT_EQ(left.node().device().counters().received.bytes.read(), 10 * 12 + 2 * 4 + 2500u);
  }
};

TEST(MergedAnswers, CountAsThoseThatTheyStandFor) {
  Answers s;
  s.be_merged();
  std::vector<std::uint32_t> seen;
  s.pair.world.filter = [&](const Node&, std::span<const std::uint8_t> bytes) {
    if (s.is_answer(bytes)) seen.push_back(s.pair.world.seen().merged);
    return true;
  };
  s.read(2499);
  s.run_until_sent(1);
  s.expect_data(2499);
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{4, 4, 2}));
  s.expect_counters();
  s.expect_unharmed();
}

TEST(MergedAnswers, OfManyRequestsBringTheWholeOfALongRead) {
  Answers s;
  s.be_merged();
  s.read(32'000);
  s.run_until_sent(1);
  s.expect_data(32'000);
  EXPECT_EQ(s.left.qp().endpoint().counters.retransmitted.read(), 0u);
  s.expect_unharmed();
}

TEST(MergedAnswers, FillPiecesOfMemory) {
  Answers s;
  s.be_merged();
  Request r = s.left.read(1, 2500, s.right);
  const std::uint32_t key = s.left.result.key();
  r.buffers = {{s.left.result.address(), 100, key},
               {s.left.result.address(100), 1300, key},
               {s.left.result.address(1400), 1100, key}};
  s.left.post(r);
  s.run_until_sent(1);
  s.expect_data(2500);
  s.expect_unharmed();
}

TEST(MergedAnswers, ReachMemoryThatIsNotPlain) {
  Answers s;
  s.be_merged();
  Request r = s.left.read(1, 2500, s.right);
  r.buffers[0].key = paged_key(s.left, s.left.result, memory::kLocalWrite);
  r.remote_key = paged_key(s.right, s.right.target, memory::kRemoteRead);
  s.left.post(r);
  s.run_until_sent(1);
  s.expect_data(2500);
}

TEST(MergedAnswers, IntoMemoryThatWasWithdrawnFailAsOthersDo) {
  Answers s;
  s.be_merged();
  s.change_answer([&](Load&) {
    EXPECT_TRUE(s.left.node().device().memory().deregister(s.left.result.key()).ok());
  });
  s.read(2500);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kLocalProtection});
}

// Runs until two requests have ended, and returns what the devices explained meanwhile.
std::string explained_by(Answers& s) {
  s.pair.world.set_trace(true);
  ::testing::internal::CaptureStderr();
  s.run_until_sent(2);
  return ::testing::internal::GetCapturedStderr();
}

// A responder that lies breaks its own connection and no other.
void expect_bad_response(std::function<void(Load&)> change) {
  Answers s;
  s.be_merged();
  s.change_answer(std::move(change));
  s.read(1024);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kBadResponse});
  s.expect_unharmed();
}

TEST(MergedAnswers, OfAWrongLengthAreBad) {
  expect_bad_response([](Load& load) { load.merged = 3; });
  expect_bad_response([](Load& load) { load.bytes.resize(load.bytes.size() - 4); });
}

TEST(MergedAnswers, ThatGoBeyondWhatWasAskedAreDropped) {
  Answers s;
  s.be_merged();
  s.change_answer([](Load& load) { load.merged = 5; });
  s.read(1024);
  s.run_until_sent(1);
  EXPECT_EQ(s.drops(s.left, DropReason::kGhostAck), 1u);
  s.expect_data(1024);
  s.expect_unharmed();
}

TEST(MergedAnswers, ThatGoIntoTheNextRequestAreBad) {
  for (const std::size_t more : {0, 256}) {
    Answers s;
    s.be_merged();
    s.change_answer([more](Load& load) {
      load.merged = 5;
      load.bytes.resize(load.bytes.size() + more);
    });
    s.left.post(s.left.read(1, 1024, s.right));
    s.left.post(s.left.read(2, 1024, s.right));
    const std::string words = explained_by(s);
    EXPECT_NE(words.find("answered RDMA_READ with wr_id 1 by"), std::string::npos) << words;
    EXPECT_EQ(statuses(s.left.sends), (std::vector{Status::kBadResponse, Status::kFlushed}));
    s.expect_unharmed();
  }
}

TEST(MergedAnswers, ToOtherRequestsAreBad) {
  for (const WorkOpcode opcode : {WorkOpcode::kFetchAdd, WorkOpcode::kAtomicWrite}) {
    Answers s;
    s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
      const auto packet = wire::parse_packet(bytes);
      if (s.is_beside(bytes) || from.index() == 0 || !packet.ok() || !packet->row->response) {
        return true;
      }
      wire::PacketHeaders headers;
      headers.bth = wire::Bth::read_from(packet->start);
      headers.aeth = packet->aeth();
      std::array<std::uint8_t, wire::kMaxHeaders> answer;
      const std::size_t size = wire::write_headers(
          static_cast<std::uint8_t>(wire::Opcode::kRcReadResponseOnly), headers, answer.data());
      s.pair.world.inject(0, s.right.node().address(), std::span(answer).first(size), 2);
      return false;
    };
    for (const std::uint64_t id : {1, 2}) {
      Request r = s.left.fetch_add(id, 1, s.right);
      r.opcode = opcode;
      if (opcode == WorkOpcode::kAtomicWrite) {
        r.buffers = {{s.left.source.address(), 8, s.left.source.key()}};
      }
      ASSERT_EQ(s.left.post(r), requester::Posted::kOk);
    }
    const std::string words = explained_by(s);
    EXPECT_NE(words.find("with wr_id 1 by RC RDMA READ response Only"), std::string::npos) << words;
    EXPECT_EQ(statuses(s.left.sends), (std::vector{Status::kBadResponse, Status::kFlushed}));
  }
}

}  // namespace
}  // namespace verbena::sim
