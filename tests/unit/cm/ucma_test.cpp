// SPDX-License-Identifier: BSD-2-Clause
// The user ABI: every command in the length of every rdma-core, old and new; answers cut to the
// room that the caller gives; and at worst an errno for anything else that is written.
#include "verbena/cm/ucma.hpp"

#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <cstring>

#include "../../sim/cm/cm_programs.hpp"

namespace verbena::cm {
namespace {

using sim::Host;
using sim::inet;
using sim::World;

class UcmaTest : public testing::Test {
 protected:
  UcmaTest() : host(world.add_host()) {
    host.cm.open_channel(1);
    host.cm.open_channel(2);
  }

  // Writes `cmd`, cut or padded to `length` bytes behind the header.
  template <typename T>
  UcmaReply write(std::uint32_t command, const T& cmd, std::size_t room = 0,
                  std::size_t length = sizeof(T), std::span<const std::uint8_t> attached = {}) {
    std::vector<std::uint8_t> bytes(8 + length);
    const rdma_ucm_cmd_hdr header{command, static_cast<__u16>(length), static_cast<__u16>(room)};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + 8, &cmd, std::min(length, sizeof cmd));
    return host.ucma.execute(world.now, channel, bytes, attached, other);
  }
  template <typename T>
  T answer(const UcmaReply& reply) {
    EXPECT_EQ(reply.error, 0);
    T value{};
    std::memcpy(&value, reply.response.data(), std::min(reply.response.size(), sizeof value));
    return value;
  }
  std::uint32_t create(__u16 space = RDMA_PS_TCP) {
    rdma_ucm_create_id cmd{};
    cmd.uid = 0x1111;
    cmd.response = 0xabcd;
    cmd.ps = space;
    const UcmaReply reply = write(RDMA_USER_CM_CMD_CREATE_ID, cmd, 4);
    EXPECT_EQ(reply.response_address, 0xabcdu);
    return answer<rdma_ucm_create_id_resp>(reply).id;
  }
  template <typename Storage>
  static std::uint16_t put(Storage& out, const char* ip, std::uint16_t port) {
    std::uint8_t bytes[48];
    const std::size_t size = sim::inet(*IpAddress::parse(ip), port).write_to(bytes);
    std::memcpy(&out, bytes, size);
    return static_cast<std::uint16_t>(size);
  }
  rdma_ucm_event_resp event(std::size_t room = sizeof(rdma_ucm_event_resp)) {
    const UcmaReply reply = write(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{1}, room);
    EXPECT_EQ(reply.response.size(), std::min(room, sizeof(rdma_ucm_event_resp)));
    return answer<rdma_ucm_event_resp>(reply);
  }
  std::uint32_t resolved() {
    const std::uint32_t id = create();
    rdma_ucm_resolve_addr addr{};
    addr.id = id;
    addr.dst_size = put(addr.dst_addr, "127.0.0.1", 7174);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_RESOLVE_ADDR, addr).error, 0);
    EXPECT_EQ(event().event, 0u);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 1000}).error, 0);
    EXPECT_EQ(event().event, 2u);
    return id;
  }
  // Binds by the old command and listens.
  std::uint32_t listen() {
    const std::uint32_t id = create();
    rdma_ucm_bind_ip bind{};
    bind.id = id;
    put(bind.addr, "0.0.0.0", 7174);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_BIND_IP, bind).error, 0);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 5}).error, 0);
    return id;
  }

  World world{1};
  Host& host;
  ChannelId channel = 1;
  ChannelId other = 0;
};

