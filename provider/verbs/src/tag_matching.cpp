// SPDX-License-Identifier: BSD-2-Clause
// The tagged list of a tag-matching SRQ: ibv_post_srq_ops. Does not throw.
#include <cerrno>

#include "verbena/context/context.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/post.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

using queue::TagOpcode;

int take_entry(queue::TagOperation& to, SgeList& sges, const ibv_ops_wr& wr) noexcept {
  const int error = sges.take("ibv_post_srq_ops", wr.tm.add.sg_list, wr.tm.add.num_sge);
  if (error != 0) return error;
  to.receive_id = wr.tm.add.recv_wr_id;
  to.tag = wr.tm.add.tag;
  to.mask = wr.tm.add.mask;
  to.sges = sges.span();
  return 0;
}

int post_one(Srq& srq, ibv_ops_wr& wr) {
  note_posting();
  constexpr int kKnownFlags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
  if ((wr.flags & ~kKnownFlags) != 0) {
    return refusal(EINVAL, "ibv_post_srq_ops: unknown flags 0x%x", static_cast<unsigned>(wr.flags));
  }
  queue::TagOperation operation;
  SgeList sges;
  operation.id = wr.wr_id;
  operation.signaled = (wr.flags & IBV_OPS_SIGNALED) != 0;
  operation.synchronises = (wr.flags & IBV_OPS_TM_SYNC) != 0;
  operation.unexpected_count = wr.tm.unexpected_cnt;
  switch (wr.opcode) {
    case IBV_WR_TAG_ADD:
      operation.opcode = TagOpcode::kAdd;
      if (const int error = take_entry(operation, sges, wr); error != 0) return error;
      break;
    case IBV_WR_TAG_DEL:
      operation.opcode = TagOpcode::kDelete;
      operation.handle = wr.tm.handle;
      break;
    case IBV_WR_TAG_SYNC:
      operation.opcode = TagOpcode::kSync;
      operation.synchronises = true;
      break;
    default:
      return refusal(EINVAL, "ibv_post_srq_ops: opcode = %d is none of TAG_ADD, TAG_DEL, TAG_SYNC",
                     static_cast<int>(wr.opcode));
  }
  switch (srq.shared.tags->post(operation)) {
    case queue::TagMatching::Posted::kOk:
      break;
    case queue::TagMatching::Posted::kFull:
      return refusal(ENOMEM, "ibv_post_srq_ops: the list holds max_num_tags = %u buffers",
                     srq.shared.tags->options().max_tags);
    case queue::TagMatching::Posted::kTooManySges:
      return refusal(EINVAL,
                     "ibv_post_srq_ops: num_sge = %d is more than a tagged buffer takes "
                     "(%u)",
                     wr.tm.add.num_sge, srq.shared.tags->options().max_sges);
  }
  if (operation.opcode == TagOpcode::kAdd) wr.tm.handle = operation.handle;
  return 0;
}

int post_srq_ops(ibv_srq* s, ibv_ops_wr* wr, ibv_ops_wr** bad) noexcept {
  Srq& srq = object_of(s);
  int error = 0;
  if (!srq.shared.tags) {
    error = refusal(EINVAL, "ibv_post_srq_ops: the SRQ is not of type IBV_SRQT_TM");
  }
  for (; wr != nullptr; wr = wr->next) {
    // errno_of catches what is thrown when the list cannot grow.
    if (error == 0) {
      error = errno_of([&] {
        if (const int refused = post_one(srq, *wr); refused != 0) throw VerbRefused{refused};
      });
    }
    if (error == 0) continue;
    *bad = wr;
    return error;
  }
  return error;
}

}  // namespace

void offer_tag_matching_verbs(abi::Ops& ops) { ops.post_srq_ops = &post_srq_ops; }

}  // namespace verbena::provider
