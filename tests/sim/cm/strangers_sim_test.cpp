// SPDX-License-Identifier: BSD-2-Clause
// A stranger, who is not the peer, attacks a connection: in every state, on both sides, with every
// message, from another address, with all numbers that it may know. Only counters change.
#include <gtest/gtest.h>

#include "cm_scene.hpp"

namespace verbena::cm::sim {
namespace {

using enum RdmaEventType;
using State = ConnectionState;

const IpAddress kStranger = IpAddress::v4(0x0a00004d);

// What the two ends of a connection know of each other, as read from the wire.
struct Known {
  std::optional<Req> req;
  std::optional<Rep> rep;
  std::uint64_t transaction_id = 0;

  void read(const MadBytes& bytes) {
    const std::optional<Mad> mad = parse_mad(bytes);
    if (const auto* m = std::get_if<Req>(&mad->message))
      req = *m, transaction_id = mad->transaction_id;
    if (const auto* m = std::get_if<Rep>(&mad->message)) rep = *m;
  }
  std::uint32_t client_id() const { return req->local_comm_id; }
  std::uint32_t server_id() const { return rep ? rep->local_comm_id : 0; }
};

// Returns every message about this connection, as the peer of one end would send it.
std::vector<Message> all_messages(const Known& known, bool to_server) {
  const std::uint32_t from = to_server ? known.client_id() : known.server_id();
  const std::uint32_t to = to_server ? known.server_id() : known.client_id();
  const std::uint32_t qpn =
      to_server ? (known.rep ? known.rep->local_qpn : 0) : known.req->local_qpn;
  std::vector<Message> all;
  Rep rep = known.rep.value_or(Rep{});
  rep.local_comm_id = from;
  rep.remote_comm_id = to;
  all.push_back(rep);
  all.push_back(Rtu{.local_comm_id = from, .remote_comm_id = to});
  for (const Answered answered : {Answered::kReq, Answered::kRep, Answered::kOther}) {
    all.push_back(Mra{.local_comm_id = from,
                      .remote_comm_id = to,
                      .answered = answered,
                      .service_timeout = kServiceTimeout});
  }
  for (const RejectReason reason : {RejectReason::kTimeout, RejectReason::kStaleConnection,
                                    RejectReason::kInvalidCommId, RejectReason::kConsumerDefined}) {
    Rej rej{.local_comm_id = from, .remote_comm_id = to};
    rej.reason = reason;
    all.push_back(rej);
    rej.remote_comm_id = 0;  // names the connection by what the REQ said
    write_bits(rej.info, Field{"ca_guid", 0, 0, 64}, known.req->local_ca_guid);
    rej.info_length = 8;
    all.push_back(rej);
  }
  all.push_back(Dreq{.local_comm_id = from, .remote_comm_id = to, .remote_qpn = qpn});
  all.push_back(Drep{.local_comm_id = from, .remote_comm_id = to});
  Lap lap;
  lap.local_comm_id = from;
  lap.remote_comm_id = to;
  lap.remote_qpn = qpn;
  all.push_back(lap);
  all.push_back(Apr{.local_comm_id = from, .remote_comm_id = to});
  return all;
}

class StrangerTest : public testing::Test {
 protected:
  StrangerTest() {
    s.client.hangs_up = false;
    s.world.network = [this](const Flight& f) -> std::vector<Flight> {
      known.read(f.mad.bytes);
      if (attribute_of(f) == lost) return {};
      return {f};
    };
  }

  // Runs until both ends are in the given states.
  void run_until(State client, State server) {
    for (int steps = 0; steps < 1000; ++steps) {
      if (client_state() == client && server_state() == server) return;
      ASSERT_TRUE(s.step(s.world.now + 10 * kSecond));
    }
    FAIL() << to_string(client_state()) << ", " << to_string(server_state());
  }
  State state_at(const Host& host, CommId id) const {
    const Connection* c = host.cm.agent().connection(id);
    return c == nullptr ? State::kIdle : c->state();
  }
  State client_state() const { return known.req ? state_at(s.a, known.client_id()) : State::kIdle; }
  // The server's ID is on no wire before its REP. Until then a held request is the only connection.
  State server_state() const {
    return known.rep ? state_at(s.b, known.server_id())
                     : (s.server.held.empty() ? State::kIdle : State::kReqReceived);
  }

