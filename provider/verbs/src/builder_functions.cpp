// SPDX-License-Identifier: BSD-2-Clause
// The functions of an extended queue pair (ibv_wr_*): requests are collected in its builder, and
// ibv_wr_complete posts all of them, or none if one of them is wrong.
#include <cstring>

#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/verbs/post.hpp"
#include "verbena/verbs/translate.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

using queue::WorkOpcode;

queue::SendRequest* add(ibv_qp_ex* q, WorkOpcode opcode) noexcept {
  queue::SendRequest* r = object_of(q).builder.add();
  if (r == nullptr) return nullptr;
  r->id = q->wr_id;
  r->opcode = opcode;
  // Inline is not a flag here; ibv_wr_set_inline_data sets it.
  r->flags = static_cast<std::uint8_t>(q->wr_flags & kWorkFlags & ~unsigned{IBV_SEND_INLINE});
  return r;
}

queue::SendRequest* add_remote(ibv_qp_ex* q, WorkOpcode opcode, std::uint32_t rkey,
                               std::uint64_t address) noexcept {
  queue::SendRequest* r = add(q, opcode);
  if (r == nullptr) return nullptr;
  r->remote_key = rkey;
  r->remote_address = address;
  return r;
}

void wr_send(ibv_qp_ex* q) noexcept { add(q, WorkOpcode::kSend); }
void wr_send_imm(ibv_qp_ex* q, __be32 immediate) noexcept {
  if (auto* r = add(q, WorkOpcode::kSendImmediate)) r->immediate = immediate;
}
void wr_send_inv(ibv_qp_ex* q, std::uint32_t rkey) noexcept {
  if (auto* r = add(q, WorkOpcode::kSendInvalidate)) r->immediate = rkey;
}
void wr_rdma_write(ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address) noexcept {
  add_remote(q, WorkOpcode::kWrite, rkey, address);
}
void wr_rdma_write_imm(ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address,
                       __be32 immediate) noexcept {
  if (auto* r = add_remote(q, WorkOpcode::kWriteImmediate, rkey, address)) {
    r->immediate = immediate;
  }
}
void wr_rdma_read(ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address) noexcept {
  add_remote(q, WorkOpcode::kRead, rkey, address);
}
void wr_atomic_cmp_swp(ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address,
                       std::uint64_t compare, std::uint64_t swap) noexcept {
  if (auto* r = add_remote(q, WorkOpcode::kCompareSwap, rkey, address)) {
    r->compare = compare;
    r->swap_or_add = swap;
  }
}
void wr_atomic_fetch_add(ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address,
                         std::uint64_t addend) noexcept {
  if (auto* r = add_remote(q, WorkOpcode::kFetchAdd, rkey, address)) r->swap_or_add = addend;
}
void wr_atomic_write(ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address,
                     const void* value) noexcept {
  if (auto* r = add_remote(q, WorkOpcode::kAtomicWrite, rkey, address)) {
    std::memcpy(&r->swap_or_add, value, sizeof r->swap_or_add);
  }
}
void wr_flush(ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address, std::size_t length,
              std::uint8_t placement, std::uint8_t selectivity) noexcept {
  if (auto* r = add_remote(q, WorkOpcode::kFlush, rkey, address)) {
    r->flush_length = static_cast<std::uint32_t>(length);
    r->flush_placement = placement;
    r->flush_selectivity = selectivity;
  }
}
void wr_local_inv(ibv_qp_ex* q, std::uint32_t rkey) noexcept {
  if (auto* r = add(q, WorkOpcode::kLocalInvalidate)) r->immediate = rkey;
}
void wr_bind_mw(ibv_qp_ex* q, ibv_mw* mw, std::uint32_t rkey,
                const ibv_mw_bind_info* info) noexcept {
  auto* r = add(q, WorkOpcode::kBindWindow);
  if (r == nullptr) return;
  if (mw == nullptr || info == nullptr) return object_of(q).builder.fail(EINVAL);
  fill_binding(*r, *mw, rkey, *info);
}
void wr_send_tso(ibv_qp_ex* q, void*, std::uint16_t, std::uint16_t) noexcept {
  object_of(q).builder.fail(EOPNOTSUPP);
}

