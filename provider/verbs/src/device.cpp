// SPDX-License-Identifier: BSD-2-Clause
// What the device and its port report about themselves, and the end of a context.
#include <endian.h>

#include <algorithm>
#include <cstring>

#include "verbena/context/context.hpp"
#include "verbena/context/live_contexts.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/uncancelled.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

constexpr std::uint64_t kNsClockMask = ~std::uint64_t{0};
constexpr std::uint64_t kNsClockKHz = 1'000'000;

void fill_limits(ibv_device_attr& a) {
  a.max_mr_size = ~std::uint64_t{0};
  a.page_size_cap = ~std::uint64_t{0xfff};
  a.max_qp = kMaxQpAdvertised;
  a.max_qp_wr = kMaxQpWr;
  a.max_sge = kMaxSge;
  a.max_sge_rd = kMaxSge;
  a.max_cq = kMaxCq;
  a.max_cqe = kMaxCqe;
  a.max_mr = kMaxMr;
  a.max_pd = kMaxPd;
  a.max_qp_rd_atom = kMaxRdAtomic;
  a.max_res_rd_atom = static_cast<int>(kMaxRdAtomic) * kMaxQpAdvertised;
  a.max_qp_init_rd_atom = kMaxRdAtomic;
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_mw = kMaxMw;
  a.max_mcast_grp = kMaxGroups;
  a.max_mcast_qp_attach = kMaxQpPerGroup;
  a.max_total_mcast_qp_attach = kMaxGroupMemberships;
  a.max_ah = kMaxAh;
  a.max_srq = kMaxSrq;
  a.max_srq_wr = kMaxSrqWr;
  a.max_srq_sge = kMaxSge;
  a.local_ca_ack_delay = 15;
  a.phys_port_cnt = 1;
}

ibv_device_attr attributes_of(const control::DeviceInfo& info) {
  ibv_device_attr a{};
  std::strncpy(a.fw_ver, info.firmware_version.c_str(), sizeof a.fw_ver - 1);
  a.node_guid = htobe64(info.node_guid);
  a.sys_image_guid = htobe64(info.node_guid);
  a.max_pkeys = static_cast<std::uint16_t>(info.pkeys.size());
  a.device_cap_flags = IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_BAD_PKEY_CNTR |
                       IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CURR_QP_STATE_MOD |
                       IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                       IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_N_NOTIFY_CQ |
                       IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                       IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC;
  a.vendor_id = kVendorId;
  a.vendor_part_id = kVendorPart;
  a.hw_ver = kHardwareVersion;
  fill_limits(a);
  return a;
}

ibv_tm_caps tag_matching_caps() {
  ibv_tm_caps caps{};
  caps.max_rndv_hdr_size = kMaxRendezvousHeader;
  caps.max_num_tags = kMaxTags;
  caps.flags = IBV_TM_CAP_RC;
  caps.max_ops = kMaxTagOperations;
  caps.max_sge = kMaxSge;
  return caps;
}

// The headers of some distributions lack these.
constexpr std::uint32_t kOdpSupportFlush = 1u << 6;
constexpr std::uint32_t kOdpSupportAtomicWrite = 1u << 7;

constexpr std::uint64_t kFlushAndAtomicWrite = 7ull << 38;

ibv_odp_caps on_demand_caps() {
  constexpr std::uint32_t kUd = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
  constexpr std::uint32_t kUc = kUd | IBV_ODP_SUPPORT_WRITE;
  constexpr std::uint32_t kRc = kUc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
                                IBV_ODP_SUPPORT_SRQ_RECV | kOdpSupportFlush |
                                kOdpSupportAtomicWrite;
  ibv_odp_caps caps{};
  caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  caps.per_transport_caps.rc_odp_caps = kRc;
  caps.per_transport_caps.uc_odp_caps = kUc;
  caps.per_transport_caps.ud_odp_caps = kUd | IBV_ODP_SUPPORT_SRQ_RECV;
  return caps;
}

// `attr` may come from an older or a newer header; `size` says how much of it there is.
int query_device_ex(ibv_context* c, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t size) noexcept {
  return errno_of([&] {
    if (input != nullptr && input->comp_mask != 0) {
      refuse(EINVAL, "ibv_query_device_ex: input->comp_mask = 0x%x, must be 0", input->comp_mask);
    }
    check_given("ibv_query_device_ex", "attr", attr);
    if (size < sizeof(ibv_device_attr)) {
      refuse(EINVAL, "ibv_query_device_ex: attr_size = %zu is too small", size);
    }
    ibv_device_attr_ex full{};
    full.orig_attr = attributes_of(Context::of(c).info());
    full.odp_caps = on_demand_caps();
    full.xrc_odp_caps = full.odp_caps.per_transport_caps.rc_odp_caps;
    full.completion_timestamp_mask = kNsClockMask;
    full.hca_core_clock = kNsClockKHz;
    full.device_cap_flags_ex = full.orig_attr.device_cap_flags | kFlushAndAtomicWrite;
    full.tm_caps = tag_matching_caps();
    full.cq_mod_caps.max_cq_count = 0xffff;
    full.cq_mod_caps.max_cq_period = 0xffff;
    full.max_dm_size = kMaxDeviceMemory;
    full.phys_port_cnt_ex = 1;
    std::memset(static_cast<void*>(attr), 0, size);
    std::memcpy(static_cast<void*>(attr), &full, std::min(size, sizeof full));
  });
}