  // Sends every message twice, with all the right numbers: from the stranger's address, and from
  // the peer's address to another device of the same host.
  void attack() {
    const State client = client_state();
    const State server = server_state();
    const TimeNs client_deadline = deadline_at(s.a, known.client_id());
    const TimeNs server_deadline = known.rep ? deadline_at(s.b, known.server_id()) : 0;
    for (const bool to_server : {false, true}) {
      Host& host = to_server ? s.b : s.a;
      for (const Message& message : all_messages(known, to_server)) {
        host.cm.handle_mad(s.world.now, 1, kStranger,
                           write_mad({known.transaction_id, 0, message}));
        // The device numbered 2 is not the connection's.
        host.cm.handle_mad(s.world.now, 2, peer_of(to_server),
                           write_mad({known.transaction_id, 0, message}));
        EXPECT_EQ(client_state(), client) << name_of(message);
        EXPECT_EQ(server_state(), server) << name_of(message);
      }
    }
    EXPECT_EQ(deadline_at(s.a, known.client_id()), client_deadline);
    if (known.rep) {
      EXPECT_EQ(deadline_at(s.b, known.server_id()), server_deadline);
    }
  }
  TimeNs deadline_at(const Host& host, CommId id) const {
    const Connection* c = host.cm.agent().connection(id);
    return c == nullptr ? 0 : c->deadline();
  }
  const IpAddress& peer_of(bool to_server) const {
    return (to_server ? s.a : s.b).ports.default_port_address();
  }
  // The connection completes its life: it is established, and the client disconnects in order.
  void expect_a_whole_life() {
    lost = 0;
    while (s.server.seen[kEstablished] == 0) ASSERT_TRUE(s.step(s.world.now + 100 * kSecond));
    s.a.cm.disconnect(s.world.now, kChannel, s.client.id);
    ASSERT_TRUE(s.finish());
    EXPECT_EQ(
        s.client.seen,
        (std::map<RdmaEventType, int>{
            {kAddrResolved, 1}, {kRouteResolved, 1}, {kConnectResponse, 1}, {kDisconnected, 1}}));
    EXPECT_EQ(s.server.seen, (std::map<RdmaEventType, int>{
                                 {kConnectRequest, 1}, {kEstablished, 1}, {kDisconnected, 1}}));
    s.expect_nothing_remains();
  }