void wr_set_ud_addr(ibv_qp_ex* q, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) noexcept {
  WorkBuilder& builder = object_of(q).builder;
  queue::SendRequest* r = builder.last();
  if (r == nullptr || ah == nullptr || is_dead(ah)) return builder.fail(EINVAL);
  r->remote_qpn = qpn;
  r->remote_qkey = qkey;
  builder.set_address(object_of(ah).vector);
}
void wr_set_xrc_srqn(ibv_qp_ex* q, std::uint32_t number) noexcept {
  WorkBuilder& builder = object_of(q).builder;
  queue::SendRequest* r = builder.last();
  if (r == nullptr) return builder.fail(EINVAL);
  r->remote_srqn = number;
}
void wr_set_inline_data(ibv_qp_ex* q, void* bytes, std::size_t length) noexcept {
  object_of(q).builder.begin_inline();
  object_of(q).builder.add_inline(bytes, length);
}
void wr_set_inline_data_list(ibv_qp_ex* q, std::size_t count, const ibv_data_buf* list) noexcept {
  object_of(q).builder.begin_inline();
  for (std::size_t i = 0; i < count; ++i) {
    object_of(q).builder.add_inline(list[i].addr, list[i].length);
  }
}
void wr_set_sge(ibv_qp_ex* q, std::uint32_t lkey, std::uint64_t address,
                std::uint32_t length) noexcept {
  const queue::Sge sge{address, length, lkey};
  object_of(q).builder.set_sges(&sge, 1);
}
void wr_set_sge_list(ibv_qp_ex* q, std::size_t count, const ibv_sge* list) noexcept {
  SgeList sges;
  const int error = sges.take("ibv_wr_set_sge_list", list,
                              count > queue::kMaxSges ? -1 : static_cast<int>(count));
  if (error != 0) return object_of(q).builder.fail(error);
  object_of(q).builder.set_sges(sges.span().data(), sges.span().size());
}

void wr_start(ibv_qp_ex* q) noexcept { object_of(q).builder.start(); }
void wr_abort(ibv_qp_ex* q) noexcept { object_of(q).builder.finish(); }

// Called under the queue pair's lock.
int post_all(Qp& qp) noexcept {
  if (qp.builder.error() != 0) {
    return refusal(qp.builder.error(),
                   "ibv_wr_complete: queue pair 0x%06x: a request was put "
                   "together wrongly; nothing was posted",
                   qp.abi.qp.qp_num);
  }
  if (!qp.pair->may_post_send()) return errno_of_state("ibv_wr_complete", qp);
  if (!qp.pair->requester().queue().has_room_for(qp.builder.size())) {
    return errno_of_posted(qp, requester::Posted::kQueueFull, nullptr);
  }
  if (qp.builder.size() > 1) {
    const int error = qp.builder.for_each([&](const queue::SendRequest& request) {
      return errno_of_posted(qp, qp.pair->requester().would_post(request), &request);
    });
    if (error != 0) return error;
  }
  return qp.builder.for_each([&](const queue::SendRequest& request) {
    return errno_of_posted(qp, qp.pair->post_send(request), &request);
  });
}

int wr_complete(ibv_qp_ex* q) noexcept {
  note_posting();
  Qp& qp = object_of(q);
  const int error = qp.engine.post(*qp.pair, qp.posts, [&] { return post_all(qp); });
  qp.builder.finish();
  return error;
}

template <typename F>
void put(abi::PrivateQp& qp, std::size_t offset, F* function) {
  std::memcpy(qp.room + offset, &function, sizeof function);
}

}  // namespace

void install_builder(Qp& qp, const BuilderSlots& slots) {
  ibv_qp_ex& ex = qp.abi.ex;
  ex.wr_atomic_cmp_swp = &wr_atomic_cmp_swp;
  ex.wr_atomic_fetch_add = &wr_atomic_fetch_add;
  ex.wr_bind_mw = &wr_bind_mw;
  ex.wr_local_inv = &wr_local_inv;
  ex.wr_rdma_read = &wr_rdma_read;
  ex.wr_rdma_write = &wr_rdma_write;
  ex.wr_rdma_write_imm = &wr_rdma_write_imm;
  ex.wr_send = &wr_send;
  ex.wr_send_imm = &wr_send_imm;
  ex.wr_send_inv = &wr_send_inv;
  ex.wr_send_tso = &wr_send_tso;
  ex.wr_set_ud_addr = &wr_set_ud_addr;
  ex.wr_set_xrc_srqn = &wr_set_xrc_srqn;
  ex.wr_set_inline_data = &wr_set_inline_data;
  ex.wr_set_inline_data_list = &wr_set_inline_data_list;
  ex.wr_set_sge = &wr_set_sge;
  ex.wr_set_sge_list = &wr_set_sge_list;
  ex.wr_start = &wr_start;
  ex.wr_complete = &wr_complete;
  ex.wr_abort = &wr_abort;
  if (slots.atomic_write) put(qp.abi, abi::kWrAtomicWriteOffset, &wr_atomic_write);
  if (slots.flush) put(qp.abi, abi::kWrFlushOffset, &wr_flush);
}

}  // namespace verbena::provider
