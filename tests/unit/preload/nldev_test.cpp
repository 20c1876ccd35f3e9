// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/nldev.hpp"

#include <sys/sysmacros.h>

#include <cerrno>

#include "nldev_fixture.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::preload {
namespace {

TEST(Nldev, DumpListsEachDeviceAndEnds) {
  const Reply reply = ask({RDMA_NLDEV_CMD_GET, NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP, {}, {}, {}});
  ASSERT_EQ(reply.messages.size(), 3u);
  const NetlinkMessage& first = reply.messages[0];
  EXPECT_EQ(first.flags, NLM_F_MULTI);
  EXPECT_EQ(first.attribute_u32(RDMA_NLDEV_ATTR_DEV_INDEX), kIndex);
  EXPECT_EQ(first.attribute_string(RDMA_NLDEV_ATTR_DEV_NAME), "verbena0");
  EXPECT_EQ(first.attribute_u32(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
  EXPECT_EQ(first.attribute(RDMA_NLDEV_ATTR_NODE_GUID)->size(), 8u);
  EXPECT_EQ(first.attribute(RDMA_NLDEV_ATTR_DEV_NODE_TYPE)->size(), 1u);
  EXPECT_EQ(first.attribute_string(RDMA_NLDEV_ATTR_DEV_PROTOCOL), "ib");
  // None of the kernel's drivers may claim the device.
  EXPECT_FALSE(first.attribute(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID));
  EXPECT_EQ(reply.messages[1].attribute_string(RDMA_NLDEV_ATTR_DEV_PROTOCOL), "roce");
  EXPECT_EQ(reply.messages[2].type, NLMSG_DONE);
}

TEST(Nldev, NoDevicesIsAnEmptyList) {
  const Reply reply = ask({RDMA_NLDEV_CMD_GET, NLM_F_REQUEST | NLM_F_DUMP, {}, {}, {}}, {});
  ASSERT_EQ(reply.messages.size(), 1u);
  EXPECT_EQ(reply.messages[0].type, NLMSG_DONE);
}

TEST(Nldev, OneDeviceThenItsAcknowledgement) {
  const Reply reply = ask({RDMA_NLDEV_CMD_GET, NLM_F_REQUEST | NLM_F_ACK, kIndex + 1, {}, {}});
  ASSERT_EQ(reply.messages.size(), 2u);
  EXPECT_EQ(reply.replies.datagrams.size(), 2u);
  EXPECT_EQ(reply.messages[0].flags, 0);
  EXPECT_EQ(reply.messages[0].attribute_string(RDMA_NLDEV_ATTR_DEV_NAME), "roce0");
  EXPECT_EQ(reply.messages[1].type, NLMSG_ERROR);
  EXPECT_EQ(reply.error(1), 0);
}

TEST(Nldev, CharacterDevice) {
  const Reply reply = ask({RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST, kIndex, {}, "uverbs"});
  ASSERT_EQ(reply.messages.size(), 1u);
  const NetlinkMessage& m = reply.messages[0];
  EXPECT_EQ(m.attribute_string(RDMA_NLDEV_ATTR_CHARDEV_NAME), "uverbs192");
  std::uint64_t number = 0;
  std::memcpy(&number, m.attribute(RDMA_NLDEV_ATTR_CHARDEV)->data(), sizeof number);
  EXPECT_EQ(::major(number), 231u);
  EXPECT_EQ(::minor(number), 384u);
}

TEST(Nldev, SharedCharacterDevice) {
  Catalogue catalogue = two_devices();
  const Request request{RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST, {}, {}, "rdma_cm"};
  EXPECT_EQ(ask(request, catalogue).error(0), ENODEV);
  catalogue.shared.push_back({"rdma_cm", "rdma_cm", 4, 99});
  EXPECT_EQ(ask(request, catalogue).messages[0].attribute_string(RDMA_NLDEV_ATTR_CHARDEV_NAME),
            "rdma_cm");
}

TEST(Nldev, PortOfEachPersona) {
  const Reply ib = ask({RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST, kIndex, 1, {}});
  EXPECT_EQ(ib.messages[0].attribute_u32(RDMA_NLDEV_ATTR_LID), 9u);
  EXPECT_EQ(ib.messages[0].attribute(RDMA_NLDEV_ATTR_PORT_STATE)->front(), 4);
  EXPECT_EQ(ib.messages[0].attribute(RDMA_NLDEV_ATTR_PORT_PHYS_STATE)->front(), 5);
  const Reply roce = ask({RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST, kIndex + 1, 1, {}});
  EXPECT_FALSE(roce.messages[0].attribute(RDMA_NLDEV_ATTR_LID));
  EXPECT_EQ(roce.messages[0].attribute_string(RDMA_NLDEV_ATTR_NDEV_NAME), "eth0");
  EXPECT_EQ(roce.messages[0].attribute(RDMA_NLDEV_ATTR_PORT_STATE)->front(), 1);
  EXPECT_EQ(ask({RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST, kIndex, 2, {}}).error(0), EINVAL);
}

TEST(Nldev, WhatIsNotThere) {
  EXPECT_EQ(ask({RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, kIndex + 2, {}, {}}).error(0), EINVAL);
  EXPECT_EQ(ask({RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, {}, {}, {}}).error(0), EINVAL);
  EXPECT_EQ(ask({RDMA_NLDEV_CMD_SET, NLM_F_REQUEST, kIndex, {}, {}}).error(0), EPERM);
  EXPECT_EQ(ask({1000, NLM_F_REQUEST, kIndex, {}, {}}).error(0), EOPNOTSUPP);
  const Reply dump = ask({1000, NLM_F_REQUEST | NLM_F_DUMP, {}, {}, {}});
  ASSERT_EQ(dump.messages.size(), 1u);
  EXPECT_EQ(dump.messages[0].type, NLMSG_DONE);
}

TEST(Nldev, Routes) {
  const auto route = [](const Request& request) {
    const Bytes bytes = request.bytes();
    return route_of(parse_netlink(bytes).at(0));
  };
  constexpr std::uint16_t kDump = NLM_F_REQUEST | NLM_F_DUMP;
  EXPECT_EQ(route({RDMA_NLDEV_CMD_GET, kDump, {}, {}, {}}), Route::kMerged);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_RES_GET, kDump, {}, {}, {}}), Route::kMerged);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, 0, {}, {}}), Route::kKernel);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_RES_GET, NLM_F_REQUEST, kIndex, {}, {}}), Route::kOurs);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_RES_GET, NLM_F_REQUEST, 0, {}, {}}), Route::kKernel);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_RES_QP_GET, kDump, 3, {}, {}}), Route::kKernel);
  // Without a device this is an error, and it does not matter which side reports it.
  EXPECT_EQ(route({RDMA_NLDEV_CMD_RES_CQ_GET, kDump, {}, {}, {}}), Route::kKernel);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_RES_QP_GET, kDump, kIndex, {}, {}}), Route::kOurs);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_SYS_GET, NLM_F_REQUEST, {}, {}, {}}), Route::kKernel);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST, {}, {}, "rdma_cm"}), Route::kOurs);
  EXPECT_EQ(route({RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST, 0, {}, "uverbs"}), Route::kKernel);
}