  Scene s{41};
  Known known;
  std::uint16_t lost = 0;  // the kind of message that is lost for now
};

TEST_F(StrangerTest, CannotAnswerARequest) {
  lost = Req::kAttribute;
  run_until(State::kReqSent, State::kIdle);
  attack();
  expect_a_whole_life();
}

TEST_F(StrangerTest, CannotTakeARequestBack) {
  s.server.accepts = false;
  lost = Mra::kAttribute;
  run_until(State::kReqSent, State::kReqReceived);
  attack();
  s.server.accept(s.world.now, *s.server.held.begin());
  expect_a_whole_life();
}

TEST_F(StrangerTest, CannotConfirmAResponse) {
  lost = Rep::kAttribute;
  run_until(State::kReqSent, State::kRepSent);
  attack();
  expect_a_whole_life();
}

TEST_F(StrangerTest, CannotEndAConnectionThatIsHalfMade) {
  lost = Rtu::kAttribute;
  run_until(State::kEstablished, State::kRepSent);
  attack();
  expect_a_whole_life();
}

TEST_F(StrangerTest, CannotEndAConnection) {
  run_until(State::kEstablished, State::kEstablished);
  attack();
  EXPECT_GT(s.a.cm.agent().drops(MadDrop::kNotFromPeer), 0u);
  EXPECT_GT(s.b.cm.agent().drops(MadDrop::kNotFromPeer), 0u);
  expect_a_whole_life();
}

TEST_F(StrangerTest, CannotShortenAGoodbye) {
  run_until(State::kEstablished, State::kEstablished);
  lost = Dreq::kAttribute;
  s.a.cm.disconnect(s.world.now, kChannel, s.client.id);
  run_until(State::kDreqSent, State::kEstablished);
  attack();
  lost = 0;
  ASSERT_TRUE(s.finish());
  s.expect_nothing_remains();
}

// If the peer's queue pair asks for a new connection, the peer has lost the old one. If a stranger
// names the same queue pair, it only asks for a connection of its own.
TEST_F(StrangerTest, CannotDeclareAConnectionStale) {
  run_until(State::kEstablished, State::kEstablished);
  Req req = *known.req;
  for (std::uint32_t guess = 0; guess < 14; ++guess) {
    req.local_comm_id = known.client_id() + guess;
    s.b.cm.handle_mad(s.world.now, 1, kStranger, write_mad({guess, 0, req}));
    s.run();
    EXPECT_EQ(server_state(), State::kEstablished) << guess;
  }
  // Only the first request is seen. Each later one names the same queue pair again, so it is stale.
  EXPECT_EQ(s.server.seen[kConnectRequest], 2);
  EXPECT_EQ(s.server.seen[kDisconnected], 0);
}

TEST_F(StrangerTest, ThePeerStillCan) {
  run_until(State::kEstablished, State::kEstablished);
  Req req = *known.req;
  req.local_comm_id ^= 1;
  s.b.cm.handle_mad(s.world.now, 1, peer_of(true), write_mad({5, 0, req}));
  EXPECT_EQ(server_state(), State::kDreqSent);
}

// A stranger's request that uses the names of another request first does not keep that one out.
TEST_F(StrangerTest, CannotTakeTheNamesOfARequest) {
  lost = Req::kAttribute;
  run_until(State::kReqSent, State::kIdle);
  s.server.accepts = false;
  s.b.cm.handle_mad(s.world.now, 1, kStranger, write_mad({known.transaction_id, 0, *known.req}));
  s.run();
  s.server.accepts = true;
  ASSERT_EQ(s.server.seen[kConnectRequest], 1);
  lost = 0;
  while (s.server.seen[kEstablished] == 0) ASSERT_TRUE(s.step(s.world.now + 10 * kSecond));
  EXPECT_EQ(s.server.seen[kConnectRequest], 2);
  EXPECT_TRUE(s.client.connected);
}

// Messages from the peer's address, each with one of the necessary numbers wrong.
TEST_F(StrangerTest, WhoGuessesTheNumbersMustGuessAll) {
  run_until(State::kEstablished, State::kEstablished);
  const std::uint32_t client = known.client_id();
  const std::uint32_t server = known.server_id();
  const std::uint32_t qpn = known.rep->local_qpn;
  for (const std::uint32_t off : {1u, 2u, 0xffffffffu}) {
    const std::vector<Message> guesses{
        Dreq{.local_comm_id = client + off, .remote_comm_id = server, .remote_qpn = qpn},
        Dreq{.local_comm_id = client, .remote_comm_id = server + off, .remote_qpn = qpn},
        Dreq{
            .local_comm_id = client, .remote_comm_id = server, .remote_qpn = (qpn + off) & kMask24},
        Rej{.local_comm_id = client + off, .remote_comm_id = server},
        Rej{.local_comm_id = client, .remote_comm_id = server + off},
        Rej{.local_comm_id = 0, .remote_comm_id = server},
    };
    for (const Message& guess : guesses) {
      s.b.cm.handle_mad(s.world.now, 1, peer_of(true), write_mad({9, 0, guess}));
      EXPECT_EQ(server_state(), State::kEstablished) << name_of(guess);
    }
  }
  expect_a_whole_life();
}

// A communication ID does not reveal the next one.
TEST(CommunicationIdTest, DoNotFollowEachOther) {
  Agent agent(1);
  std::set<CommId> seen;
  CommId last = agent.new_connection(1);
  for (int i = 0; i < 1000; ++i) {
    const CommId next = agent.new_connection(1);
    EXPECT_GT(std::min(next - last, last - next), 16u);
    EXPECT_TRUE(seen.insert(next).second);
    last = next;
  }
}

// --- datagram services ---------------------------------------------------------------------------

TEST(SidrStrangerTest, NeitherAnswersNorTakesTheNameOfAQuestion) {
  Scene s(42, PortSpace::kUdp);
  std::optional<SidrReq> asked;
  bool is_lost = true;
  s.world.network = [&](const Flight& f) -> std::vector<Flight> {
    const std::optional<Mad> mad = parse_mad(f.mad.bytes);
    if (const auto* req = std::get_if<SidrReq>(&mad->message)) {
      asked = *req;
      if (is_lost) return {};
    }
    return {f};
  };
  while (!asked) ASSERT_TRUE(s.step(s.world.now + 10 * kSecond));
  SidrRep rep;
  rep.request_id = asked->request_id;
  rep.service_id = asked->service_id;
  rep.qpn = 0x666;
  s.a.cm.handle_mad(s.world.now, 1, kStranger, write_mad({1, 0, rep}));
  s.a.cm.handle_mad(s.world.now, 2, s.b.ports.default_port_address(), write_mad({1, 0, rep}));
  s.b.cm.handle_mad(s.world.now, 1, kStranger, write_mad({1, 0, *asked}));
  s.run();
  EXPECT_FALSE(s.client.finished);
  EXPECT_EQ(s.a.cm.agent().drops(MadDrop::kNotFromPeer), 2u);
  is_lost = false;
  ASSERT_TRUE(s.finish());
  EXPECT_TRUE(s.client.connected);
  EXPECT_NE(std::get<UdParam>(s.client.response.param).qp_num, 0x666u);
}

}  // namespace
}  // namespace verbena::cm::sim
