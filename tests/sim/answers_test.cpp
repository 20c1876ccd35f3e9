// Answers to READs that stand for several packets: those that carry all their data, and those that
// stay with the responder until the requester fetches them, though their memory may be withdrawn
// meanwhile.
#include "steps.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::sim {
namespace {

// Of 256 bytes: runs of four packets, from 300 bytes on.
class Answers : public Scene {
 public:
  Answers() {
    auto bytes = right.target.bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
    }
    pair.world.faults().packing = {300, 1024, 1024};
  }
  void be_direct(std::uint32_t ppm = 1'000'000) { pair.world.faults().direct = ppm; }
  void be_joint() { pair.world.faults().joint = 1'000'000; }
  void read(std::uint32_t length) { left.post(left.read(1, length, right)); }
  std::uint64_t fetched() { return pair.world.fetched(); }
  std::uint64_t drops(Peer& peer, DropReason why) {
    return peer.node().device().counters().drops.read(why);
  }
  void expect_data(std::size_t length) {
    EXPECT_EQ(statuses(left.sends), std::vector{Status::kSuccess});
    EXPECT_NO_THROW(
        expect_equal(left.result.bytes().first(length), right.target.bytes().first(length), "data"));
  }
  void expect_fetches(const Request& request, std::uint64_t count) {
    be_direct();
    left.post(request);
    run_until_sent(1);
    expect_data(request.buffers[0].length);
    EXPECT_EQ(fetched(), count);
  }
  // READ data for the left.
  static bool is_answer(std::span<const std::uint8_t> bytes) {
    const auto packet = wire::parse_packet(bytes);
    return packet.ok() && packet->row->operation == wire::Operation::kReadResponse;
  }
  // Changes something about the first answer when it leaves.
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
  // Of ten packets: nine headers of 12 bytes more, and an AETH in the first and in the last.
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
    EXPECT_EQ(left.node().device().counters().packets_received.read(), 10u);
    EXPECT_EQ(left.node().device().counters().bytes_received.read(), 10 * 12 + 2 * 4 + 2500u);
  }
};

TEST(JointAnswers, CountAsThoseThatTheyStandFor) {
  Answers s;
  s.be_joint();
  std::vector<std::uint32_t> seen;
  s.pair.world.filter = [&](const Node&, std::span<const std::uint8_t> bytes) {
    if (s.is_answer(bytes)) seen.push_back(s.pair.world.seen().joint);
    return true;
  };
  s.read(2499);
  s.run_until_sent(1);
  s.expect_data(2499);
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{4, 4, 2}));
  s.expect_counters();
  s.expect_unharmed();
}

TEST(DirectAnswers, CountAsThoseThatTheyStandFor) {
  Answers s;
  s.be_direct();
  s.read(2499);
  s.run_until_sent(1);
  s.expect_data(2499);
  EXPECT_EQ(s.fetched(), 3u);
  s.expect_counters();
  s.expect_unharmed();
}

TEST(DirectAnswers, OfManyRequestsBringTheWholeOfALongRead) {
  Answers s;
  s.be_direct();
  s.read(32'000);
  s.run_until_sent(1);
  s.expect_data(32'000);
  EXPECT_EQ(s.fetched(), 30u);
  EXPECT_EQ(s.left.qp().endpoint().counters.retransmitted.read(), 0u);
  s.expect_unharmed();
}

TEST(DirectAnswers, FillPiecesOfMemory) {
  Answers s;
  s.be_direct();
  Request r = s.left.read(1, 2500, s.right);
  const std::uint32_t key = s.left.result.key();
  r.buffers = {{s.left.result.address(), 100, key},
               {s.left.result.address(100), 1300, key},
               {s.left.result.address(1400), 1100, key}};
  s.left.post(r);
  s.run_until_sent(1);
  s.expect_data(2500);
  EXPECT_GE(s.fetched(), 5u);
  s.expect_unharmed();
}

TEST(DirectAnswers, ReachMemoryThatIsNotPlain) {
  Answers s;
  Request r = s.left.read(1, 2500, s.right);
  r.buffers[0].key = paged_key(s.left, s.left.result, memory::kLocalWrite);
  s.expect_fetches(r, 3);
}

TEST(DirectAnswers, AreMadeOfPlainMemoryOnly) {
  Answers s;
  Request r = s.left.read(1, 2500, s.right);
  r.remote_key = paged_key(s.right, s.right.target, memory::kRemoteRead);
  s.expect_fetches(r, 0);
}

TEST(DirectAnswers, ThatCannotBeFetchedComeAgainWhole) {
  Answers s;
  s.be_direct();
  s.pair.world.faults().unreadable = 1'000'000;
  s.read(2500);
  const TimeNs before = s.pair.world.now();
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 1; }));
  EXPECT_LT(s.pair.world.now(), before + 1'000'000) << "waited for a deadline";
  s.expect_data(2500);
  // What is repeated is never direct.
  EXPECT_EQ(s.drops(s.left, DropReason::kUnreadableSender), 1u);
  EXPECT_EQ(s.fetched(), 0u);
  s.pair.world.faults().unreadable = 0;
  s.expect_unharmed();
}

