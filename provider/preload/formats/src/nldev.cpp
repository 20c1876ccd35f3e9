// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/nldev.hpp"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/sysmacros.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "nldev_reply.hpp"
#include "resource_lists.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::preload {
namespace {

using control::DeviceInfo;
using control::Persona;

// Our devices' indexes begin here. The kernel's are small.
constexpr std::uint32_t kFirstOwnIndex = control::kFirstNetlinkIndex;
constexpr std::uint8_t kPhysicalDisabled = 3;
constexpr std::uint8_t kPhysicalLinkUp = 5;

bool is_nldev(const NetlinkMessage& message) {
  return RDMA_NL_GET_CLIENT(message.type) == RDMA_NL_NLDEV;
}
bool is_dump(const NetlinkMessage& message) { return (message.flags & NLM_F_DUMP) != 0; }

// Returns whether the dump is of one device and needs its index, unlike a dump of all devices.
bool is_dump_of_device(unsigned op) { return op == RDMA_NLDEV_CMD_PORT_GET || lists_resources(op); }

class Answer {
 public:
  Answer(const NetlinkMessage& request, const Catalogue& catalogue, std::uint32_t port,
         NetlinkReplies& replies)
      : request_(request), catalogue_(catalogue), reply_(request, port, replies) {}

  // Makes our part of a dump. Returns 0 or an errno.
  int dump() {
    if (is_dump_of_device(reply_.op())) {
      const auto port = request_.attribute_u32(RDMA_NLDEV_ATTR_PORT_INDEX);
      if (port && *port != control::kPortNumber) return EINVAL;
      return with_device(
          [this](const DeviceInfo& d) { return put_resource_list(reply_, d, catalogue_); });
    }
    const auto index = request_.attribute_u32(RDMA_NLDEV_ATTR_DEV_INDEX);
    for (const DeviceInfo& device : catalogue_.devices) {
      if (!index || *index == device.netlink_index) dump_device(device);
    }
    return 0;
  }

  // Answers a request for one thing. Returns 0 or an errno.
  int get() {
    switch (reply_.op()) {
      case RDMA_NLDEV_CMD_SYS_GET:
        return get_system();
      case RDMA_NLDEV_CMD_GET_CHARDEV:
        return get_character_device();
      case RDMA_NLDEV_CMD_GET:
        return with_device([this](const DeviceInfo& d) { return put_device(d), 0; });
      case RDMA_NLDEV_CMD_RES_GET:
        return with_device([this](const DeviceInfo& d) { return put_summary(d), 0; });
      case RDMA_NLDEV_CMD_PORT_GET:
        return with_port([this](const DeviceInfo& d) { put_port(d); });
      case RDMA_NLDEV_CMD_STAT_GET:
        // There are no counters of single queue pairs, which are bound and read by number.
        if (request_.attribute_u32(RDMA_NLDEV_ATTR_STAT_RES)) return EOPNOTSUPP;
        return with_port([this](const DeviceInfo& d) { put_counters(d); });
      case RDMA_NLDEV_CMD_SET:
      case RDMA_NLDEV_CMD_SYS_SET:
      case RDMA_NLDEV_CMD_NEWLINK:
      case RDMA_NLDEV_CMD_DELLINK:
        return EPERM;
      default:
        return EOPNOTSUPP;
    }
  }

 private:
  template <typename Get>
  int with_device(Get get_it) {
    const auto index = request_.attribute_u32(RDMA_NLDEV_ATTR_DEV_INDEX);
    if (!index) return EINVAL;
    for (const DeviceInfo& device : catalogue_.devices) {
      if (device.netlink_index == *index) return get_it(device);
    }
    return EINVAL;
  }

  template <typename Put>
  int with_port(Put put) {
    return with_device([&](const DeviceInfo& device) {
      const auto port = request_.attribute_u32(RDMA_NLDEV_ATTR_PORT_INDEX);
      if (!port || *port != control::kPortNumber) return EINVAL;
      put(device);
      return 0;
    });
  }

  void dump_device(const DeviceInfo& device) {
    switch (reply_.op()) {
      case RDMA_NLDEV_CMD_GET:
        put_device(device);
        break;
      case RDMA_NLDEV_CMD_PORT_GET:
        put_port(device);
        break;
      case RDMA_NLDEV_CMD_RES_GET:
        put_summary(device);
        break;
      default:
        break;  // nothing to list
    }
  }

