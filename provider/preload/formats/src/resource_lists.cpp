// SPDX-License-Identifier: BSD-2-Clause
#include "resource_lists.hpp"

#include <linux/socket.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace verbena::preload {
namespace {

using control::ContextResources;
using control::DeviceInfo;
using control::ResourcesOf;

// Collects the entries of one kind in tables, over as many messages as needed.
class List {
 public:
  List(NldevReply& reply, const DeviceInfo& device, std::uint16_t table, std::uint16_t entry)
      : reply_(reply),
        device_(device),
        table_type_(table),
        entry_type_(entry),
        message_(reply.message_of(device)),
        table_(message_.begin_nest(table)) {}

  // Returns whether only objects of one port are wanted.
  bool is_of_port() const {
    return reply_.request().attribute_u32(RDMA_NLDEV_ATTR_PORT_INDEX).has_value();
  }

  // Adds an entry that `put` fills. Returns false if there is no room for more.
  template <typename Put>
  bool add(Put put) {
    NetlinkWriter entry(0, 0, 0, 0);
    const std::size_t nest = entry.begin_nest(entry_type_);
    put(entry);
    entry.end_nest(nest);
    const std::vector<std::uint8_t> bytes = entry.take();
    const auto attributes = std::span(bytes).subspan(kNetlinkHeaderSize);
    if (message_.size() + attributes.size() > NetlinkReplies::kDatagramMax) end();
    is_cut_ = is_empty_ && reply_.datagrams() >= kListDatagramsMost;
    if (is_cut_) return false;
    message_.append(attributes.data(), attributes.size());
    is_empty_ = false;
    ++entries_;
    return true;
  }

  // The emulator reports at most kMost objects of a kind.
  bool is_cut() const { return is_cut_ || entries_ >= control::Resources::kMost; }

  // Sends the entries that were not sent yet.
  void end() {
    if (std::exchange(is_empty_, true)) return;
    message_.end_nest(table_);
    reply_.send(message_);
    message_ = reply_.message_of(device_);
    table_ = message_.begin_nest(table_type_);
  }

 private:
  NldevReply& reply_;
  const DeviceInfo& device_;
  std::uint16_t table_type_;
  std::uint16_t entry_type_;
  NetlinkWriter message_;
  std::size_t table_;
  bool is_empty_ = true;
  bool is_cut_ = false;
  std::size_t entries_ = 0;
};

void put_if_any(NetlinkWriter& entry, std::uint16_t type, std::uint32_t number) {
  if (number != 0) entry.put_u32(type, number);
}

void put_queue_pair(NetlinkWriter& entry, const control::QpStatus& qp, std::uint32_t pid) {
  constexpr std::uint8_t kTypeUd = 4;  // ibv_qp_type; RC 2 and UC 3 below it have a peer
  entry.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, control::kPortNumber);
  entry.put_u32(RDMA_NLDEV_ATTR_RES_LQPN, qp.qpn);
  if (qp.type < kTypeUd) {
    entry.put_u32(RDMA_NLDEV_ATTR_RES_RQPN, qp.peer_qpn);
    entry.put_u32(RDMA_NLDEV_ATTR_RES_RQ_PSN, qp.receive_psn);
  }
  entry.put_u32(RDMA_NLDEV_ATTR_RES_SQ_PSN, qp.send_psn);
  entry.put_u8(RDMA_NLDEV_ATTR_RES_TYPE, qp.type);
  entry.put_u8(RDMA_NLDEV_ATTR_RES_STATE, qp.state);
  put_if_any(entry, RDMA_NLDEV_ATTR_RES_PDN, qp.domain);
  entry.put_u32(RDMA_NLDEV_ATTR_RES_PID, pid);
}

void put_completion_queue(NetlinkWriter& entry, const control::CqStatus& cq,
                          const ContextResources& context) {
  entry.put_u32(RDMA_NLDEV_ATTR_RES_CQE, cq.capacity);
  entry.put_u64(RDMA_NLDEV_ATTR_RES_USECNT, cq.users);
  entry.put_u8(RDMA_NLDEV_ATTR_DEV_DIM, 0);  // only the program changes its moderation
  entry.put_u32(RDMA_NLDEV_ATTR_RES_CQN, cq.number);
  entry.put_u32(RDMA_NLDEV_ATTR_RES_CTXN, context.slot);
  entry.put_u32(RDMA_NLDEV_ATTR_RES_PID, context.pid);
}

