// SPDX-License-Identifier: BSD-2-Clause
// The extended completion queue: one completion at a time, its fields read by functions.
#include <endian.h>

#include "verbena/context/context.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/report/tsan_order.hpp"
#include "verbena/verbs/make_cq.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/translate.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

constexpr std::uint64_t kKnownFields =
    IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
    IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS |
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |
    IBV_WC_EX_WITH_TM_INFO | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

void show(Cq& cq) noexcept {
  cq.abi.ex.wr_id = cq.current().id;
  cq.abi.ex.status = static_cast<ibv_wc_status>(cq.current().status);
}

bool look(Cq& cq) noexcept {
  Cq::Reader& r = cq.reader;
  r.seen = cq.queue.peek(Cq::Reader::kMost);
  if (r.seen.empty()) return false;
  r.current = &r.seen.front();
  r.last = &r.seen.back();
  note_completion();
  cq.queue.note_read(*r.current);
  show(cq);
  return true;
}

// Takes the completions up to the current one, inclusive.
void take(Cq& cq) noexcept {
  Cq::Reader& r = cq.reader;
  if (r.seen.empty()) return;
  cq.queue.consume(static_cast<std::size_t>(r.current - r.seen.data()) + 1, r.kept);
  r.seen = {};
  r.current = r.last = &r.kept;
}

// Kept out of line, so that the path to the next completion in sight saves no registers for it.
[[gnu::noinline]] int look_further(Cq& cq) noexcept {
  take(cq);
  return look(cq) ? 0 : ENOENT;
}

// Only one poll runs at a time, from its start to its end.
int start_poll(ibv_cq_ex* c, ibv_poll_cq_attr* attr) noexcept {
  if (attr->comp_mask != 0) {
    return refusal(EINVAL, "ibv_start_poll: comp_mask = 0x%x, must be 0", attr->comp_mask);
  }
  Cq& cq = object_of(c);
  if (!cq.single_threaded) cq.reader.lock.lock();
  if (look(cq)) return 0;
  drive(cq);
  if (look(cq)) return 0;
  if (!cq.single_threaded) cq.reader.lock.unlock();
  return ENOENT;
}

int next_poll(ibv_cq_ex* c) noexcept {
  Cq& cq = object_of(c);
  Cq::Reader& r = cq.reader;
  if (r.current == r.last) return look_further(cq);
  ++r.current;
  cq.queue.note_read(*r.current);
  show(cq);
  return 0;
}

void end_poll(ibv_cq_ex* c) noexcept {
  Cq& cq = object_of(c);
  take(cq);
  if (!cq.single_threaded) cq.reader.lock.unlock();
}

ibv_wc_opcode read_opcode(ibv_cq_ex* c) noexcept {
  return wc_opcode_of(object_of(c).current().opcode);
}
std::uint32_t read_vendor_err(ibv_cq_ex* c) noexcept { return object_of(c).current().vendor_error; }
std::uint32_t read_byte_len(ibv_cq_ex* c) noexcept { return object_of(c).current().byte_length; }
__be32 read_imm_data(ibv_cq_ex* c) noexcept { return object_of(c).current().immediate; }
std::uint32_t read_qp_num(ibv_cq_ex* c) noexcept { return object_of(c).current().qpn; }
std::uint32_t read_src_qp(ibv_cq_ex* c) noexcept { return object_of(c).current().source_qpn; }
unsigned read_wc_flags(ibv_cq_ex* c) noexcept { return wc_flags_of(object_of(c).current().flags); }
std::uint32_t read_slid(ibv_cq_ex* c) noexcept { return object_of(c).current().source_lid; }
std::uint8_t read_sl(ibv_cq_ex* c) noexcept { return object_of(c).current().service_level; }
std::uint8_t read_path_bits(ibv_cq_ex* c) noexcept { return object_of(c).current().path_bits; }
std::uint64_t read_timestamp(ibv_cq_ex* c) noexcept { return object_of(c).current().timestamp; }
std::uint64_t read_wallclock(ibv_cq_ex* c) noexcept {
  const TimeNs age = link::monotonic_now_ns() - object_of(c).current().timestamp;
  return link::realtime_now_ns() - age;
}
// There are no VLANs and no flow rules, so no packet has a tag.
std::uint16_t read_cvlan(ibv_cq_ex*) noexcept { return 0; }
std::uint32_t read_flow_tag(ibv_cq_ex*) noexcept { return 0; }
void read_tm_info(ibv_cq_ex* c, ibv_wc_tm_info* info) noexcept {
  info->tag = object_of(c).current().tag;
  info->priv = object_of(c).current().tag_private;
}

void install_readers(ibv_cq_ex& ex) {
  ex.start_poll = &start_poll;
  ex.next_poll = &next_poll;
  ex.end_poll = &end_poll;
  ex.read_opcode = &read_opcode;
  ex.read_vendor_err = &read_vendor_err;
  ex.read_byte_len = &read_byte_len;
  ex.read_imm_data = &read_imm_data;
  ex.read_qp_num = &read_qp_num;
  ex.read_src_qp = &read_src_qp;
  ex.read_wc_flags = &read_wc_flags;
  ex.read_slid = &read_slid;
  ex.read_sl = &read_sl;
  ex.read_dlid_path_bits = &read_path_bits;
  ex.read_completion_ts = &read_timestamp;
  ex.read_completion_wallclock_ns = &read_wallclock;
  ex.read_cvlan = &read_cvlan;
  ex.read_flow_tag = &read_flow_tag;
  ex.read_tm_info = &read_tm_info;
}

ibv_cq_ex* create_cq_ex(ibv_context* c, ibv_cq_init_attr_ex* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_create_cq_ex";
    check_given(kVerb, "cq_attr", attr);
    if ((attr->wc_flags & ~kKnownFields) != 0) {
      refuse(EOPNOTSUPP, "%s: wc_flags has fields that this device does not fill: 0x%llx", kVerb,
             static_cast<unsigned long long>(attr->wc_flags & ~kKnownFields));
    }
    constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if ((attr->comp_mask & ~kKnownMask) != 0) {
      refuse(EOPNOTSUPP, "%s: unknown bits in comp_mask 0x%x", kVerb, attr->comp_mask);
    }
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
      part_of(Context::of(c), kVerb, "parent_domain", attr->parent_domain);
    }
    std::uint32_t flags = 0;
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0) flags = attr->flags;
    constexpr std::uint32_t kKnownFlags =
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    if ((flags & ~kKnownFlags) != 0) {
      refuse(EOPNOTSUPP, "%s: unknown flags 0x%x", kVerb, flags);
    }
    CqRequest request;
    request.verb = kVerb;
    request.cqe = attr->cqe;
    request.channel = attr->channel;
    request.vector = attr->comp_vector;
    request.single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    request.ignore_overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
    request.timestamps = (attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                            IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) != 0;
    Cq* cq = make_cq(Context::of(c), request);
    install_readers(cq->abi.ex);
    return &cq->abi.ex;
  });
}

}  // namespace

void offer_extended_completion_verbs(abi::Ops& ops) { ops.create_cq_ex = &create_cq_ex; }

}  // namespace verbena::provider
