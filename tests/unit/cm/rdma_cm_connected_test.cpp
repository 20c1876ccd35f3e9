// SPDX-License-Identifier: BSD-2-Clause
// The rdma_cm layer on two hosts: how options and types of queue pairs affect a connection, a
// program that reports data before the RTU came, and a client that takes its request back.
#include <gtest/gtest.h>

#include <cerrno>

#include "rdma_cm_fixture.hpp"

namespace verbena::cm {
namespace {

using sim::Host;
using sim::inet;
using sim::World;
using enum RdmaEventType;

constexpr std::uint32_t kInit = 1;
constexpr std::uint32_t kReadyToReceive = 2;
constexpr std::uint32_t kReadyToSend = 3;
constexpr std::uint32_t kCommEstablished = 4;  // ibv_event_type
constexpr std::uint32_t kPathMigrated = 6;

// One connection of any type, taken step by step.
struct Connected {
  explicit Connected(QpType active = QpType::kRc, QpType passive = QpType::kRc, bool roce = true)
      : world(1, roce), a(world.add_host()), b(world.add_host()) {
    a.cm.open_channel(1);
    b.cm.open_channel(1);
    const std::uint16_t space = active == QpType::kRc ? kTcp : kIb;
    EXPECT_EQ(a.cm.create_id(1, 5, space, static_cast<std::uint8_t>(active), client), 0);
    EXPECT_EQ(b.cm.create_id(1, 6, space, static_cast<std::uint8_t>(passive), listener), 0);
  }

  void listen() {
    EXPECT_EQ(b.cm.bind(1, listener, inet(IpAddress::v4(0), 7174)), 0);
    EXPECT_EQ(b.cm.listen(world.now, 1, listener, 0), 0);
  }
  void resolve() {
    EXPECT_EQ(a.cm.resolve_addr(1, client, {}, inet(b.ports.default_port_address(), 7174)), 0);
    EXPECT_EQ(a.cm.get_event(1)->type, kAddrResolved);
    EXPECT_EQ(a.cm.resolve_route(1, client), 0);
    EXPECT_EQ(a.cm.get_event(1)->type, kRouteResolved);
  }
  static ConnParam param(std::uint32_t qpn) {
    ConnParam p;
    p.qp_num = qpn;
    p.responder_resources = p.initiator_depth = 2;
    p.retry_count = 5;
    return p;
  }
  void request() {
    EXPECT_EQ(a.cm.connect(world.now, 1, client, param(0x4001), Ece{}), 0);
    world.step();
    const auto event = b.cm.get_event(1);
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->type, kConnectRequest);
    server = event->id;
  }
  // Leaves a request unread on b's channel 1; channels 2 and 3 belong to other processes.
  IdHandle leave_unread() {
    for (const ChannelId other : {2, 3})
      b.cm.open_channel(other, static_cast<limits::Holder>(other));
    listen();
    resolve();
    EXPECT_EQ(a.cm.connect(world.now, 1, client, param(0x4001), Ece{}), 0);
    world.step();
    const RdmaEvent* event = b.cm.pending_event(1, 0);
    return event == nullptr ? 0 : event->request;
  }
  void accept() {
    const ConnParam p = param(0x8001);
    EXPECT_EQ(b.cm.accept(world.now, 1, server, 7, &p, Ece{}), 0);
    world.step();
    EXPECT_EQ(a.cm.get_event(1)->type, kConnectResponse);
  }
  void establish() {
    listen();
    resolve();
    request();
    accept();
    EXPECT_EQ(a.cm.accept(world.now, 1, client, 0, nullptr, Ece{}), 0);
    world.step();
    EXPECT_EQ(b.cm.get_event(1)->type, kEstablished);
  }
  QpAttr attributes(Host& host, IdHandle id, std::uint32_t state) {
    QpAttr attr;
    EXPECT_EQ(host.cm.init_qp_attr(1, id, state, attr), 0);
    return attr;
  }
  static int set(Host& host, IdHandle id, std::uint32_t option, std::uint8_t value) {
    return host.cm.set_option(1, id, 0, option, std::span(&value, 1));
  }