// Puts consecutive queue pair numbers as one range.
void put_users(NetlinkWriter& entry, std::vector<std::uint32_t> qpns) {
  constexpr std::size_t kRangesMost = 100;  // `rdma` shows 256 characters of them
  std::ranges::sort(qpns);
  const std::size_t table = entry.begin_nest(RDMA_NLDEV_ATTR_RES_QP);
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < qpns.size() && ranges < kRangesMost; ++ranges) {
    const std::size_t first = i;
    do {
      ++i;
    } while (i < qpns.size() && qpns[i] == qpns[i - 1] + 1);
    const std::size_t range = entry.begin_nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY);
    if (i - first == 1) {
      entry.put_u32(RDMA_NLDEV_ATTR_RES_LQPN, qpns[first]);
    } else {
      entry.put_u32(RDMA_NLDEV_ATTR_MIN_RANGE, qpns[first]);
      entry.put_u32(RDMA_NLDEV_ATTR_MAX_RANGE, qpns[i - 1]);
    }
    entry.end_nest(range);
  }
  entry.end_nest(table);
}

void put_shared_receive(NetlinkWriter& entry, const control::SrqStatus& srq,
                        std::vector<std::uint32_t> users, std::uint32_t pid) {
  entry.put_u32(RDMA_NLDEV_ATTR_RES_SRQN, srq.number);
  entry.put_u8(RDMA_NLDEV_ATTR_RES_TYPE, srq.type);
  put_if_any(entry, RDMA_NLDEV_ATTR_RES_PDN, srq.domain);
  put_if_any(entry, RDMA_NLDEV_ATTR_RES_CQN, srq.cq);
  put_users(entry, std::move(users));
  entry.put_u32(RDMA_NLDEV_ATTR_RES_PID, pid);
}

// Leaves out an InfiniBand address (AF_IB): `rdma` would show nothing of an ID that has one.
void put_address(NetlinkWriter& entry, std::uint16_t type, std::span<const std::uint8_t> address) {
  __kernel_sockaddr_storage storage{};
  if (address.size() < sizeof storage.ss_family || address.size() > sizeof storage) return;
  std::memcpy(&storage, address.data(), address.size());
  if (storage.ss_family != AF_INET && storage.ss_family != AF_INET6) return;
  entry.put_bytes(type, {reinterpret_cast<const std::uint8_t*>(&storage), sizeof storage});
}

// An ID that listens on all devices has no port, as in the kernel, which then has a separate ID for
// each device.
void put_cm_id(NetlinkWriter& entry, const control::CmIdResource& id) {
  if (!id.device.empty()) entry.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, control::kPortNumber);
  if (id.qpn != 0) {
    entry.put_u32(RDMA_NLDEV_ATTR_RES_LQPN, id.qpn);
    entry.put_u8(RDMA_NLDEV_ATTR_RES_TYPE, id.qp_type);
  }
  entry.put_u32(RDMA_NLDEV_ATTR_RES_PS, id.port_space);
  entry.put_u8(RDMA_NLDEV_ATTR_RES_STATE, id.state);
  put_address(entry, RDMA_NLDEV_ATTR_RES_SRC_ADDR, id.source);
  put_address(entry, RDMA_NLDEV_ATTR_RES_DST_ADDR, id.destination);
  entry.put_u32(RDMA_NLDEV_ATTR_RES_CM_IDN, id.number);
  put_if_any(entry, RDMA_NLDEV_ATTR_RES_PID, id.pid);
}

void put_queue_pairs(List& list, const control::Resources& resources) {
  for (const ContextResources& context : resources.contexts) {
    for (const control::QpStatus& qp : context.qps) {
      if (!list.add([&](NetlinkWriter& e) { put_queue_pair(e, qp, context.pid); })) return;
    }
  }
}

