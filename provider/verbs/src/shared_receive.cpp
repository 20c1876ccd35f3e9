// SPDX-License-Identifier: BSD-2-Clause
// Shared receive queues.
#include <algorithm>
#include <cerrno>

#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/post.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

void check_size(const char* verb, const ibv_srq_attr& attr) {
  if (attr.max_wr < 1 || attr.max_wr > kMaxSrqWr) {
    refuse(EINVAL, "%s: max_wr = %u is not in 1 .. max_srq_wr = %u", verb, attr.max_wr, kMaxSrqWr);
  }
  if (attr.max_sge > kMaxSge) {
    refuse(EINVAL, "%s: max_sge = %u is more than max_srq_sge = %u", verb, attr.max_sge, kMaxSge);
  }
}

std::unique_ptr<Srq> make_srq(Context& context, const char* verb, Pd& pd, ibv_srq_attr& attr) {
  context.check_alive(verb);
  check_size(verb, attr);
  if (attr.max_sge == 0) attr.max_sge = 1;
  queue::ReceiveQueue::Options options;
  options.capacity = attr.max_wr;
  options.max_sges = attr.max_sge;
  options.shared = true;
  auto srq = std::make_unique<Srq>(options, context, context.first().engine());
  srq->domain = &pd;
  srq->shared.domain = pd.domain;
  return srq;
}

// Fills in what the program sees of an SRQ whose parts are there, and counts those parts as used.
void fill_public(Srq& srq, ibv_context* c, void* user, ibv_pd* p) {
  ibv_srq& v = srq.abi.srq;
  v.context = c;
  v.srq_context = user;
  v.pd = p;
  Context& context = srq.context;
  v.handle = srq.xrcd != nullptr ? srq.shared.number : context.next_srq_number();
  v.events_completed = 0;
  ::pthread_mutex_init(&v.mutex, nullptr);
  ::pthread_cond_init(&v.cond, nullptr);
  context.exports().shared_receives.add(v.handle, &srq);
  srq.domain->users.add();
  if (srq.cq != nullptr) srq.cq->users.add();
  if (srq.xrcd != nullptr) srq.xrcd->users.add();
  ++context.counts().srqs;
}

ibv_srq* create_srq(ibv_pd* p, ibv_srq_init_attr* attr) noexcept {
  return pointer_or_errno([&] {
    check_given("ibv_create_srq", "srq_init_attr", attr);
    auto srq = make_srq(Context::of(p->context), "ibv_create_srq", object_of(p), attr->attr);
    fill_public(*srq, p->context, attr->srq_context, p);
    return &srq.release()->abi.srq;
  });
}

struct SrqParts {
  ibv_srq_type type = IBV_SRQT_BASIC;
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
  queue::TagMatching::Options tags;
};

queue::TagMatching::Options tag_options_of(const ibv_srq_init_attr_ex& attr) {
  constexpr const char* kVerb = "ibv_create_srq_ex";
  constexpr unsigned kNeeded = IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  if ((attr.comp_mask & kNeeded) != kNeeded) {
    refuse(EINVAL, "%s: a tag-matching SRQ needs a cq and tm_cap", kVerb);
  }
  const std::uint32_t tags = attr.tm_cap.max_num_tags;
  if (tags == 0 || tags > kMaxTags) {
    refuse(EINVAL, "%s: tm_cap.max_num_tags = %u is not in 1 .. %u", kVerb, tags, kMaxTags);
  }
  if (attr.tm_cap.max_ops == 0 || attr.tm_cap.max_ops > kMaxTagOperations) {
    refuse(EINVAL, "%s: tm_cap.max_ops = %u is not in 1 .. %u", kVerb, attr.tm_cap.max_ops,
           kMaxTagOperations);
  }
  return {tags, std::max(attr.attr.max_sge, 1u)};
}

