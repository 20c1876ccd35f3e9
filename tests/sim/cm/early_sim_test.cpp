// SPDX-License-Identifier: BSD-2-Clause
// A client that is a moment faster than its server: its request waits for `rdma_listen`, and is
// refused only if no listener appears in time.
#include <gtest/gtest.h>

#include "cm_programs.hpp"

namespace verbena::cm::sim {
namespace {

using enum RdmaEventType;

class EarlyTest : public testing::TestWithParam<PortSpace> {
 protected:
  EarlyTest() {
    EXPECT_EQ(client.connect(b.ports.default_port_address()), 0);
    run(kMillisecond);  // the request has arrived
  }

  void run(TimeNs limit) {
    const TimeNs end = world.now + limit;
    do {
      client.run(world.now);
      if (server) server->run(world.now);
    } while (!client.finished && world.step(end));
    if (!client.finished) world.now = end;
  }
  void listen() { server.emplace(b, kChannel, GetParam(), world.now); }
  void expect_nothing_remains() {
    b.cm.close_channel(world.now, kChannel);
    for (client.run(world.now); world.step(); client.run(world.now)) {
    }
    EXPECT_EQ(a.cm.agent().size() + b.cm.agent().size(), 0u);
    EXPECT_EQ(a.cm.ids() + b.cm.ids(), 0u);
    EXPECT_EQ(b.cm.next_deadline(), kNever);
    EXPECT_TRUE(world.is_consistent());
  }

  World world{21};
  Host& a = world.add_host();
  Host& b = world.add_host();
  Client client{a, kChannel, GetParam()};
  std::optional<Server> server;
};
INSTANTIATE_TEST_SUITE_P(Spaces, EarlyTest, testing::Values(PortSpace::kTcp, PortSpace::kUdp),
                         [](const auto& i) { return i.param == PortSpace::kTcp ? "Rc" : "Ud"; });

TEST_P(EarlyTest, AListenerThatComesInTimeIsServed) {
  run(EarlyRequests::kListenPatience / 2);
  ASSERT_FALSE(client.finished);
  listen();
  run(kSecond);
  EXPECT_TRUE(client.connected);
  EXPECT_EQ(server->seen[kConnectRequest], 1);
  expect_nothing_remains();
}

TEST_P(EarlyTest, AListenerIsLeftAMomentToSetItsOptions) {
  run(10 * kMillisecond);
  listen();
  run(EarlyRequests::kListenSettle - kMillisecond);
  EXPECT_EQ(server->seen[kConnectRequest], 0);
  run(2 * kMillisecond);
  EXPECT_EQ(server->seen[kConnectRequest], 1);
  run(kSecond);
  expect_nothing_remains();
}

TEST_P(EarlyTest, AListenerThatComesInTheLastMomentIsServedToo) {
  run(EarlyRequests::kListenPatience - 3 * kMillisecond);
  ASSERT_FALSE(client.finished);
  listen();
  run(kSecond);
  EXPECT_TRUE(client.connected);
  expect_nothing_remains();
}

TEST_P(EarlyTest, OneThatComesTooLateIsNot) {
  run(EarlyRequests::kListenPatience);
  EXPECT_TRUE(client.finished);
  EXPECT_FALSE(client.connected);
  EXPECT_EQ(client.last_status, GetParam() == PortSpace::kTcp ? 8 : 1);
  listen();
  run(kSecond);
  EXPECT_EQ(server->seen[kConnectRequest], 0);
  expect_nothing_remains();
}

TEST_P(EarlyTest, AClientThatGoesMeanwhileIsForgotten) {
  client.destroy(world.now);
  client.finished = true;
  while (world.step(world.now + kMillisecond)) {
  }
  listen();
  run(EarlyRequests::kListenSettle);
  while (world.step(world.now + EarlyRequests::kListenSettle)) {
  }
  server->run(world.now);
  // A datagram service has no message that withdraws a request.
  EXPECT_EQ(server->seen[kConnectRequest], GetParam() == PortSpace::kTcp ? 0 : 1);
  expect_nothing_remains();
}

TEST_P(EarlyTest, BeyondTheLimitRequestsAreRefusedAtOnce) {
  std::vector<std::unique_ptr<Client>> others;
  for (std::size_t i = 0; i < EarlyRequests::kMaxEarly; ++i) {
    others.push_back(std::make_unique<Client>(a, 2 + i, GetParam()));
    others.back()->connect(b.ports.default_port_address(), 0x9000 + static_cast<std::uint32_t>(i));
    others.back()->run(world.now);  // resolves the route
  }
  const TimeNs end = world.now + EarlyRequests::kListenPatience / 2;
  do {
    for (auto& other : others) other->run(world.now);
  } while (world.step(end));
  const auto refused = std::count_if(others.begin(), others.end(),
                                     [](const auto& other) { return other->finished; });
  EXPECT_EQ(refused, 1) << "one waited already";
  others.clear();
  for (ChannelId i = 0; i < EarlyRequests::kMaxEarly; ++i) a.cm.close_channel(world.now, 2 + i);
  run(kSecond);
  expect_nothing_remains();
}

}  // namespace
}  // namespace verbena::cm::sim