void put_completion_queues(List& list, const control::Resources& resources) {
  for (const ContextResources& context : resources.contexts) {
    for (const control::CqStatus& cq : context.cqs) {
      if (!list.add([&](NetlinkWriter& e) { put_completion_queue(e, cq, context); })) return;
    }
  }
}

void put_shared_receives(List& list, const control::Resources& resources) {
  // Queue pair numbers by context and SRQ number; each context numbers its SRQs anew.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> users;
  for (const ContextResources& context : resources.contexts) {
    for (const control::QpStatus& qp : context.qps) {
      if (qp.srq != 0) users[{context.slot, qp.srq}].push_back(qp.qpn);
    }
  }
  for (const ContextResources& context : resources.contexts) {
    for (const control::SrqStatus& srq : context.srqs) {
      const auto used_by = users.find({context.slot, srq.number});
      const bool is_listed = list.add([&](NetlinkWriter& e) {
        put_shared_receive(e, srq,
                           used_by == users.end() ? std::vector<std::uint32_t>{} : used_by->second,
                           context.pid);
      });
      if (!is_listed) return;
    }
  }
}

void put_cm_ids(List& list, const control::Resources& resources) {
  for (const control::CmIdResource& id : resources.cm_ids) {
    if (id.device.empty() && list.is_of_port()) continue;
    if (!list.add([&](NetlinkWriter& e) { put_cm_id(e, id); })) return;
  }
}

void put_contexts(List& list, const control::Resources& resources) {
  for (const ContextResources& context : resources.contexts) {
    if (context.counts.contexts == 0) continue;
    const bool is_listed = list.add([&](NetlinkWriter& e) {
      e.put_u32(RDMA_NLDEV_ATTR_RES_CTXN, context.slot);
      e.put_u32(RDMA_NLDEV_ATTR_RES_PID, context.pid);
    });
    if (!is_listed) return;
  }
}

struct Kind {
  unsigned op;
  ResourcesOf of;
  std::uint16_t table;
  std::uint16_t entry;
  void (*put)(List& list, const control::Resources& resources);
};
constexpr std::array kKinds{
    Kind{RDMA_NLDEV_CMD_RES_QP_GET, ResourcesOf::kQueuePairs, RDMA_NLDEV_ATTR_RES_QP,
         RDMA_NLDEV_ATTR_RES_QP_ENTRY, &put_queue_pairs},
    Kind{RDMA_NLDEV_CMD_RES_CQ_GET, ResourcesOf::kCompletionQueues, RDMA_NLDEV_ATTR_RES_CQ,
         RDMA_NLDEV_ATTR_RES_CQ_ENTRY, &put_completion_queues},
    Kind{RDMA_NLDEV_CMD_RES_SRQ_GET, ResourcesOf::kSharedReceives, RDMA_NLDEV_ATTR_RES_SRQ,
         RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, &put_shared_receives},
    Kind{RDMA_NLDEV_CMD_RES_CM_ID_GET, ResourcesOf::kCmIds, RDMA_NLDEV_ATTR_RES_CM_ID,
         RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, &put_cm_ids},
    Kind{RDMA_NLDEV_CMD_RES_CTX_GET, ResourcesOf::kCounts, RDMA_NLDEV_ATTR_RES_CTX,
         RDMA_NLDEV_ATTR_RES_CTX_ENTRY, &put_contexts},
};

}  // namespace

bool lists_resources(unsigned op) {
  return op == RDMA_NLDEV_CMD_RES_MR_GET || op == RDMA_NLDEV_CMD_RES_PD_GET ||
         std::ranges::find(kKinds, op, &Kind::op) != kKinds.end();
}

int put_resource_list(NldevReply& reply, const DeviceInfo& device, const Catalogue& catalogue) {
  const auto* const kind = std::ranges::find(kKinds, reply.op(), &Kind::op);
  if (kind == kKinds.end() || !catalogue.resources) return 0;
  List list(reply, device, kind->table, kind->entry);
  kind->put(list, catalogue.resources(device.name, kind->of));
  list.end();
  return list.is_cut() ? ENOBUFS : 0;
}

}  // namespace verbena::preload