SrqParts parts_of(Context& context, const ibv_srq_init_attr_ex& attr) {
  constexpr const char* kVerb = "ibv_create_srq_ex";
  SrqParts parts;
  if (attr.comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED) {
    refuse(EINVAL, "%s: unknown bits in comp_mask 0x%x", kVerb, attr.comp_mask);
  }
  const auto has = [&](unsigned bit) { return (attr.comp_mask & bit) != 0; };
  if (has(IBV_SRQ_INIT_ATTR_TYPE)) parts.type = attr.srq_type;
  if (!has(IBV_SRQ_INIT_ATTR_PD)) refuse(EINVAL, "%s: comp_mask lacks a pd", kVerb);
  part_of(context, kVerb, "pd", attr.pd);
  if (parts.type == IBV_SRQT_BASIC) return parts;
  if (parts.type == IBV_SRQT_TM) {
    parts.tags = tag_options_of(attr);
    parts.cq = &part_of(context, kVerb, "cq", attr.cq);
    return parts;
  }
  if (parts.type != IBV_SRQT_XRC) {
    refuse(EOPNOTSUPP, "%s: srq_type = %d is not offered", kVerb, static_cast<int>(parts.type));
  }
  if (!has(IBV_SRQ_INIT_ATTR_XRCD)) refuse(EINVAL, "%s: an XRC SRQ needs an xrcd", kVerb);
  if (!has(IBV_SRQ_INIT_ATTR_CQ)) refuse(EINVAL, "%s: an XRC SRQ needs a cq", kVerb);
  parts.xrcd = &part_of(context, kVerb, "xrcd", attr.xrcd);
  parts.cq = &part_of(context, kVerb, "cq", attr.cq);
  return parts;
}

// Gives back what the SRQ has used.
void give_back(Srq& srq) {
  srq.shared.leave_completions();
  if (srq.cq != nullptr) srq.cq->users.remove();
  srq.domain->release_user();
  --srq.context.counts().srqs;
}

void add_to_domain(Srq& srq, Xrcd& domain) {
  srq.shared.xrc_domain = domain.number;
  device::Device& device = srq.context.device();
  bool is_added = device.add_shared(srq.shared);
  const std::string reason = is_added ? "" : srq.context.first().add_slot();
  if (!is_added && reason.empty()) is_added = device.add_shared(srq.shared);
  if (!is_added) {
    refuse(ENOMEM, "ibv_create_srq_ex: all XRC SRQ numbers of this context are taken; %s",
           reason.c_str());
  }
  srq.xrcd = &domain;
}

ibv_srq* create_srq_ex(ibv_context* c, ibv_srq_init_attr_ex* attr) noexcept {
  return pointer_or_errno([&] {
    Context& context = Context::of(c);
    const SrqParts parts = parts_of(context, *attr);
    auto srq = make_srq(context, "ibv_create_srq_ex", object_of(attr->pd), attr->attr);
    srq->type = parts.type;
    if (parts.type == IBV_SRQT_TM) {
      srq->shared.tags = std::make_unique<queue::TagMatching>(parts.tags, parts.cq->queue);
    }
    if (parts.cq != nullptr) {
      srq->shared.complete_to(parts.cq->queue);
      srq->cq = parts.cq;
      context.engines().choose(nullptr, parts.cq, false);
    }
    if (parts.xrcd != nullptr) add_to_domain(*srq, *parts.xrcd);
    try {
      fill_public(*srq, c, attr->srq_context, attr->pd);
    } catch (...) {
      if (parts.xrcd != nullptr) context.device().remove_shared(srq->shared);
      throw;
    }
    return &srq.release()->abi.srq;
  });
}