  void put_device(const DeviceInfo& device) {
    NetlinkWriter writer = reply_.message_of(device);
    writer.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, control::kPortNumber);
    writer.put_u64(RDMA_NLDEV_ATTR_CAP_FLAGS, 0);
    writer.put_string(RDMA_NLDEV_ATTR_FW_VERSION, device.firmware_version);
    writer.put_u64(RDMA_NLDEV_ATTR_NODE_GUID, device.node_guid);
    writer.put_u64(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, device.node_guid);
    writer.put_u8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, RDMA_NODE_IB_CA);
    writer.put_string(RDMA_NLDEV_ATTR_DEV_PROTOCOL,
                      device.persona == Persona::kRoce ? "roce" : "ib");
    reply_.send(writer);
  }

  void put_port(const DeviceInfo& device) {
    NetlinkWriter writer = reply_.message_of(device);
    writer.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, control::kPortNumber);
    if (device.persona == Persona::kInfiniBand) {
      std::uint64_t prefix = 0xfe80000000000000u;
      if (!device.gids.empty()) {
        prefix = 0;
        for (std::size_t i = 0; i < 8; ++i) prefix = prefix << 8 | device.gids[0].gid.bytes[i];
      }
      writer.put_u64(RDMA_NLDEV_ATTR_CAP_FLAGS, device.cap_mask);
      writer.put_u64(RDMA_NLDEV_ATTR_SUBNET_PREFIX, prefix);
      writer.put_u32(RDMA_NLDEV_ATTR_LID, device.lid);
      writer.put_u32(RDMA_NLDEV_ATTR_SM_LID, device.sm_lid);
      writer.put_u8(RDMA_NLDEV_ATTR_LMC, 0);
    }
    const bool is_up = device.port_state != control::PortState::kDown;
    writer.put_u8(RDMA_NLDEV_ATTR_PORT_STATE, static_cast<std::uint8_t>(device.port_state));
    writer.put_u8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, is_up ? kPhysicalLinkUp : kPhysicalDisabled);
    // An InfiniBand port has no network interface of its own.
    if (device.persona == Persona::kRoce && device.if_index != 0) {
      writer.put_u32(RDMA_NLDEV_ATTR_NDEV_INDEX, device.if_index);
      writer.put_string(RDMA_NLDEV_ATTR_NDEV_NAME, device.if_name);
    }
    reply_.send(writer);
  }

  // Puts the port's counters, which `rdma statistic` shows.
  void put_counters(const DeviceInfo& device) {
    NetlinkWriter writer = reply_.message_of(device);
    writer.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, control::kPortNumber);
    const std::size_t table = writer.begin_nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
    const NamedCounters counters =
        catalogue_.counters ? catalogue_.counters(device.name) : NamedCounters{};
    for (const auto& [name, value] : counters) {
      const std::size_t entry = writer.begin_nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
      writer.put_string(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
      writer.put_u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
      writer.end_nest(entry);
    }
    writer.end_nest(table);
    reply_.send(writer);
  }

  void put_summary(const DeviceInfo& device) {
    const control::Resources resources =
        catalogue_.resources ? catalogue_.resources(device.name, control::ResourcesOf::kCounts)
                             : control::Resources{};
    std::uint64_t pds = 0, cqs = 0, qps = 0, mrs = 0, srqs = 0, contexts = 0;
    for (const control::ContextResources& context : resources.contexts) {
      pds += context.counts.pds;
      cqs += context.counts.cqs;
      qps += context.counts.qps;
      mrs += context.counts.mrs;
      srqs += context.counts.srqs;
      contexts += context.counts.contexts;
    }
    NetlinkWriter writer = reply_.message_of(device);
    const std::size_t table = writer.begin_nest(RDMA_NLDEV_ATTR_RES_SUMMARY);
    const std::array<std::pair<const char*, std::uint64_t>, 7> rows{
        {{"pd", pds},
         {"cq", cqs},
         {"qp", qps},
         {"cm_id", resources.cm_id_count},
         {"mr", mrs},
         {"ctx", contexts},
         {"srq", srqs}}};
    for (const auto& [name, count] : rows) {
      const std::size_t entry = writer.begin_nest(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
      writer.put_string(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name);
      writer.put_u64(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count);
      writer.end_nest(entry);
    }
    writer.end_nest(table);
    reply_.send(writer);
  }

  int get_system() {
    NetlinkWriter writer = reply_.message();
    writer.put_u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);  // shared
    // 1: ibv_fork_init is not needed. The engine accesses memory by the process's own addresses, so
    // copy-on-write pages after a fork cause no trouble.
    writer.put_u8(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
    reply_.send(writer);
    return 0;
  }

  void put_character_device(std::uint64_t number, std::uint64_t abi, const std::string& name) {
    NetlinkWriter writer = reply_.message();
    writer.put_string(RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
    writer.put_u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, abi);
    writer.put_u64(RDMA_NLDEV_ATTR_CHARDEV, number);
    reply_.send(writer);
  }

  int get_character_device() {
    const auto type = request_.attribute_string(RDMA_NLDEV_ATTR_CHARDEV_TYPE);
    if (!type) return EINVAL;
    if (!request_.attribute_u32(RDMA_NLDEV_ATTR_DEV_INDEX)) {
      for (const SharedCharacterDevice& shared : catalogue_.shared) {
        if (shared.type != *type) continue;
        put_character_device(shared.device_number, shared.abi, shared.name);
        return 0;
      }
      return ENODEV;
    }
    if (*type != "uverbs") return ENODEV;
    return with_device([this](const DeviceInfo& device) {
      put_character_device(
          ::makedev(control::kUverbsMajor, control::kUverbsMinorBase + device.uverbs_number),
          control::kDeviceAbiVersion, "uverbs" + std::to_string(device.uverbs_number));
      return 0;
    });
  }

  const NetlinkMessage& request_;
  const Catalogue& catalogue_;
  NldevReply reply_;
};

}  // namespace

