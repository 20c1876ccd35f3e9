// SPDX-License-Identifier: BSD-2-Clause
// Makes the messages of an NLDEV reply with their common beginning, and sends them. Pure.
#pragma once

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cstdint>
#include <utility>

#include "verbena/control/device_info.hpp"
#include "verbena/preload/netlink_message.hpp"

namespace verbena::preload {

class NldevReply {
 public:
  // `port` is the requester's.
  NldevReply(const NetlinkMessage& request, std::uint32_t port, NetlinkReplies& replies)
      : request_(request), port_(port), replies_(replies) {}

  const NetlinkMessage& request() const { return request_; }
  unsigned op() const { return RDMA_NL_GET_OP(request_.type); }
  bool is_dump() const { return (request_.flags & NLM_F_DUMP) != 0; }

  NetlinkWriter message() const {
    const std::uint16_t flags = is_dump() ? NLM_F_MULTI : 0;
    return {static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op())), flags,
            request_.sequence, port_};
  }
  NetlinkWriter message_of(const control::DeviceInfo& device) const {
    NetlinkWriter writer = message();
    writer.put_u32(RDMA_NLDEV_ATTR_DEV_INDEX, device.netlink_index);
    writer.put_string(RDMA_NLDEV_ATTR_DEV_NAME, device.name);
    return writer;
  }
  void send(NetlinkWriter& writer) {
    if (is_dump()) {
      replies_.pack(writer.take());
    } else {
      replies_.add(writer.take());
    }
  }
  std::size_t datagrams() const { return replies_.datagrams.size(); }

 private:
  const NetlinkMessage& request_;
  std::uint32_t port_;
  NetlinkReplies& replies_;
};

}  // namespace verbena::preload