TEST_F(UcmaTest, BothAddressCommandsOfBothSets) {
  const std::uint32_t id = create();
  rdma_ucm_bind bind{};
  bind.id = id;
  bind.addr_size = put(bind.addr, "127.0.0.1", 4000);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_BIND, bind).error, 0);
  rdma_ucm_resolve_ip resolve{};
  resolve.id = create();
  put(resolve.dst_addr, "127.0.0.1", 7);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_RESOLVE_IP, resolve).error, 0);
  EXPECT_EQ(event().id, resolve.id);
  bind.reserved = 1;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_BIND, bind).error, EINVAL);
  bind.reserved = 0;
  bind.addr_size = 15;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_BIND, bind).error, EINVAL);
}

TEST_F(UcmaTest, TheOldShortConnectAndAcceptAreTaken) {
  listen();
  for (const bool old : {true, false}) {
    const std::uint32_t id = resolved();
    rdma_ucm_connect connect{};
    connect.id = id;
    connect.conn_param.valid = 1;
    connect.conn_param.qp_num = old ? 0x4001 : 0x4002;
    connect.ece.vendor_id = 0x15b3;
    const std::size_t length = old ? 288 - 8 : 296 - 8;
    ASSERT_EQ(sizeof connect, 288u);
    ASSERT_EQ(write(RDMA_USER_CM_CMD_CONNECT, connect, 0, length).error, 0);
    world.step();
    const rdma_ucm_event_resp request = event(old ? 328 : 336);
    EXPECT_EQ(request.event, 4u);
    EXPECT_EQ(request.ece.vendor_id, old ? 0u : 0x15b3u);
    rdma_ucm_accept accept{};
    ASSERT_EQ(sizeof accept, 296u);
    accept.uid = 0x2222;
    accept.id = request.id;
    accept.conn_param.valid = 1;
    accept.conn_param.qp_num = 0x8001;
    ASSERT_EQ(write(RDMA_USER_CM_CMD_ACCEPT, accept, 0, old ? 296 - 8 : 304 - 8).error, 0);
    world.step();
    EXPECT_EQ(event().event, 5u);
    rdma_ucm_accept confirm{};
    confirm.id = id;
    ASSERT_EQ(write(RDMA_USER_CM_CMD_ACCEPT, confirm).error, 0);
    world.step();
    const rdma_ucm_event_resp established = event();
    EXPECT_EQ(established.event, 9u);
    EXPECT_EQ(established.uid, 0x2222u);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id}).error, 0);
    world.step();
    EXPECT_EQ(event().event, 10u);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{request.id}).error, 0);
    world.step();
    EXPECT_EQ(event().event, 10u);
    rdma_ucm_destroy_id destroy{};
    destroy.id = id;
    EXPECT_EQ(answer<rdma_ucm_destroy_id_resp>(write(RDMA_USER_CM_CMD_DESTROY_ID, destroy, 4))
                  .events_reported,
              4u);
  }
}

TEST_F(UcmaTest, QueriesFillTheOldAndTheNewLayout) {
  const std::uint32_t id = resolved();
  rdma_ucm_query query{};
  query.id = id;
  query.response = 0x99;
  for (const std::size_t room : {200u, 208u}) {
    const UcmaReply reply = write(RDMA_USER_CM_CMD_QUERY_ROUTE, query, room, 16);
    EXPECT_EQ(reply.response.size(), room);
    const auto route = answer<rdma_ucm_query_route_resp>(reply);
    EXPECT_EQ(route.node_guid, __builtin_bswap64(host.ports.default_port()->node_guid));
    EXPECT_EQ(route.num_paths, 1u);
    EXPECT_EQ(route.port_num, 1);
    EXPECT_EQ(route.ibdev_index, room == 208 ? 0x40000000u : 0u);
    EXPECT_EQ(route.ib_route[0].mtu, 5u);
  }
  EXPECT_EQ(write(RDMA_USER_CM_CMD_QUERY_ROUTE, query, 199, 16).error, ENOSPC);
  for (const std::size_t room : {272u, 280u}) {
    query.option = RDMA_USER_CM_QUERY_ADDR;
    auto addr = answer<rdma_ucm_query_addr_resp>(write(RDMA_USER_CM_CMD_QUERY, query, room));
    EXPECT_EQ(addr.src_size, 16);
    EXPECT_EQ(addr.dst_size, 16);
    query.option = RDMA_USER_CM_QUERY_GID;
    addr = answer<rdma_ucm_query_addr_resp>(write(RDMA_USER_CM_CMD_QUERY, query, room));
    EXPECT_EQ(addr.src_addr.ss_family, 27);
    std::uint8_t gid[16];
    std::memcpy(gid, reinterpret_cast<const std::uint8_t*>(&addr.dst_addr) + 8, 16);
    EXPECT_EQ(std::memcmp(gid, host.ports.default_port()->gid.bytes.data(), 16), 0);
  }
  query.option = RDMA_USER_CM_QUERY_PATH;
  const UcmaReply path = write(RDMA_USER_CM_CMD_QUERY, query, 8 + 6 * 72);
  ASSERT_EQ(path.response.size(), 80u);
  EXPECT_EQ(path.response[0], 1);
  EXPECT_EQ(path.response[16 + 54], 0x80 | 5) << "exactly an MTU of 4096";
  query.option = 9;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_QUERY, query, 500).error, ENOSYS);
}