TEST(Nldev, MergedListHasTheKernelsDevicesFirst) {
  // What the kernel answered to another socket.
  Bytes kernel;
  NetlinkWriter device(0x1401, NLM_F_MULTI, 5, 1);
  device.put_u32(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
  device.put_string(RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0");
  device.put_u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 1);
  kernel = device.take();
  NetlinkWriter done(NLMSG_DONE, NLM_F_MULTI, 5, 1);
  const Bytes end = done.take();
  kernel.insert(kernel.end(), end.begin(), end.end());

  const Bytes request = Request{RDMA_NLDEV_CMD_GET, NLM_F_REQUEST | NLM_F_DUMP, {}, {}, {}}.bytes();
  NetlinkReplies replies;
  merge_dump(parse_netlink(request).at(0), kernel, two_devices(), kPort, replies);
  const Reply reply = read(std::move(replies));
  ASSERT_EQ(reply.messages.size(), 4u);
  EXPECT_EQ(reply.messages[0].attribute_string(RDMA_NLDEV_ATTR_DEV_NAME), "mlx5_0");
  EXPECT_EQ(reply.messages[0].attribute_u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID), 1u);
  EXPECT_EQ(reply.messages[1].attribute_string(RDMA_NLDEV_ATTR_DEV_NAME), "verbena0");
  EXPECT_EQ(reply.messages[3].type, NLMSG_DONE);
}

}  // namespace
}  // namespace verbena::preload