int query_device(ibv_context* c, ibv_device_attr* attr) noexcept {
  return errno_of([&] { *attr = attributes_of(Context::of(c).info()); });
}

int query_port(ibv_context* c, std::uint8_t port, ibv_port_attr* a) noexcept {
  return errno_of([&] {
    if (port != control::kPortNumber) {
      refuse(EINVAL, "ibv_query_port: port_num = %u, the device has port 1 only", port);
    }
    Context& context = alive_context(c, "ibv_query_port");
    const control::DeviceInfo info = context.info();
    const control::Counters counters = context.port_counters();
    const auto dropped = [&counters](DropReason reason) {
      return static_cast<std::uint32_t>(counters.drops[static_cast<std::size_t>(reason)]);
    };
    const bool active = info.port_state == control::PortState::kActive;
    a->state = static_cast<ibv_port_state>(info.port_state);
    a->max_mtu = static_cast<ibv_mtu>(info.max_mtu);
    a->active_mtu = static_cast<ibv_mtu>(info.active_mtu);
    a->gid_tbl_len = static_cast<int>(info.gids.size());
    a->port_cap_flags = info.cap_mask;
    a->max_msg_sz = kMaxMessage;
    a->bad_pkey_cntr = dropped(DropReason::kBadPkey);
    a->qkey_viol_cntr = dropped(DropReason::kBadQkey);
    a->pkey_tbl_len = static_cast<std::uint16_t>(info.pkeys.size());
    a->lid = info.lid;
    a->sm_lid = info.sm_lid;
    a->lmc = 0;
    a->max_vl_num = 1;
    a->sm_sl = 0;
    a->subnet_timeout = 18;
    a->init_type_reply = 0;
    a->active_width = info.active_width;
    a->active_speed = info.active_speed;
    a->phys_state = active ? 5 : 3;
    a->link_layer = info.persona == control::Persona::kInfiniBand ? IBV_LINK_LAYER_INFINIBAND
                                                                  : IBV_LINK_LAYER_ETHERNET;
    a->flags = info.persona == control::Persona::kRoce ? IBV_QPF_GRH_REQUIRED : 0;
    a->port_cap_flags2 = 0;
  });
}

// The speed is in units of 100 Mb/s, all lanes together.
int query_port_speed(ibv_context* c, std::uint32_t port, std::uint64_t* speed) noexcept {
  return errno_of([&] {
    if (port != control::kPortNumber) {
      refuse(EINVAL, "ibv_query_port_speed: port_num = %u, the device has port 1 only", port);
    }
    const control::DeviceInfo info = alive_context(c, "ibv_query_port_speed").info();
    constexpr std::uint64_t kEdrLane = 250;
    const std::uint64_t lanes = info.active_width == 2 ? 4 : 1;
    *speed = kEdrLane * lanes;
  });
}

int query_rt_values(ibv_context*, ibv_values_ex* values) noexcept {
  return errno_of([&] {
    check_given("ibv_query_rt_values_ex", "values", values);
    if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
      const TimeNs now = link::monotonic_now_ns();
      values->raw_clock.tv_sec = static_cast<time_t>(now / 1'000'000'000u);
      values->raw_clock.tv_nsec = static_cast<long>(now % 1'000'000'000u);
    }
    values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
  });
}

// A thread that is cancelled in here would be at the end of its stack in a destructor, and so end
// the process.
void free_context(ibv_context* c) noexcept {
  const link::Uncancelled uncancelled;
  Context& context = Context::of(c);
  const abi::Library& library = context.library();
  ibv_context* const first = context.public_context();
  // The context works with the descriptors of its first handle, which therefore goes last.
  if (c != first) {
    remove_handle(context, c);
    library.free_context(c);
  }
  if (!release_context(context)) return;
  if (!context.leave_behind()) delete &context;
  library.free_context(first);
}

void async_event(ibv_context* c, ibv_async_event*) noexcept { Context::of(c).events().note_read(); }

}  // namespace

void offer_device_verbs(abi::Ops& ops) {
  ops.query_device = &query_device;
  ops.query_device_ex = &query_device_ex;
  ops.query_port = &query_port;
  ops.query_port_speed = &query_port_speed;
  ops.query_rt_values = &query_rt_values;
  ops.free_context = &free_context;
  ops.async_event = &async_event;
}

}  // namespace verbena::provider