TEST_F(UcmaTest, ARejectionCarriesItsReasonAndItsData) {
  listen();
  for (const bool old : {true, false}) {  // old versions had no reason, and its byte was reserved
    const std::uint32_t id = resolved();
    rdma_ucm_connect connect{};
    connect.id = id;
    connect.conn_param.valid = 1;
    connect.conn_param.qp_num = old ? 0x4001 : 0x4002;
    ASSERT_EQ(write(RDMA_USER_CM_CMD_CONNECT, connect).error, 0);
    world.step();
    rdma_ucm_reject reject{};
    reject.id = event().id;
    reject.private_data_len = 2;
    reject.private_data[0] = 'n';
    reject.private_data[1] = 'o';
    reject.reason = 7;
    EXPECT_EQ(write(RDMA_USER_CM_CMD_REJECT, reject).error, EINVAL) << "no reason of a program's";
    reject.reason = old ? 0 : 35;
    reject.private_data_len = 149;
    EXPECT_EQ(write(RDMA_USER_CM_CMD_REJECT, reject).error, EINVAL) << "more than a REJ holds";
    reject.private_data_len = 2;
    ASSERT_EQ(write(RDMA_USER_CM_CMD_REJECT, reject).error, 0);
    world.step();
    const rdma_ucm_event_resp rejected = event();
    EXPECT_EQ(rejected.event, 8u);
    EXPECT_EQ(rejected.status, old ? 28u : 35u);
    EXPECT_EQ(rejected.param.conn.private_data_len, 148);
    EXPECT_EQ(rejected.param.conn.private_data[1], 'o');
  }
}

TEST_F(UcmaTest, QueuePairAttributesAndTheNotice) {
  listen();
  rdma_ucm_connect connect{};
  connect.id = resolved();
  connect.conn_param.valid = 1;
  connect.conn_param.qp_num = 0x4001;
  connect.conn_param.retry_count = 6;
  ASSERT_EQ(write(RDMA_USER_CM_CMD_CONNECT, connect).error, 0);
  world.step();
  rdma_ucm_accept accept{};
  accept.uid = 0x2222;
  accept.id = event().id;
  accept.conn_param.valid = 1;
  accept.conn_param.qp_num = 0x8001;
  ASSERT_EQ(write(RDMA_USER_CM_CMD_ACCEPT, accept).error, 0);
  rdma_ucm_init_qp_attr init{};
  init.id = accept.id;
  init.response = 0x77;
  init.qp_state = 3;
  const UcmaReply reply = write(RDMA_USER_CM_CMD_INIT_QP_ATTR, init, sizeof(ib_uverbs_qp_attr));
  EXPECT_EQ(reply.response_address, 0x77u);
  const auto attr = answer<ib_uverbs_qp_attr>(reply);
  EXPECT_EQ(attr.qp_state, 3u);
  EXPECT_EQ(attr.retry_cnt, 6u);
  EXPECT_NE(attr.qp_attr_mask, 0u);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_INIT_QP_ATTR, init, sizeof(ib_uverbs_qp_attr) - 1).error,
            ENOSPC);
  init.qp_state = 99;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_INIT_QP_ATTR, init, sizeof(ib_uverbs_qp_attr)).error, EINVAL);
  constexpr std::uint32_t kCommEstablished = 4;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{accept.id, kCommEstablished}).error, 0);
  const rdma_ucm_event_resp established = event();
  EXPECT_EQ(established.event, 9u);
  EXPECT_EQ(established.uid, 0x2222u);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{accept.id, kCommEstablished}).error,
            EISCONN);
}