TEST(DirectAnswers, IntoMemoryThatWasWithdrawnFailAsOthersDo) {
  Answers s;
  s.be_direct();
  s.change_answer([&](Load&) {
    EXPECT_TRUE(s.left.node().device().memory().deregister(s.left.result.key()).ok());
  });
  s.read(2500);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kLocalProtection});
  EXPECT_EQ(s.fetched(), 0u);
}

// The owner was told that nobody uses it any more, and did with it what it wanted.
class Withdrawn : public Answers {
 public:
  // While the first answer is on its way.
  void withdraw(std::function<void(memory::Registry&)> how) {
    be_direct();
    change_answer([this, how](Load& load) {
      EXPECT_TRUE(load.is_direct);
      how(right.node().device().memory());
      for (std::uint8_t& byte : right.target.bytes()) byte = 0xee;
    });
  }
  void expect_refused() {
    run_until_sent(1);
    EXPECT_EQ(statuses(left.sends), std::vector{Status::kRemoteAccess});
    EXPECT_EQ(pair.world.withdrawn(), 1u);
    EXPECT_EQ(fetched(), 0u);
    EXPECT_EQ(left.result.bytes()[0], 0u);
    expect_unharmed();
  }
};

TEST(DirectAnswers, FromMemoryThatWasDeregisteredAreRefused) {
  Withdrawn s;
  const std::uint32_t key = s.right.target.key();
  s.withdraw([key](memory::Registry& memory) { EXPECT_TRUE(memory.deregister(key).ok()); });
  s.read(2500);
  s.expect_refused();
}

TEST(DirectAnswers, FromMemoryWhoseRightsWereTakenAreRefused) {
  Withdrawn s;
  const std::uint32_t key = s.right.target.key();
  s.withdraw([key](memory::Registry& memory) {
    memory::Registry::Change change;
    change.access = true;
    change.to.access = memory::kLocalWrite;
    EXPECT_TRUE(memory.change_region(key, change).ok());
  });
  s.read(2500);
  s.expect_refused();
}

TEST(DirectAnswers, FromAWindowThatWasUnboundAreRefused) {
  Withdrawn s;
  memory::Registry& memory = s.right.node().device().memory();
  const std::uint32_t parent = register_again(s.right, s.right.target, memory::kWindowBind);
  const std::uint32_t window = *memory.bind_type1(
      *memory.allocate_window(Peer::kDomain, false), Peer::kDomain,
      {parent, s.right.target.address(), Peer::kMemory, memory::kRemoteRead});
  s.withdraw([window](memory::Registry& registry) {
    EXPECT_TRUE(registry.bind_type1(window, Peer::kDomain, {}).ok());
  });
  Request r = s.left.read(1, 2500, s.right);
  r.remote_key = window;
  s.left.post(r);
  s.expect_refused();
}

// The region is the same again in all but its edition: what is repeated reads what is there now.
TEST(DirectAnswers, FromMemoryThatWasRegisteredAnewComeAgain) {
  Withdrawn s;
  const std::uint32_t key = s.right.target.key();
  s.withdraw([&](memory::Registry& memory) {
    memory::Registry::Change change;
    change.translation = true;
    change.to.host_address = change.to.base = s.right.target.address();
    change.to.length = Peer::kMemory;
    EXPECT_TRUE(memory.change_region(key, change).ok());
  });
  s.read(2500);
  s.run_until_sent(1);
  s.expect_data(2500);
  EXPECT_EQ(s.left.result.bytes()[2499], 0xee);
  EXPECT_EQ(s.pair.world.withdrawn(), 1u);
  s.expect_unharmed();
}

// A responder that lies harms its own connection.
void expect_bad_response(std::function<void(Load&)> change) {
  Answers s;
  s.be_joint();
  s.change_answer(std::move(change));
  s.read(1024);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kBadResponse});
  s.expect_unharmed();
}

TEST(JointAnswers, OfAWrongLengthAreBad) {
  expect_bad_response([](Load& load) { load.joint = 3; });
  expect_bad_response([](Load& load) { load.bytes.resize(load.bytes.size() - 4); });
}

TEST(JointAnswers, ThatGoBeyondWhatWasAskedAreDropped) {
  Answers s;
  s.be_joint();
  s.change_answer([](Load& load) { load.joint = 5; });
  s.read(1024);
  s.run_until_sent(1);
  EXPECT_EQ(s.drops(s.left, DropReason::kGhostAck), 1u);
  s.expect_data(1024);
  s.expect_unharmed();
}

TEST(JointAnswers, ThatGoIntoTheNextRequestAreBad) {
  for (const std::size_t more : {0, 256}) {
    Answers s;
    s.be_joint();
    s.change_answer([more](Load& load) {
      load.joint = 5;
      load.bytes.resize(load.bytes.size() + more);
    });
    s.left.post(s.left.read(1, 1024, s.right));
    s.left.post(s.left.read(2, 1024, s.right));
    s.run_until_sent(2);
    EXPECT_EQ(statuses(s.left.sends), (std::vector{Status::kBadResponse, Status::kFlushed}));
    s.expect_unharmed();
  }
}

TEST(JointAnswers, ToOtherRequestsAreBad) {
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
    s.run_until_sent(2);
    EXPECT_EQ(statuses(s.left.sends), (std::vector{Status::kBadResponse, Status::kFlushed}));
  }
}

}  // namespace
}  // namespace verbena::sim