Route route_of(const NetlinkMessage& request) {
  if (!is_nldev(request)) return Route::kKernel;
  if (const auto index = request.attribute_u32(RDMA_NLDEV_ATTR_DEV_INDEX)) {
    return *index >= kFirstOwnIndex ? Route::kOurs : Route::kKernel;
  }
  const unsigned op = RDMA_NL_GET_OP(request.type);
  // The rdma_cm node is always ours while an emulator runs (NodeClass::takes_over).
  if (op == RDMA_NLDEV_CMD_GET_CHARDEV &&
      request.attribute_string(RDMA_NLDEV_ATTR_CHARDEV_TYPE) == "rdma_cm") {
    return Route::kOurs;
  }
  const bool is_list = op == RDMA_NLDEV_CMD_GET || op == RDMA_NLDEV_CMD_RES_GET;
  return is_list && is_dump(request) ? Route::kMerged : Route::kKernel;
}

void answer_nldev(const NetlinkMessage& request, const Catalogue& catalogue, std::uint32_t port,
                  NetlinkReplies& replies) {
  if (is_dump(request)) {
    const int code = is_nldev(request) ? Answer(request, catalogue, port, replies).dump() : 0;
    replies.add_done(request, port, code);
    return;
  }
  const int code = is_nldev(request) ? Answer(request, catalogue, port, replies).get() : EOPNOTSUPP;
  if (code != 0 || (request.flags & NLM_F_ACK) != 0) replies.add_error(request, code, port);
}

void merge_dump(const NetlinkMessage& request, std::span<const std::uint8_t> kernel_reply,
                const Catalogue& catalogue, std::uint32_t port, NetlinkReplies& replies) {
  for (const NetlinkMessage& message : parse_netlink(kernel_reply)) {
    if (message.type == NLMSG_DONE || message.type == NLMSG_ERROR) continue;
    std::vector<std::uint8_t> bytes(message.bytes.begin(), message.bytes.end());
    bytes.resize((bytes.size() + 3) & ~std::size_t{3});
    // The kernel answered our own socket; the reader compares this field with its own port number.
    std::memcpy(bytes.data() + offsetof(nlmsghdr, nlmsg_pid), &port, sizeof port);
    replies.pack(std::move(bytes));
  }
  const int code = Answer(request, catalogue, port, replies).dump();
  replies.add_done(request, port, code);
}

}  // namespace verbena::preload