TEST_F(UcmaTest, OptionsComeWithTheirValue) {
  rdma_ucm_set_option option{};
  option.id = create();
  option.optname = RDMA_OPTION_ID_REUSEADDR;
  option.optlen = 4;
  const std::uint8_t one[4] = {1, 0, 0, 0};
  EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option, 0, sizeof option, one).error, 0);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option).error, EFAULT);
}

TEST_F(UcmaTest, MigrationNamesTheOldChannel) {
  rdma_ucm_migrate_id migrate{};
  migrate.id = create();
  channel = 2;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, 4).error, EINVAL);
  other = 1;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, 4).error, 0);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, 4).error, EINVAL);
}

TEST_F(UcmaTest, BothJoinsAndTheLeave) {
  const std::uint32_t id = create(RDMA_PS_UDP);
  rdma_ucm_bind bind{};
  bind.id = id;
  bind.addr_size = put(bind.addr, "127.0.0.1", 0);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_BIND, bind).error, 0);
  rdma_ucm_join_ip_mcast old{};
  old.id = id;
  old.uid = 7;
  put(old.addr, "239.1.1.1", 0);
  const auto first =
      answer<rdma_ucm_create_id_resp>(write(RDMA_USER_CM_CMD_JOIN_IP_MCAST, old, 4)).id;
  rdma_ucm_join_mcast join{};
  join.id = id;
  join.uid = 8;
  join.addr_size = put(join.addr, "239.1.1.2", 0);
  join.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  const auto second =
      answer<rdma_ucm_create_id_resp>(write(RDMA_USER_CM_CMD_JOIN_MCAST, join, 4)).id;
  EXPECT_NE(first, second);
  const rdma_ucm_event_resp joined = event();
  EXPECT_EQ(joined.event, 12u);
  EXPECT_EQ(joined.uid, 7u);
  EXPECT_EQ(joined.param.ud.ah_attr.is_global, 1);
  rdma_ucm_destroy_id leave{};
  leave.id = second;
  const UcmaReply left = write(RDMA_USER_CM_CMD_LEAVE_MCAST, leave, 4);
  EXPECT_EQ(answer<rdma_ucm_destroy_id_resp>(left).events_reported, 0u);
  EXPECT_EQ(left.withdrawn, 1u);
}

TEST_F(UcmaTest, NoEventIsTryAgain) {
  EXPECT_EQ(write(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{1}, 336).error, EAGAIN);
}