int modify_srq(ibv_srq* s, ibv_srq_attr* attr, int mask) noexcept {
  return errno_of([&] {
    Srq& srq = object_of(s);
    check_given("ibv_modify_srq", "srq_attr", attr);
    if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) {
      refuse(EINVAL, "ibv_modify_srq: unknown bits in srq_attr_mask 0x%x",
             static_cast<unsigned>(mask));
    }
    const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
    const std::uint32_t capacity = resizes ? attr->max_wr : srq.shared.queue.capacity();
    if (resizes && (attr->max_wr < 1 || attr->max_wr > kMaxSrqWr)) {
      refuse(EINVAL, "ibv_modify_srq: max_wr = %u is not in 1 .. max_srq_wr = %u", attr->max_wr,
             kMaxSrqWr);
    }
    const std::uint32_t limit =
        (mask & IBV_SRQ_LIMIT) != 0 ? attr->srq_limit : srq.shared.queue.limit();
    if (limit > capacity) {
      refuse(EINVAL, "ibv_modify_srq: srq_limit = %u is more than max_wr = %u", limit, capacity);
    }
    if (resizes && !srq.shared.queue.resize(attr->max_wr)) {
      refuse(EINVAL, "ibv_modify_srq: more receives are posted than max_wr = %u", attr->max_wr);
    }
    if ((mask & IBV_SRQ_LIMIT) != 0 && !srq.shared.queue.set_limit(attr->srq_limit)) {
      refuse(EINVAL, "ibv_modify_srq: srq_limit = %u is more than the queue holds",
             attr->srq_limit);
    }
  });
}

int query_srq(ibv_srq* s, ibv_srq_attr* attr) noexcept {
  if (attr == nullptr) return refusal(EINVAL, "ibv_query_srq: srq_attr is NULL");
  const queue::ReceiveQueue& q = object_of(s).shared.queue;
  attr->max_wr = q.capacity();
  attr->max_sge = q.max_sges();
  attr->srq_limit = q.limit();
  return 0;
}

int get_srq_num(ibv_srq* s, std::uint32_t* number) noexcept {
  const Srq& srq = object_of(s);
  if (srq.type != IBV_SRQT_XRC) {
    return refusal(EOPNOTSUPP, "ibv_get_srq_num: only XRC SRQs have a number");
  }
  if (number == nullptr) return refusal(EINVAL, "ibv_get_srq_num: srq_num is NULL");
  *number = srq.shared.number;
  return 0;
}

int destroy_srq(ibv_srq* s) noexcept {
  Srq& srq = object_of(s);
  if (const auto users = srq.users.count(); users != 0) {
    return refusal(EBUSY, "ibv_destroy_srq: EBUSY: %u queue pairs use it", users);
  }
  srq.context.exports().shared_receives.remove(s->handle);
  if (srq.xrcd != nullptr) {
    srq.context.device().remove_shared(srq.shared);
    srq.xrcd->users.remove();
  }
  srq.context.events().end_of("ibv_destroy_srq", *s, s->handle, s->events_completed,
                              srq.async_events);
  give_back(srq);
  bury(srq);
  return 0;
}

int post_srq_recv(ibv_srq* s, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  Srq& srq = object_of(s);
  for (; wr != nullptr; wr = wr->next) {
    ReceiveRequest request;
    int error = request.take("ibv_post_srq_recv", *wr);
    if (error == 0) {
      queue::ReceiveQueue& queue = srq.shared.queue;
      const auto posted = queue.post(request.value);
      if (posted == queue::ReceiveQueue::Posted::kOk) continue;
      error = errno_of_receive("ibv_post_srq_recv", posted, wr->num_sge,
                               {"max_wr", queue.capacity(), "max_sge", queue.max_sges()});
    }
    *bad = wr;
    return error;
  }
  return 0;
}

}  // namespace

void offer_shared_receive_verbs(abi::Ops& ops) {
  ops.create_srq = &create_srq;
  ops.create_srq_ex = &create_srq_ex;
  ops.modify_srq = &modify_srq;
  ops.query_srq = &query_srq;
  ops.get_srq_num = &get_srq_num;
  ops.destroy_srq = &destroy_srq;
  ops.post_srq_recv = &post_srq_recv;
}

}  // namespace verbena::provider