  World world;
  Host& a;
  Host& b;
  IdHandle client = 0;
  IdHandle listener = 0;
  IdHandle server = 0;
};

TEST(OptionTest, TheTypeOfServiceIsTheTrafficClassOfThePath) {
  Connected c;
  EXPECT_EQ(Connected::set(c.a, c.client, 0, 0x28), 0);
  EXPECT_EQ(Connected::set(c.b, c.listener, 0, 0x50), 0);
  c.establish();
  EXPECT_EQ(c.attributes(c.a, c.client, kReadyToReceive).ah.traffic_class, 0x28);
  EXPECT_EQ(c.attributes(c.b, c.server, kReadyToReceive).ah.traffic_class, 0x28)
      << "of the REQ, not of the listener";
  RouteInfo info;
  ASSERT_EQ(c.a.cm.query(1, c.client, info), 0);
  EXPECT_EQ(info.path.traffic_class, 0x28);
}

TEST(OptionTest, TheAckTimeoutIsThatOfBothQueuePairs) {
  Connected c;
  EXPECT_EQ(Connected::set(c.a, c.client, 3, 21), 0);
  c.establish();
  EXPECT_EQ(c.attributes(c.a, c.client, kReadyToSend).timeout, 21);
  EXPECT_EQ(c.attributes(c.b, c.server, kReadyToSend).timeout, 21) << "told by the REQ";
  Connected d;
  EXPECT_EQ(Connected::set(d.b, d.listener, 3, 9), 0);
  d.establish();
  EXPECT_EQ(d.attributes(d.b, d.server, kReadyToSend).timeout, 9) << "of the listener";
  EXPECT_NE(d.attributes(d.a, d.client, kReadyToSend).timeout, 9);
}

TEST(QpTypeTest, UnreliableConnectionsKnowNoRetriesAndNoReads) {
  Connected c(QpType::kUc, QpType::kUc);
  c.establish();
  for (const bool active : {true, false}) {
    Host& host = active ? c.a : c.b;
    const IdHandle id = active ? c.client : c.server;
    EXPECT_EQ(c.attributes(host, id, kReadyToReceive).mask,
              kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn);
    EXPECT_EQ(c.attributes(host, id, kReadyToSend).mask, kMaskState | kMaskSqPsn);
  }
}

TEST(QpTypeTest, AnXrcInitiatorSendsAndAnXrcTargetReceives) {
  Connected c(QpType::kXrcSend, QpType::kXrcRecv);
  c.establish();
  constexpr std::uint32_t kReceive =
      kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
  EXPECT_EQ(c.attributes(c.a, c.client, kReadyToReceive).mask, kReceive);
  EXPECT_EQ(c.attributes(c.b, c.server, kReadyToReceive).mask,
            kReceive | kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  const QpAttr initiator = c.attributes(c.a, c.client, kReadyToSend);
  EXPECT_EQ(initiator.mask, kMaskState | kMaskSqPsn | kMaskRetryCount | kMaskRnrRetry |
                                kMaskMaxRdAtomic | kMaskTimeout);
  EXPECT_EQ(initiator.retry_count, 5);
  EXPECT_EQ(c.attributes(c.b, c.server, kReadyToSend).mask, kMaskState | kMaskSqPsn | kMaskTimeout);
}

TEST(QpTypeTest, ARequestOfAnotherTypeThanTheListenersIsRefused) {
  Connected c(QpType::kXrcSend, QpType::kUc);
  c.listen();
  c.resolve();
  EXPECT_EQ(c.a.cm.connect(c.world.now, 1, c.client, Connected::param(1), Ece{}), 0);
  while (c.a.cm.pending_events(1) == 0) ASSERT_TRUE(c.world.step());
  const auto event = c.a.cm.get_event(1);
  EXPECT_EQ(event->type, kRejected);
  EXPECT_EQ(event->status, 28);
  EXPECT_FALSE(c.b.cm.has_pending_events());
}

// The queue pair received data, so the RTU is only late or lost.
TEST(NotifyTest, DataBeforeTheRtuEstablishesTheConnection) {
  Connected c;
  c.listen();
  c.resolve();
  c.request();
  c.accept();
  EXPECT_EQ(c.b.cm.notify(c.world.now, 1, c.server, kCommEstablished + 1), EINVAL);
  EXPECT_EQ(c.b.cm.notify(c.world.now, 1, c.server, kCommEstablished), 0);
  const auto event = c.b.cm.get_event(1);
  EXPECT_EQ(event->type, kEstablished);
  EXPECT_EQ(event->uid, 7u);
  EXPECT_EQ(c.b.cm.notify(c.world.now, 1, c.server, kCommEstablished), EISCONN);
  EXPECT_EQ(c.b.cm.notify(c.world.now, 1, c.server, kPathMigrated), 0);
  EXPECT_EQ(c.a.cm.notify(c.world.now, 1, c.client, kPathMigrated), EINVAL) << "not yet";
  EXPECT_EQ(c.a.cm.accept(c.world.now, 1, c.client, 0, nullptr, Ece{}), 0);
  while (c.world.step(c.world.now + sim::kSecond)) {
  }
  EXPECT_FALSE(c.b.cm.has_pending_events()) << "the RTU came late: once is enough";
}

TEST(ActiveRejectTest, AClientMayRefuseTheResponse) {
  Connected c;
  c.listen();
  c.resolve();
  c.request();
  c.accept();
  const std::vector<std::uint8_t> why{'n', 'o'};
  EXPECT_EQ(c.a.cm.reject(c.world.now, 1, c.client, 0, why), 0);
  c.world.step();
  const auto event = c.b.cm.get_event(1);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->type, kRejected);
  EXPECT_EQ(event->status, 28);
  const PrivateData& data = std::get<ConnParam>(event->param).private_data;
  EXPECT_EQ(data.size, 148);
  EXPECT_EQ(data.bytes[0], 'n');
  EXPECT_EQ(c.b.cm.disconnect(c.world.now, 1, c.server), 0) << "nothing to do, no complaint";
}

TEST(AttributeTest, InitIsKnownOnceThereIsADevice) {
  Connected c;
  QpAttr attr;
  EXPECT_EQ(c.a.cm.init_qp_attr(1, c.client, kInit, attr), EINVAL);
  c.listen();
  c.resolve();
  EXPECT_EQ(c.attributes(c.a, c.client, kInit).mask,
            kMaskState | kMaskAccessFlags | kMaskPkeyIndex | kMaskPort);
}

// ib_cm gives attributes only while it has a connection, and only those for INIT until it knows the
// peer's queue pair.
TEST(AttributeTest, OnlyAConnectionHasThem) {
  Connected c;
  const auto errors = [&](Host& host, IdHandle id) {
    std::vector<int> all;
    QpAttr attr;
    for (const std::uint32_t state : {kInit, kReadyToReceive, kReadyToSend}) {
      all.push_back(host.cm.init_qp_attr(1, id, state, attr));
    }
    return all;
  };
  const std::vector<int> none{EINVAL, EINVAL, EINVAL};
  const std::vector<int> all{0, 0, 0};
  c.listen();
  c.resolve();
  c.request();
  EXPECT_EQ(errors(c.a, c.client), (std::vector<int>{0, EINVAL, EINVAL}));
  EXPECT_EQ(errors(c.b, c.server), all);
  c.accept();
  EXPECT_EQ(errors(c.a, c.client), all);
  EXPECT_EQ(errors(c.b, c.server), all);
  EXPECT_EQ(c.a.cm.accept(c.world.now, 1, c.client, 0, nullptr, Ece{}), 0);
  EXPECT_EQ(c.a.cm.disconnect(c.world.now, 1, c.client), 0);
  EXPECT_EQ(errors(c.a, c.client), none);
  c.world.step();
  EXPECT_EQ(errors(c.b, c.server), none);
  EXPECT_EQ(c.b.cm.disconnect(c.world.now, 1, c.server), 0);
  EXPECT_EQ(errors(c.b, c.server), none) << "in timewait";
  while (c.world.step(c.world.now + sim::kSecond)) {
  }
  EXPECT_EQ(errors(c.a, c.client), none) << "after timewait";
}

// What the passive side accepts applies to both, even if it is more or less than was asked for.
TEST(AttributeTest, TheResponseSaysHowManyReadsThereMayBe) {
  Connected c;
  c.listen();
  c.resolve();
  c.request();
  ConnParam p = Connected::param(0x8001);
  p.responder_resources = 3;
  p.initiator_depth = 0;
  EXPECT_EQ(c.b.cm.accept(c.world.now, 1, c.server, 7, &p, Ece{}), 0);
  c.world.step();
  EXPECT_EQ(c.attributes(c.a, c.client, kReadyToReceive).max_dest_rd_atomic, 0);
  EXPECT_EQ(c.attributes(c.a, c.client, kReadyToSend).max_rd_atomic, 3);
  EXPECT_EQ(c.attributes(c.a, c.client, kInit).access_flags, 2u) << "nobody will read";
}

// Linux rejects a request if it cannot send the acceptance, so that the peer need not wait.
TEST(AcceptTest, WhatCannotBeAcceptedIsRejected) {
  Connected c;
  c.listen();
  c.resolve();
  c.request();
  ConnParam p = Connected::param(0x8001);
  p.private_data.assign(std::vector<std::uint8_t>(Rep::kPrivateData + 1));
  EXPECT_EQ(c.b.cm.accept(c.world.now, 1, c.server, 7, &p, Ece{}), EINVAL);
  c.world.step();
  const auto event = c.a.cm.get_event(1);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->type, kRejected);
  EXPECT_EQ(event->status, 28);
}