TEST_F(UcmaTest, EveryCommandInEveryLengthIsAnErrnoAtWorst) {
  Random random(5);
  const std::uint32_t id = create();
  for (std::uint32_t command = 0; command < 40; ++command) {
    for (std::size_t length = 0; length <= 340; length += length < 64 ? 1 : 7) {
      std::vector<std::uint8_t> body(340);
      for (std::uint8_t& b : body) b = static_cast<std::uint8_t>(random.next());
      // Most commands have the ID at one of these two offsets.
      const std::size_t at = random.below(2) * 8;
      std::memcpy(body.data() + at, &id, 4);
      std::array<std::uint8_t, 340> fixed;
      std::copy(body.begin(), body.end(), fixed.begin());
      for (const std::size_t room : {0u, 3u, 4u, 400u}) {
        const UcmaReply reply = write(command, fixed, room, length);
        EXPECT_GE(reply.error, 0);
        EXPECT_LE(reply.response.size(), room);
      }
      EXPECT_TRUE(command <= 24 || write(command, fixed, 4, length).error == EINVAL);
    }
  }
  EXPECT_TRUE(host.cm.is_consistent());
}

TEST_F(UcmaTest, AHeaderThatPromisesMoreThanItBringsIsRefused) {
  const std::uint8_t bytes[] = {0, 0, 0, 0, 24, 0, 4, 0, 1, 2, 3};
  for (std::size_t n = 0; n <= sizeof bytes; ++n) {
    EXPECT_EQ(host.ucma.execute(world.now, 1, std::span(bytes).first(n)).error, EINVAL) << n;
  }
}

TEST_F(UcmaTest, WhatNobodyImplements) {
  std::array<std::uint8_t, 336> body{};
  EXPECT_EQ(write(RDMA_USER_CM_CMD_GET_OPTION, body).error, ENOSYS);
}

struct WriteEvent {
  std::uint32_t id, reserved, event, status;
  std::uint64_t argument;
  std::uint8_t rest[304];
};

TEST_F(UcmaTest, AProgramWritesEventsToItself) {
  constexpr std::uint32_t kUser = 18;
  constexpr std::uint32_t kInternal = 19;
  const std::uint32_t id = create();
  for (const std::uint32_t type : {kUser, kInternal}) {
    EXPECT_EQ(write(24, WriteEvent{id, 0, type, 7, 0x0102030405060708, {}}).error, 0);
    const UcmaReply reply = write(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{1}, 336);
    ASSERT_EQ(reply.error, 0);
    const auto event = answer<rdma_ucm_event_resp>(reply);
    EXPECT_EQ(event.id, id);
    EXPECT_EQ(event.event, type);
    EXPECT_EQ(event.status, 7u);
    std::uint64_t argument = 0;
    std::memcpy(&argument, &event.param, sizeof argument);
    EXPECT_EQ(argument, 0x0102030405060708u);
  }
  EXPECT_EQ(write(24, WriteEvent{id, 0, 9, 0, 0, {}}).error, EINVAL) << "ESTABLISHED";
  EXPECT_EQ(write(24, WriteEvent{id + 1, 0, kUser, 0, 0, {}}).error, ENOENT);
}

struct ResolveService {
  std::uint32_t id, reserved;
  std::uint64_t service_id;
  std::uint8_t name[64];
  std::uint32_t flags, reserved2;
};

TEST_F(UcmaTest, AServiceIsLookedForInVain) {
  const std::uint32_t id = create();
  EXPECT_EQ(write(23, ResolveService{id, 0, 5, {}, 1, 0}).error, EINVAL) << "no address yet";
  ASSERT_EQ(host.cm.resolve_addr(1, id, SocketAddress{}, inet(*IpAddress::parse("10.0.0.1"), 1)),
            0);
  EXPECT_EQ(host.cm.get_event(1)->type, RdmaEventType::kAddrResolved);
  EXPECT_EQ(write(23, ResolveService{id, 0, 5, {}, 4, 0}).error, EINVAL) << "by what?";
  EXPECT_EQ(write(23, ResolveService{id, 0, 5, {}, 1, 0}).error, 0);
  const auto event = host.cm.get_event(1);
  EXPECT_EQ(event->type, RdmaEventType::kServiceError);
  EXPECT_EQ(event->status, -ENODATA);
  EXPECT_EQ(host.cm.resolve_route(1, id), 0) << "as before";
}

}  // namespace
}  // namespace verbena::cm
