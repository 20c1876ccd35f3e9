// SPDX-License-Identifier: BSD-2-Clause
// What `rdma resource` reads: how many objects a device has, and each list of objects.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "nldev_fixture.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::preload {
namespace {

using control::ResourcesOf;

constexpr std::uint16_t kDump = NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP;

// Two devices, of which the first has these resources. They must be asked for as `of`.
Catalogue with(ResourcesOf of, control::Resources resources) {
  Catalogue catalogue = two_devices();
  catalogue.resources = [=](const std::string& device, ResourcesOf asked) {
    EXPECT_EQ(device, "verbena0");
    EXPECT_EQ(asked, of);
    return resources;
  };
  return catalogue;
}

control::ContextResources context(std::uint32_t slot, std::uint32_t pid) {
  control::ContextResources made;
  made.device = "verbena0";
  made.slot = slot;
  made.pid = pid;
  return made;
}

control::QpStatus queue_pair(std::uint32_t qpn, std::uint8_t type, std::uint32_t srq = 0) {
  control::QpStatus made;
  made.qpn = qpn;
  made.type = type;
  made.srq = srq;
  return made;
}

std::uint64_t u64(const NetlinkMessage& message, std::uint16_t type) {
  std::uint64_t value = 0;
  std::memcpy(&value, message.attribute(type)->data(), sizeof value);
  return value;
}
int u8(const NetlinkMessage& message, std::uint16_t type) {
  return message.attribute(type)->front();
}

// Returns the entries of a table as if each were a message.
std::vector<NetlinkMessage> entries_of(std::span<const std::uint8_t> table) {
  std::vector<NetlinkMessage> entries;
  for (std::size_t at = 0; at + sizeof(nlattr) <= table.size();) {
    std::uint16_t length = 0;
    std::memcpy(&length, table.data() + at, sizeof length);
    EXPECT_GT(length, sizeof(nlattr));
    NetlinkMessage entry;
    entry.payload = table.subspan(at + sizeof(nlattr), length - sizeof(nlattr));
    entries.push_back(entry);
    at += (length + 3u) & ~3u;
  }
  return entries;
}

// A list made of all its messages. Each message is about the first device and is not empty.
struct Listed {
  Reply reply;
  std::vector<NetlinkMessage> entries;
  std::size_t size() const { return entries.size(); }
  const NetlinkMessage& operator[](std::size_t i) const { return entries.at(i); }
};

Listed list(std::uint16_t op, std::uint16_t table, const Catalogue& catalogue,
            std::optional<std::uint32_t> port = {}, int error = 0) {
  Listed listed{ask({op, kDump, kIndex, port, {}}, catalogue), {}};
  const auto& messages = listed.reply.messages;
  EXPECT_EQ(messages.back().type, NLMSG_DONE);
  EXPECT_EQ(listed.reply.error(messages.size() - 1), error);
  for (std::size_t i = 0; i + 1 < messages.size(); ++i) {
    EXPECT_EQ(messages[i].attribute_u32(RDMA_NLDEV_ATTR_DEV_INDEX), kIndex);
    EXPECT_EQ(messages[i].attribute_string(RDMA_NLDEV_ATTR_DEV_NAME), "verbena0");
    const auto these = entries_of(*messages[i].attribute(table));
    EXPECT_FALSE(these.empty());
    listed.entries.insert(listed.entries.end(), these.begin(), these.end());
  }
  for (const Bytes& datagram : listed.reply.replies.datagrams) {
    EXPECT_LE(datagram.size(), NetlinkReplies::kDatagramMax);
  }
  return listed;
}

Bytes v4(const char* address, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, address, &in.sin_addr), 1);
  const auto* first = reinterpret_cast<const std::uint8_t*>(&in);
  return {first, first + sizeof in};
}

control::CmIdResource cm_id(std::uint32_t number) {
  control::CmIdResource id;
  id.device = "verbena0";
  id.number = number;
  id.pid = 7;
  id.qpn = 0x4001;
  id.qp_type = 2;
  id.state = 5;
  id.port_space = 0x0106;
  id.source = v4("127.1.0.1", 4000);
  id.destination = v4("127.1.0.2", 7174);
  return id;
}