TEST(AcceptTest, ASecondAcceptanceEndsAConnectionThatIsNotEstablished) {
  for (const bool established : {false, true}) {
    Connected c;
    if (established) {
      c.establish();
    } else {
      c.listen();
      c.resolve();
      c.request();
      c.accept();
    }
    const ConnParam p = Connected::param(0x8001);
    EXPECT_EQ(c.b.cm.accept(c.world.now, 1, c.server, 7, &p, Ece{}), EINVAL);
    c.world.step();
    const auto event = c.a.cm.get_event(1);
    ASSERT_EQ(event.has_value(), !established);
    if (event) {
      EXPECT_EQ(event->type, kRejected);
    }
  }
}

// Numbers of IDs are easy to guess. A program that uses the number of a request whose event it has
// not read harms only itself.
TEST(UnreadRequestTest, ThatWasDestroyedDoesNotMoveWithItsListener) {
  Connected c;
  const IdHandle request = c.leave_unread();
  std::uint32_t reported = 0, withdrawn = 0;
  EXPECT_EQ(c.b.cm.destroy_id(c.world.now, 1, request, reported, withdrawn), 0);
  EXPECT_EQ(c.b.cm.migrate(2, 1, c.listener, reported, withdrawn), 0);
  EXPECT_EQ(c.b.cm.get_event(2)->id, request);
  EXPECT_TRUE(c.b.cm.is_consistent());
}

