// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/verbs/translate.hpp"

#include <cstddef>
#include <cstring>

namespace verbena::provider {

using queue::CompletionOpcode;
using queue::WorkOpcode;

std::optional<Transport> transport_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return Transport::kRc;
    case IBV_QPT_UC:
      return Transport::kUc;
    case IBV_QPT_UD:
      return Transport::kUd;
    case IBV_QPT_XRC_SEND:
      return Transport::kXrcSend;
    case IBV_QPT_XRC_RECV:
      return Transport::kXrcReceive;
    default:
      return std::nullopt;
  }
}

std::optional<WorkOpcode> opcode_of(ibv_wr_opcode opcode) {
  switch (static_cast<unsigned>(opcode)) {
    case IBV_WR_RDMA_WRITE:
      return WorkOpcode::kWrite;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return WorkOpcode::kWriteImmediate;
    case IBV_WR_SEND:
      return WorkOpcode::kSend;
    case IBV_WR_SEND_WITH_IMM:
      return WorkOpcode::kSendImmediate;
    case IBV_WR_RDMA_READ:
      return WorkOpcode::kRead;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return WorkOpcode::kCompareSwap;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return WorkOpcode::kFetchAdd;
    case IBV_WR_LOCAL_INV:
      return WorkOpcode::kLocalInvalidate;
    case IBV_WR_BIND_MW:
      return WorkOpcode::kBindWindow;
    case IBV_WR_SEND_WITH_INV:
      return WorkOpcode::kSendInvalidate;
    case wr::kFlush:
      return WorkOpcode::kFlush;
    case wr::kAtomicWrite:
      return WorkOpcode::kAtomicWrite;
    default:
      return std::nullopt;
  }
}

namespace {

// Copies several fields that have the same layout in both structures.
template <std::size_t kBegin, std::size_t kEnd>
void copy_fields(ibv_wc& wc, const queue::Completion& c) {
  std::memcpy(reinterpret_cast<char*>(&wc) + kBegin, reinterpret_cast<const char*>(&c) + kBegin,
              kEnd - kBegin);
}

}  // namespace

void fill(ibv_wc& wc, const queue::Completion& c) {
  using C = queue::Completion;
  static_assert(offsetof(ibv_wc, vendor_err) == offsetof(C, vendor_error));
  static_assert(offsetof(ibv_wc, byte_len) == offsetof(C, byte_length));
  static_assert(offsetof(ibv_wc, imm_data) == offsetof(C, immediate));
  static_assert(offsetof(ibv_wc, qp_num) == offsetof(C, qpn));
  static_assert(offsetof(ibv_wc, src_qp) == offsetof(C, source_qpn));
  static_assert(offsetof(ibv_wc, wc_flags) == offsetof(C, account));
  static_assert(offsetof(ibv_wc, pkey_index) == offsetof(C, pkey_index));
  static_assert(offsetof(ibv_wc, slid) == offsetof(C, source_lid));
  static_assert(offsetof(ibv_wc, sl) == offsetof(C, service_level));
  static_assert(offsetof(ibv_wc, dlid_path_bits) == offsetof(C, path_bits));
  copy_fields<offsetof(C, vendor_error), offsetof(C, account)>(wc, c);
  copy_fields<offsetof(C, pkey_index), offsetof(C, path_bits) + 1>(wc, c);
  wc.wr_id = c.id;
  wc.status = static_cast<ibv_wc_status>(c.status);
  wc.opcode = wc_opcode_of(c.opcode);
  wc.wc_flags = wc_flags_of(c.flags);
}

void fill_binding(queue::SendRequest& r, const ibv_mw& window, std::uint32_t new_key,
                  const ibv_mw_bind_info& info) {
  r.window_key = window.rkey;
  r.window_new_key = new_key;
  r.window_region_key = info.mr != nullptr ? info.mr->lkey : 0;
  r.window_address = info.addr;
  r.window_length = info.length;
  r.window_access = info.mw_access_flags;
}

int errno_of_refusal(memory::Refusal refusal) {
  using memory::Refusal;
  switch (refusal) {
    case Refusal::kNotMapped:
      return EFAULT;
    case Refusal::kBusy:
      return EBUSY;
    case Refusal::kTableFull:
      return ENOMEM;
    case Refusal::kNoSuchKey:
    case Refusal::kInvalidated:
    case Refusal::kForeignDomain:
    case Refusal::kForeignQp:
    case Refusal::kOutOfRange:
    case Refusal::kNoPermission:
    case Refusal::kMisaligned:
    case Refusal::kBadArgument:
      return EINVAL;
  }
  return EINVAL;
}

}  // namespace verbena::provider