TEST(ResourceLists, TheSummaryAddsUpAllContexts) {
  control::Resources resources;
  for (const std::uint32_t slot : {1u, 2u}) {
    auto& made = resources.contexts.emplace_back(context(slot, 7));
    made.counts = {1, 2, 60, 4, 5, slot == 1 ? 1u : 0u};  // the second context is a further engine
  }
  resources.cm_id_count = 2000;
  const Reply reply = ask({RDMA_NLDEV_CMD_RES_GET, NLM_F_REQUEST, kIndex, {}, {}},
                          with(ResourcesOf::kCounts, resources));
  ASSERT_EQ(reply.messages.size(), 1u);
  std::vector<std::pair<std::string, std::uint64_t>> rows;
  for (const auto& row : entries_of(*reply.messages[0].attribute(RDMA_NLDEV_ATTR_RES_SUMMARY))) {
    rows.emplace_back(*row.attribute_string(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME),
                      u64(row, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR));
  }
  const decltype(rows) expected{{"pd", 2}, {"cq", 4},  {"qp", 120}, {"cm_id", 2000},
                                {"mr", 8}, {"ctx", 1}, {"srq", 10}};
  EXPECT_EQ(rows, expected);
}

TEST(ResourceLists, QueuePairs) {
  control::Resources resources;
  auto& made = resources.contexts.emplace_back(context(1, 7));
  made.qps = {queue_pair(0x4001, 2), queue_pair(0x4002, 4)};
  made.qps[0].state = 3;
  made.qps[0].peer_qpn = 77;
  made.qps[0].domain = 4;
  const auto listed = list(RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP,
                           with(ResourcesOf::kQueuePairs, resources));
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].attribute_u32(RDMA_NLDEV_ATTR_RES_LQPN), 0x4001u);
  EXPECT_EQ(listed[0].attribute_u32(RDMA_NLDEV_ATTR_RES_RQPN), 77u);
  EXPECT_EQ(listed[0].attribute_u32(RDMA_NLDEV_ATTR_RES_PDN), 4u);
  EXPECT_EQ(listed[0].attribute_u32(RDMA_NLDEV_ATTR_RES_PID), 7u);
  EXPECT_EQ(u8(listed[1], RDMA_NLDEV_ATTR_RES_TYPE), 4);
  EXPECT_EQ(u8(listed[0], RDMA_NLDEV_ATTR_RES_STATE), 3);
  EXPECT_FALSE(listed[1].attribute(RDMA_NLDEV_ATTR_RES_RQPN));
  EXPECT_FALSE(listed[1].attribute(RDMA_NLDEV_ATTR_RES_PDN));
}

TEST(ResourceLists, CompletionQueues) {
  control::Resources resources;
  for (const std::uint32_t slot : {3u, 4u}) {
    auto& cq = resources.contexts.emplace_back(context(slot, slot + 100)).cqs.emplace_back();
    cq.number = 1;
    cq.capacity = 63;
    cq.users = slot - 3;
  }
  const auto listed = list(RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ,
                           with(ResourcesOf::kCompletionQueues, resources));
  ASSERT_EQ(listed.size(), 2u);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(listed[i].attribute_u32(RDMA_NLDEV_ATTR_RES_CQN), 1u);
    EXPECT_EQ(listed[i].attribute_u32(RDMA_NLDEV_ATTR_RES_CQE), 63u);
    EXPECT_EQ(u64(listed[i], RDMA_NLDEV_ATTR_RES_USECNT), i);
    EXPECT_EQ(listed[i].attribute_u32(RDMA_NLDEV_ATTR_RES_CTXN), i + 3);
    EXPECT_EQ(listed[i].attribute_u32(RDMA_NLDEV_ATTR_RES_PID), i + 103);
    // Only queues of the kernel itself have this attribute.
    EXPECT_FALSE(listed[i].attribute(RDMA_NLDEV_ATTR_RES_POLL_CTX));
  }
}

TEST(ResourceLists, SharedReceiveQueuesAndWhoUsesThem) {
  control::Resources resources;
  // The SRQ's queue pairs come in parts, and before the SRQ.
  for (const std::uint32_t qpn : {0x4001u, 0x4003u, 0x4002u, 0x4009u}) {
    resources.contexts.emplace_back(context(1, 7)).qps = {queue_pair(qpn, 2, 1)};
  }
  // An SRQ with the same number in another context is a different one.
  resources.contexts.emplace_back(context(2, 7)).qps = {queue_pair(0x8001, 2, 1)};
  auto& made = resources.contexts.emplace_back(context(1, 7));
  made.srqs = {{.number = 1, .type = 0, .receive_outstanding = 9, .domain = 5, .cq = 0},
               {.number = 0x80200001, .type = 1, .receive_outstanding = 0, .domain = 5, .cq = 3}};
  const auto listed = list(RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ,
                           with(ResourcesOf::kSharedReceives, resources));
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].attribute_u32(RDMA_NLDEV_ATTR_RES_SRQN), 1u);
  EXPECT_EQ(listed[0].attribute_u32(RDMA_NLDEV_ATTR_RES_PDN), 5u);
  EXPECT_EQ(listed[0].attribute_u32(RDMA_NLDEV_ATTR_RES_PID), 7u);
  EXPECT_FALSE(listed[0].attribute(RDMA_NLDEV_ATTR_RES_CQN));
  const auto users = entries_of(*listed[0].attribute(RDMA_NLDEV_ATTR_RES_QP));
  ASSERT_EQ(users.size(), 2u);
  EXPECT_EQ(users[0].attribute_u32(RDMA_NLDEV_ATTR_MIN_RANGE), 0x4001u);
  EXPECT_EQ(users[0].attribute_u32(RDMA_NLDEV_ATTR_MAX_RANGE), 0x4003u);
  EXPECT_EQ(users[1].attribute_u32(RDMA_NLDEV_ATTR_RES_LQPN), 0x4009u);
  EXPECT_EQ(u8(listed[1], RDMA_NLDEV_ATTR_RES_TYPE), 1);
  EXPECT_EQ(listed[1].attribute_u32(RDMA_NLDEV_ATTR_RES_CQN), 3u);
  // `rdma` shows no SRQ that lacks the table.
  EXPECT_TRUE(listed[1].attribute(RDMA_NLDEV_ATTR_RES_QP)->empty());
}

