// SPDX-License-Identifier: BSD-2-Clause
// Answers requests of the RDMA device interface over netlink (NETLINK_RDMA, client NLDEV), as
// libibverbs and the `rdma` tool send them. Pure, except that it calls the caller's functions for
// resources and counters when a request needs them.
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

// The names are those of the files in hw_counters.
using NamedCounters = std::vector<std::pair<std::string, std::uint64_t>>;

struct Catalogue {
  std::vector<control::DeviceInfo> devices;
  std::vector<SharedCharacterDevice> shared;
  // Returns the resources of one device, with all parts of the emulator's answer put together.
  std::function<control::Resources(const std::string&, control::ResourcesOf)> resources;
  std::function<NamedCounters(const std::string&)> counters;
};

// Says who answers when the kernel has RDMA devices of its own.
enum class Route : std::uint8_t {
  kOurs,    // names a device of ours, or rdma_cm
  kMerged,  // a list of all devices
  kKernel,  // anything else
};
Route route_of(const NetlinkMessage& request);

// Makes the whole reply, on a host without RDMA devices of its own. `port` is the requester's.
void answer_nldev(const NetlinkMessage& request, const Catalogue& catalogue, std::uint32_t port,
                  NetlinkReplies& replies);

// Makes the reply to a kMerged dump: the kernel's messages (without its last one), then ours.
void merge_dump(const NetlinkMessage& request, std::span<const std::uint8_t> kernel_reply,
                const Catalogue& catalogue, std::uint32_t port, NetlinkReplies& replies);

}  // namespace verbena::preload
