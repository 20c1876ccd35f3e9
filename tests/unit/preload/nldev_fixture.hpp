// SPDX-License-Identifier: BSD-2-Clause
// Two devices, a program's netlink questions about them, and the replies.
#pragma once

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "verbena/preload/nldev.hpp"

namespace verbena::preload {

using Bytes = std::vector<std::uint8_t>;
inline constexpr std::uint32_t kPort = 4711;
inline constexpr std::uint32_t kIndex = control::kFirstNetlinkIndex;

inline Catalogue two_devices() {
  Catalogue catalogue;
  control::DeviceInfo d;
  d.name = "verbena0";
  d.uverbs_number = 192;
  d.netlink_index = kIndex;
  d.node_guid = 0x0256520100000001;
  d.lid = 9;
  d.gids = {{Gid::link_local(0x0256520000000001), control::GidType::kInfiniBand, 0, ""}};
  catalogue.devices.push_back(d);
  d.name = "roce0";
  d.uverbs_number = 193;
  d.netlink_index = kIndex + 1;
  d.persona = control::Persona::kRoce;
  d.port_state = control::PortState::kDown;
  d.if_index = 3;
  d.if_name = "eth0";
  d.gids = {{Gid{}, control::GidType::kRoceV2, 3, "eth0"}};
  catalogue.devices.push_back(d);
  return catalogue;
}

struct Request {
  std::uint16_t op = 0;
  std::uint16_t flags = NLM_F_REQUEST;
  std::optional<std::uint32_t> index;
  std::optional<std::uint32_t> port;
  const char* chardev = nullptr;

  Bytes bytes() const {
    NetlinkWriter writer(static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op)), flags, 5,
                         0);
    if (index) writer.put_u32(RDMA_NLDEV_ATTR_DEV_INDEX, *index);
    if (port) writer.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, *port);
    if (chardev != nullptr) writer.put_string(RDMA_NLDEV_ATTR_CHARDEV_TYPE, chardev);
    return writer.take();
  }
};

// A reply, kept beside the messages that point into it.
struct Reply {
  NetlinkReplies replies;
  std::vector<NetlinkMessage> messages;

  int error(std::size_t i) const {
    std::int32_t code = 0;
    std::memcpy(&code, messages.at(i).payload.data(), sizeof code);
    return -code;
  }
};

inline Reply read(NetlinkReplies replies) {
  Reply reply{std::move(replies), {}};
  for (const Bytes& datagram : reply.replies.datagrams) {
    for (const NetlinkMessage& m : parse_netlink(datagram)) reply.messages.push_back(m);
  }
  for (const NetlinkMessage& m : reply.messages) {
    EXPECT_EQ(m.sequence, 5u);
    EXPECT_EQ(m.port, kPort);
  }
  return reply;
}

inline Reply ask(const Request& request, const Catalogue& catalogue = two_devices()) {
  const Bytes bytes = request.bytes();
  NetlinkReplies replies;
  answer_nldev(parse_netlink(bytes).at(0), catalogue, kPort, replies);
  return read(std::move(replies));
}

}  // namespace verbena::preload