TEST(ResourceLists, AnSrqWithManyScatteredUsersFitsADatagram) {
  control::Resources resources;
  auto& made = resources.contexts.emplace_back(context(1, 7));
  for (std::uint32_t i = 0; i < 1000; ++i) {
    made.qps.push_back(queue_pair(0x4000 + 3 * i, 2, 1));
    made.qps.push_back(queue_pair(0x4001 + 3 * i, 2, 1));
  }
  made.srqs.emplace_back().number = 1;
  const auto listed = list(RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ,
                           with(ResourcesOf::kSharedReceives, resources));
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(entries_of(*listed[0].attribute(RDMA_NLDEV_ATTR_RES_QP)).size(), 100u);
}

TEST(ResourceLists, RdmaCmIds) {
  control::Resources resources;
  resources.cm_ids.push_back(cm_id(0x8001));
  const auto listed = list(RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID,
                           with(ResourcesOf::kCmIds, resources));
  ASSERT_EQ(listed.size(), 1u);
  const NetlinkMessage& id = listed[0];
  EXPECT_EQ(id.attribute_u32(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
  EXPECT_EQ(id.attribute_u32(RDMA_NLDEV_ATTR_RES_LQPN), 0x4001u);
  EXPECT_EQ(u8(id, RDMA_NLDEV_ATTR_RES_TYPE), 2);
  EXPECT_EQ(u8(id, RDMA_NLDEV_ATTR_RES_STATE), 5);
  EXPECT_EQ(id.attribute_u32(RDMA_NLDEV_ATTR_RES_PS), 0x0106u);
  EXPECT_EQ(id.attribute_u32(RDMA_NLDEV_ATTR_RES_CM_IDN), 0x8001u);
  EXPECT_EQ(id.attribute_u32(RDMA_NLDEV_ATTR_RES_PID), 7u);
  for (const auto& [type, expected] :
       {std::pair{RDMA_NLDEV_ATTR_RES_SRC_ADDR, resources.cm_ids[0].source},
        std::pair{RDMA_NLDEV_ATTR_RES_DST_ADDR, resources.cm_ids[0].destination}}) {
    const auto address = id.attribute(static_cast<std::uint16_t>(type));
    ASSERT_EQ(address->size(), sizeof(sockaddr_storage));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), address->begin()));
  }
}

TEST(ResourceLists, WhatAnRdmaCmIdHasNotIsLeftOut) {
  control::Resources resources;
  resources.cm_ids.emplace_back().device = "verbena0";
  Bytes& source = resources.cm_ids[0].source;
  source.resize(48);  // a sockaddr_ib
  source[0] = AF_IB;
  const auto listed = list(RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID,
                           with(ResourcesOf::kCmIds, resources));
  ASSERT_EQ(listed.size(), 1u);
  for (const auto type :
       {RDMA_NLDEV_ATTR_RES_LQPN, RDMA_NLDEV_ATTR_RES_TYPE, RDMA_NLDEV_ATTR_RES_SRC_ADDR,
        RDMA_NLDEV_ATTR_RES_DST_ADDR, RDMA_NLDEV_ATTR_RES_PID}) {
    EXPECT_FALSE(listed[0].attribute(static_cast<std::uint16_t>(type))) << type;
  }
}

TEST(ResourceLists, AListenerOnAllDevicesIsAtNoPort) {
  control::Resources resources;
  resources.cm_ids = {cm_id(0x8001), cm_id(0x8002)};
  resources.cm_ids[0].device.clear();
  const Catalogue catalogue = with(ResourcesOf::kCmIds, resources);
  const auto of_device = list(RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, catalogue);
  ASSERT_EQ(of_device.size(), 2u);
  EXPECT_FALSE(of_device[0].attribute(RDMA_NLDEV_ATTR_PORT_INDEX));
  const auto of_port = list(RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, catalogue, 1);
  ASSERT_EQ(of_port.size(), 1u);
  EXPECT_EQ(of_port[0].attribute_u32(RDMA_NLDEV_ATTR_RES_CM_IDN), 0x8002u);
}