TEST(UnreadRequestTest, ThatWasAcceptedDoesNotMoveWithItsListener) {
  Connected c;
  const IdHandle request = c.leave_unread();
  const ConnParam p = Connected::param(0x8001);
  EXPECT_EQ(c.b.cm.accept(c.world.now, 1, request, 7, &p, Ece{}), 0);
  EXPECT_EQ(c.b.cm.notify(c.world.now, 1, request, kCommEstablished), 0);
  std::uint32_t reported = 0, withdrawn = 0;
  EXPECT_EQ(c.b.cm.migrate(2, 1, c.listener, reported, withdrawn), 0);
  EXPECT_TRUE(c.b.cm.is_consistent());
  EXPECT_EQ(c.b.cm.destroy_id(c.world.now, 1, request, reported, withdrawn), 0);
  EXPECT_EQ(withdrawn, 1u);
  EXPECT_EQ(c.b.cm.get_event(2)->type, kConnectRequest);
}

TEST(UnreadRequestTest, ThatWasMovedStaysWhereItIs) {
  Connected c;
  const IdHandle request = c.leave_unread();
  std::uint32_t reported = 0, withdrawn = 0;
  EXPECT_EQ(c.b.cm.migrate(2, 1, request, reported, withdrawn), 0);
  EXPECT_EQ(c.b.cm.migrate(2, 1, c.listener, reported, withdrawn), 0);
  EXPECT_EQ(c.b.cm.migrate(3, 2, request, reported, withdrawn), 0);
  EXPECT_EQ(c.b.cm.destroy_id(c.world.now, 2, c.listener, reported, withdrawn), 0);
  EXPECT_EQ(withdrawn, 1u);
  EXPECT_EQ(c.b.cm.destroy_id(c.world.now, 3, request, reported, withdrawn), 0);
}

TEST(UnreadRequestTest, ThatHasEventsKeepsItsName) {
  Connected c;
  const IdHandle request = c.leave_unread();
  c.b.cm.break_promise(1, request, 7, EINVAL);
  EXPECT_EQ(c.b.cm.pending_events(1), 2u);
  const ConnParam p = Connected::param(0x8001);
  EXPECT_EQ(c.b.cm.accept(c.world.now, 1, request, 0, &p, Ece{}), 0);
  std::uint32_t reported = 0, withdrawn = 0;
  EXPECT_EQ(c.b.cm.migrate(2, 1, c.listener, reported, withdrawn), 0);
  EXPECT_TRUE(c.b.cm.is_consistent());
  EXPECT_EQ(c.b.cm.destroy_id(c.world.now, 1, request, reported, withdrawn), 0);
  EXPECT_FALSE(c.b.cm.get_event(1));
}

// rdma_cm reports the end of timewait only to a program that it told of the disconnection.
TEST(TimewaitTest, AfterARejectionNobodyHearsOfItsEnd) {
  Connected c;
  c.listen();
  c.resolve();
  c.request();
  c.accept();
  EXPECT_EQ(c.b.cm.reject(c.world.now, 1, c.server, 0, {}), 0);
  c.world.step();
  EXPECT_EQ(c.a.cm.get_event(1)->type, kRejected);
  while (c.world.step(c.world.now + sim::kSecond)) {
  }
  EXPECT_FALSE(c.a.cm.has_pending_events());
  EXPECT_FALSE(c.b.cm.has_pending_events());
}

}  // namespace
}  // namespace verbena::cm
