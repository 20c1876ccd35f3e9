// SPDX-License-Identifier: BSD-2-Clause
// A program's netlink request, and a kernel's answer to a list, of any bytes. Every reply consists
// of whole messages, in datagrams for which a reader has room, and ends the exchange.
#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>

#include "verbena/base/check.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/preload/nldev.hpp"

namespace {

using namespace verbena;
using namespace verbena::preload;

Catalogue catalogue() {
  Catalogue made;
  control::DeviceInfo device;
  device.name = "verbena0";
  device.uverbs_number = control::kFirstUverbsNumber;
  device.netlink_index = control::kFirstNetlinkIndex;
  device.gids.resize(1);
  made.devices.push_back(device);
  device.name = "roce0";
  device.netlink_index += 1;
  device.persona = control::Persona::kRoce;
  device.gids[0] = {Gid{}, control::GidType::kRoceV2, 1, "lo"};
  made.devices.push_back(device);
  made.shared.push_back({"rdma_cm", "rdma_cm", 4, 99});
  made.resources = [](const std::string&, control::ResourcesOf) {
    control::Resources resources;
    control::ContextResources& context = resources.contexts.emplace_back();
    context.qps.resize(100);
    context.cqs.resize(100);
    context.srqs.resize(100);
    resources.cm_ids.resize(100);
    return resources;
  };
  return made;
}

std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

void check_whole(const NetlinkReplies& replies) {
  for (const auto& datagram : replies.datagrams) {
    std::size_t sum = 0;
    for (const NetlinkMessage& message : parse_netlink(datagram)) {
      sum += aligned(message.bytes.size());
    }
    VERBENA_CHECK(sum == datagram.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Catalogue known = catalogue();
  for (const NetlinkMessage& request : parse_netlink({data, size})) {
    NetlinkReplies replies;
    answer_nldev(request, known, 1, replies);
    check_whole(replies);
    if ((request.flags & NLM_F_DUMP) != 0) {
      VERBENA_CHECK(parse_netlink(replies.datagrams.back()).back().type == NLMSG_DONE);
    }
    if (route_of(request) == Route::kMerged) {
      NetlinkReplies merged;
      merge_dump(request, {data, size}, known, 1, merged);
      check_whole(merged);
    }
  }
  return 0;
}