TEST(ResourceLists, ContextsWithoutTheirFurtherEngines) {
  control::Resources resources;
  resources.contexts = {context(1, 7), context(2, 7), context(3, 8)};
  resources.contexts[1].counts.contexts = 0;
  const auto listed = list(RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX,
                           with(ResourcesOf::kCounts, resources));
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].attribute_u32(RDMA_NLDEV_ATTR_RES_CTXN), 1u);
  EXPECT_EQ(listed[1].attribute_u32(RDMA_NLDEV_ATTR_RES_CTXN), 3u);
  EXPECT_EQ(listed[1].attribute_u32(RDMA_NLDEV_ATTR_RES_PID), 8u);
}

TEST(ResourceLists, OfRegionsAndDomainsOnlyTheNumberIsKnown) {
  const Catalogue catalogue = two_devices();
  for (const std::uint16_t op : {RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_CMD_RES_PD_GET}) {
    const Reply reply = ask({op, kDump, kIndex, {}, {}}, catalogue);
    ASSERT_EQ(reply.messages.size(), 1u);
    EXPECT_EQ(reply.error(0), 0);
  }
}

TEST(ResourceLists, ALongListFillsAsManyDatagramsAsTheReaderHasRoomFor) {
  control::Resources resources;
  auto& made = resources.contexts.emplace_back(context(1, 7));
  made.qps.resize(300);
  made.cqs.resize(2000);
  for (std::uint32_t i = 0; i < 2000; ++i) resources.cm_ids.push_back(cm_id(0x8000 + i));
  const auto count = [&](std::uint16_t op, std::uint16_t table, ResourcesOf of, int error = 0) {
    const auto listed = list(op, table, with(of, resources), {}, error);
    EXPECT_LE(listed.reply.replies.datagrams.size(), 81u);
    return listed.size();
  };
  EXPECT_EQ(count(RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, ResourcesOf::kQueuePairs),
            300u);
  EXPECT_EQ(
      count(RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, ResourcesOf::kCompletionQueues),
      2000u);
  // Each ID has two addresses of 128 bytes.
  EXPECT_EQ(
      count(RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, ResourcesOf::kCmIds, ENOBUFS),
      800u);
}

// The emulator reports no more than this, so there may be more.
TEST(ResourceLists, AListAsLongAsTheEmulatorTellsIsNotCalledWhole) {
  control::Resources resources;
  resources.contexts.emplace_back(context(1, 7)).cqs.resize(control::Resources::kMost);
  list(RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ,
       with(ResourcesOf::kCompletionQueues, resources), {}, ENOBUFS);
}

TEST(ResourceLists, AListIsOfOneDeviceAndItsPort) {
  const Catalogue catalogue = with(ResourcesOf::kQueuePairs, {});
  const auto error = [&](const Request& request) {
    const Reply reply = ask(request, catalogue);
    EXPECT_EQ(reply.messages.size(), 1u);
    EXPECT_EQ(reply.messages[0].type, NLMSG_DONE);
    return reply.error(0);
  };
  EXPECT_EQ(error({RDMA_NLDEV_CMD_RES_QP_GET, kDump, kIndex, 1, {}}), 0);
  EXPECT_EQ(error({RDMA_NLDEV_CMD_RES_QP_GET, kDump, {}, {}, {}}), EINVAL);
  EXPECT_EQ(error({RDMA_NLDEV_CMD_RES_QP_GET, kDump, kIndex + 9, {}, {}}), EINVAL);
  EXPECT_EQ(error({RDMA_NLDEV_CMD_RES_QP_GET, kDump, kIndex, 2, {}}), EINVAL);
  EXPECT_EQ(error({RDMA_NLDEV_CMD_RES_CTX_GET, kDump, {}, {}, {}}), EINVAL);
  EXPECT_EQ(error({RDMA_NLDEV_CMD_RES_MR_GET, kDump, {}, {}, {}}), EINVAL);
  EXPECT_EQ(error({RDMA_NLDEV_CMD_PORT_GET, kDump, {}, {}, {}}), EINVAL);
}

// For a filter by number, `rdma` goes through the list after this error.
TEST(ResourceLists, SingleObjectsAreNotAskedFor) {
  for (const std::uint16_t op : {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CM_ID_GET,
                                 RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_CMD_RES_SRQ_GET}) {
    EXPECT_EQ(ask({op, NLM_F_REQUEST, kIndex, {}, {}}).error(0), EOPNOTSUPP);
  }
}

}  // namespace
}  // namespace verbena::preload
