// SPDX-License-Identifier: BSD-2-Clause
// A receiver and the owners of SRQs in its domain, step by step: what owners refuse, what happens
// to the sender if an owner dies or never existed, and which proxies exist when.
#include "shared_domain.hpp"
#include "steps.hpp"

namespace verbena::sim {
namespace {

constexpr std::size_t kNear = 0;  // the receiver's own
constexpr std::size_t kFar = 1;

struct RelaySteps : testing::Test {
  SharedDomain s;

  void send(std::size_t owner, std::uint64_t id) {
    ASSERT_EQ(s.sender.post(s.to(owner, s.sender.send(id, 300))), requester::Posted::kOk);
  }
  void send_well(std::size_t owner, std::uint64_t id) {
    ASSERT_TRUE(s.owner(owner).receive(id));
    send(owner, id);
    ASSERT_TRUE(s.all_sent(id));
    ASSERT_EQ(s.sender.sends.back().status, Status::kSuccess);
  }
  // Request `id` ends with `status`. Then the receiver is in error and no proxy is left.
  void expect_end(std::uint64_t id, Status status) {
    ASSERT_TRUE(s.all_sent(id));
    s.run(10'000'000);
    EXPECT_EQ(s.sender.sends[id - 1].status, status);
    EXPECT_EQ(s.receiver.state(), qp::State::kError);
    EXPECT_EQ(s.registry.proxies(), 0u);
  }
  void reconnect() {
    for (Peer* peer : {&s.sender, &s.receiver}) peer->to_state(qp::State::kReset);
    s.sender.bring_up(s.receiver);
    s.receiver.bring_up(s.sender);
    s.sender.sends.clear();
  }
};

TEST_F(RelaySteps, OneProxyServesAllSrqsOfAnOwner) {
  send_well(kFar, 1);
  send_well(kNear, 2);
  send_well(kFar, 3);
  EXPECT_EQ(s.registry.proxies(), 1u);
  EXPECT_EQ(s.registry.asked(), 1u);
  EXPECT_EQ(ids(s.owner(kFar).receives), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(ids(s.owner(kNear).receives), (std::vector<std::uint64_t>{2}));
}

TEST_F(RelaySteps, AnOwnerRefusesMemoryThatIsNotItsOwn) {
  Request r = s.to(kFar, s.sender.write(1, 100, s.owner(kFar)));
  r.remote_key = s.owner(2).target.key() ^ 0x5a00;
  s.sender.post(r);
  expect_end(1, Status::kRemoteAccess);
  EXPECT_EQ(s.receiver.count(AsyncEvent::kQpAccessError), 1u);
  for (std::size_t i = 0; i < SharedDomain::kOwners; ++i) s.owner(i).target.expect_guards();
  reconnect();
  send_well(kFar, 1);
}

TEST_F(RelaySteps, AMessageThatDoesNotFitEndsAsAtTheReceiverItself) {
  ASSERT_TRUE(s.owner(kFar).receive(7, 100));
  send(kFar, 1);
  expect_end(1, Status::kRemoteInvalidRequest);
  ASSERT_EQ(s.owner(kFar).receives.size(), 1u);
  EXPECT_EQ(s.owner(kFar).receives[0].status, Status::kLocalLength);
  EXPECT_EQ(s.owner(kFar).receives[0].qpn, s.receiver.qp().number().value());
}

TEST_F(RelaySteps, AnOwnerThatIsNotReadyIsWaitedFor) {
  send(kFar, 1);
  s.run(20'000'000);
  EXPECT_TRUE(s.sender.sends.empty());
  ASSERT_TRUE(s.owner(kFar).receive(1));
  ASSERT_TRUE(s.all_sent(1));
  EXPECT_EQ(s.sender.sends[0].status, Status::kSuccess);
}

TEST_F(RelaySteps, NumbersOfNobodyAreRefused) {
  Request r = s.sender.send(1, 100);
  r.remote_srqn = Qpn::from(900, 3).value();
  s.sender.post(r);
  expect_end(1, Status::kRemoteInvalidRequest);
  reconnect();
  r.remote_srqn = s.owner(kFar).srq()->number + 1;  // a number of the owner's that is no SRQ
  s.sender.post(r);
  expect_end(1, Status::kRemoteInvalidRequest);
}

TEST_F(RelaySteps, AnOwnerThatDiesWhileIdleHarmsOnlyRequestsToIt) {
  send_well(kFar, 1);
  s.registry.withdraw(s.owner(kFar).node());
  send_well(kNear, 2);
  send_well(2, 3);
  send(kFar, 4);
  expect_end(4, Status::kRemoteInvalidRequest);
}

TEST_F(RelaySteps, AnOwnerThatDiesWithRequestsOutstandingEndsThem) {
  send(kFar, 1);  // no receive is posted: the sender has to wait
  s.run(1'000'000);
  EXPECT_EQ(s.registry.proxies(), 1u);
  s.registry.withdraw(s.owner(kFar).node());
  expect_end(1, Status::kRemoteInvalidRequest);
}

TEST_F(RelaySteps, AnOwnerThatDoesNotAnswerCostsTheSenderItsRetries) {
  send_well(kFar, 1);
  const IpAddress silent = s.owner(kFar).node().address();
  s.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
    return !(from.address() == silent);
  };
  ASSERT_TRUE(s.owner(kFar).receive(2));
  send(kFar, 2);
  ASSERT_TRUE(s.all_sent(2));
  EXPECT_EQ(s.sender.sends[1].status, Status::kRetryExceeded);
}

TEST_F(RelaySteps, ALostQuestionIsAskedAgain) {
  std::size_t asked = 0;
  auto ask = s.receiver.node().proxy_wanted;
  s.receiver.node().proxy_wanted = [&](const queue::ProxyQp& wanted) {
    if (++asked > 1) ask(wanted);
  };
  ASSERT_TRUE(s.owner(kFar).receive(1));
  send(kFar, 1);
  ASSERT_TRUE(s.all_sent(1));
  EXPECT_EQ(s.sender.sends[0].status, Status::kSuccess);
  EXPECT_EQ(asked, 2u);
}

TEST_F(RelaySteps, ProxiesGoWithTheConnectionAndWithTheReceiver) {
  send_well(kFar, 1);
  send_well(2, 2);
  EXPECT_EQ(s.registry.proxies(), 2u);
  reconnect();
  s.run(1'000'000);
  EXPECT_EQ(s.registry.proxies(), 0u);
  send_well(kFar, 1);
  EXPECT_EQ(s.registry.proxies(), 1u);
  s.receiver.to_state(qp::State::kError);
  s.run(1'000'000);
  EXPECT_EQ(s.registry.proxies(), 0u);
}

TEST_F(RelaySteps, HalfAMessageIsFlushedWithTheConnection) {
  ASSERT_TRUE(s.owner(kFar).receive(5));
  const auto last = static_cast<std::uint8_t>(
      wire::make_opcode(wire::WireTransport::kXrc, wire::Operation::kSend, wire::Place::kLast));
  s.world.filter = [&](const Node&, std::span<const std::uint8_t> bytes) {
    return bytes[0] != last;
  };
  send(kFar, 1);
  s.run(5'000'000);
  s.receiver.to_state(qp::State::kError);
  s.run(5'000'000);
  ASSERT_EQ(s.owner(kFar).receives.size(), 1u);
  EXPECT_EQ(s.owner(kFar).receives[0].status, Status::kFlushed);
}

TEST_F(RelaySteps, OwnersLearnOfNewAttributesBeforeTheNextPacket) {
  Request r = s.to(kFar, s.sender.write(1, 64, s.owner(kFar)));
  s.sender.post(r);
  ASSERT_TRUE(s.all_sent(1));
  EXPECT_EQ(s.sender.sends[0].status, Status::kSuccess);
  qp::Attributes a;
  a.access_flags = memory::kRemoteRead;
  s.receiver.modify(a, qp::kMaskAccessFlags);
  r.id = 2;
  s.sender.post(r);
  expect_end(2, Status::kRemoteInvalidRequest);
}

// A fault marks a request with the refusal that it asks for. An SRQ's owner obeys as the receiver
// does.
TEST_F(RelaySteps, AMarkedRequestEndsAlikeAtEachOwner) {
  const auto marked_with = [](Status status) {
    return static_cast<std::uint8_t>(wire::kStatusCodes + static_cast<int>(status));
  };
  struct Case {
    std::uint8_t mark;
    Status status;
    bool ends_receiver;
  };
  for (const Case& c :
       {Case{static_cast<std::uint8_t>(wire::NakMark::kInvalid), Status::kRemoteInvalidRequest,
             true},
        Case{static_cast<std::uint8_t>(wire::NakMark::kAccess), Status::kRemoteAccess, true},
        Case{static_cast<std::uint8_t>(wire::NakMark::kOperation), Status::kRemoteOperation, true},
        Case{static_cast<std::uint8_t>(wire::NakMark::kRnr), Status::kSuccess, false},
        Case{static_cast<std::uint8_t>(wire::NakMark::kPsn), Status::kSuccess, false},
        Case{marked_with(Status::kGeneral), Status::kGeneral, false},
        Case{marked_with(Status::kLocalProtection), Status::kLocalProtection, false}}) {
    for (const std::size_t owner : {kNear, kFar}) {
      SharedDomain d;
      for (std::size_t i = 0; i < d.world.size(); ++i) d.world.node(i).device().obey_marks(true);
      bool is_marked = false;
      d.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
        if (!(from.address() == d.sender.node().address()) || is_marked) return true;
        is_marked = true;
        std::vector<std::uint8_t> marked(bytes.begin(), bytes.end());
        wire::Bth::mark(marked.data(), c.mark);
        d.world.inject(d.receiver.node().index(), from.address(), marked);
        return false;
      };
      ASSERT_TRUE(d.owner(owner).receive(1));
      d.sender.post(d.to(owner, d.sender.send(1, 300)));
      ASSERT_TRUE(d.all_sent(1));
      d.run(10'000'000);
      EXPECT_EQ(d.sender.sends[0].status, c.status) << owner << " " << int{c.mark};
      EXPECT_EQ(d.receiver.state() == qp::State::kError, c.ends_receiver)
          << owner << " " << int{c.mark};
    }
  }
}

TEST_F(RelaySteps, AnswersFromElsewhereAreDropped) {
  send(kFar, 1);
  s.run(1'000'000);
  ASSERT_EQ(s.registry.proxies(), 1u);
  wire::PacketHeaders h;
  std::array<std::uint8_t, wire::kMaxHeaders> bytes;
  h.aeth = wire::Aeth::ack(wire::kCreditsUnlimited, 1);
  for (std::uint32_t index = 0; index < 8; ++index) {
    for (std::uint32_t psn = 0xffffe0; psn < 0x1000010; ++psn) {
      h.bth.dest_qp = Qpn::from(s.receiver.qp().number().slot(), index);
      h.bth.psn = Psn(psn);
      const std::size_t size = wire::write_headers(
          static_cast<std::uint8_t>(wire::Opcode::kXrcAcknowledge), h, bytes.data());
      s.world.inject(1, s.owner(2).node().address(), {bytes.data(), size});
    }
  }
  s.run(1'000'000);
  EXPECT_TRUE(s.sender.sends.empty());
  ASSERT_TRUE(s.owner(kFar).receive(1));
  ASSERT_TRUE(s.all_sent(1));
  EXPECT_EQ(s.sender.sends[0].status, Status::kSuccess);
}

}  // namespace
}  // namespace verbena::sim
