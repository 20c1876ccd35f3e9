// SPDX-License-Identifier: BSD-2-Clause
// The RDMA device interface over netlink (NETLINK_RDMA, client NLDEV), as libibverbs and the
// `rdma` tool speak it: requests in, replies out. Pure but for resources and counters, which the
// caller fetches when a request needs them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "verbena/control/device_info.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/preload/netlink_message.hpp"

namespace verbena::preload {

// A character device that belongs to no RDMA device: rdma_cm.
struct SharedCharacterDevice {
  std::string type;
  std::string name;
  std::uint64_t abi = 0;
  std::uint64_t device_number = 0;
};

// With the names of the files in hw_counters.
using NamedCounters = std::vector<std::pair<std::string, std::uint64_t>>;

struct Catalogue {
  std::vector<control::DeviceInfo> devices;
  std::vector<SharedCharacterDevice> shared;
  // Of one device; all parts of the answer in one.
  std::function<control::Resources(const std::string&, control::ResourcesOf)> resources;
  std::function<NamedCounters(const std::string&)> counters;
};

// Who answers, when the kernel knows RDMA devices of its own.
enum class Route : std::uint8_t {
  kOurs,    // names a device of ours, or rdma_cm
  kMerged,  // a list of all devices
  kKernel,  // anything else
};
Route route_of(const NetlinkMessage& request);

// The whole reply of a host without RDMA devices of its own. `port` is the requester's.
void answer_nldev(const NetlinkMessage& request, const Catalogue& catalogue, std::uint32_t port,
                  NetlinkReplies& replies);

// The reply to a kMerged dump: what the kernel said (without its last word), then ours.
void merge_dump(const NetlinkMessage& request, std::span<const std::uint8_t> kernel_reply,
                const Catalogue& catalogue, std::uint32_t port, NetlinkReplies& replies);

}  // namespace verbena::preload
