// SPDX-License-Identifier: BSD-2-Clause
// Makes and destroys queue pairs.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/objects/populate.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/translate.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

// What both verbs that create a queue pair ask for.
struct QpRequest {
  const char* verb = "";
  ibv_qp_type type = IBV_QPT_RC;
  Pd* domain = nullptr;
  Cq* send_cq = nullptr;
  Cq* receive_cq = nullptr;
  Srq* srq = nullptr;
  Xrcd* xrcd = nullptr;
  ibv_qp_cap cap{};
  bool signal_all = false;
  bool blocks_own_multicast = false;
  bool builder = false;  // for ibv_wr_*
  void* user = nullptr;
};

void check_caps(const char* verb, const ibv_qp_cap& cap) {
  const auto check = [&](const char* name, std::uint32_t value, std::uint32_t max) {
    if (value > max) {
      refuse(EINVAL, "%s: cap.%s = %u is more than the device's %u", verb, name, value, max);
    }
  };
  check("max_send_wr", cap.max_send_wr, kMaxQpWr);
  check("max_recv_wr", cap.max_recv_wr, kMaxQpWr);
  check("max_send_sge", cap.max_send_sge, kMaxSge);
  check("max_recv_sge", cap.max_recv_sge, kMaxSge);
  check("max_inline_data", cap.max_inline_data, kMaxInline);
}

Transport check_type(const char* verb, ibv_qp_type type) {
  const auto transport = transport_of(type);
  if (!transport) {
    refuse(EOPNOTSUPP, "%s: qp_type = %d%s is not offered (RC, UC, UD, XRC_SEND and XRC_RECV are)",
           verb, static_cast<int>(type),
           type == IBV_QPT_RAW_PACKET ? " (IBV_QPT_RAW_PACKET)"
           : type == IBV_QPT_DRIVER   ? " (IBV_QPT_DRIVER: a vendor's own, as DC or SRD)"
                                      : "");
  }
  return *transport;
}

// Checks which parts a queue pair of this type must and must not have.
void check_parts(const QpRequest& r, Transport transport) {
  const bool xrc_receive = transport == Transport::kXrcReceive;
  if (xrc_receive && r.xrcd == nullptr) {
    refuse(EINVAL, "%s: an XRC_RECV queue pair needs an xrcd", r.verb);
  }
  if (!xrc_receive && r.domain == nullptr) refuse(EINVAL, "%s: pd is NULL", r.verb);
  if (!xrc_receive && r.send_cq == nullptr) refuse(EINVAL, "%s: send_cq is NULL", r.verb);
  const bool receives = !xrc_receive && transport != Transport::kXrcSend;
  if (receives && r.receive_cq == nullptr) refuse(EINVAL, "%s: recv_cq is NULL", r.verb);
  if (r.srq != nullptr && r.srq->type == IBV_SRQT_XRC) {
    refuse(EINVAL, "%s: an XRC SRQ belongs to no queue pair; senders name it", r.verb);
  }
  if (r.srq != nullptr && r.srq->type == IBV_SRQT_TM && transport != Transport::kRc) {
    refuse(EINVAL, "%s: only RC queue pairs take a tag-matching SRQ", r.verb);
  }
  if (!receives && r.srq != nullptr) {
    refuse(EINVAL, "%s: an XRC queue pair takes no SRQ; senders name one in each request", r.verb);
  }
}

void fill_public(Qp& qp, const QpRequest& r) {
  ibv_qp& v = qp.abi.qp;
  v.context = qp.context.public_context();
  v.qp_context = r.user;
  v.pd = r.domain != nullptr ? &r.domain->pd : nullptr;
  v.send_cq = r.send_cq != nullptr ? &r.send_cq->abi.cq : nullptr;
  v.recv_cq = r.receive_cq != nullptr ? &r.receive_cq->abi.cq : nullptr;
  v.srq = r.srq != nullptr ? &r.srq->abi.srq : nullptr;
  v.qp_num = qp.pair->number().value();
  v.handle = v.qp_num;
  v.state = IBV_QPS_RESET;
  v.qp_type = r.type;
  v.events_completed = 0;
  ::pthread_mutex_init(&v.mutex, nullptr);
  ::pthread_cond_init(&v.cond, nullptr);
}

void offer_builder(Qp& qp) {
  const std::size_t flags = qp.context.library().qp_flags_offset();
  std::memcpy(qp.abi.room + flags, &abi::kQpHasBuilder, sizeof abi::kQpHasBuilder);
  install_builder(qp, {flags > abi::kWrAtomicWriteOffset, flags > abi::kWrFlushOffset});
}

// Counts the queue pairs of this process on all its devices. Faults that a seed repeats tell queue
// pairs apart by this count.
std::atomic<std::uint32_t> queue_pairs_created{0};

qp::QueuePair* make_pair_of(Qp& qp, const QpRequest& r, Transport transport) {
  qp::QueuePairOptions o;
  o.created = queue_pairs_created.fetch_add(1, std::memory_order_relaxed) + 1;
  o.transport = transport;
  if (r.domain != nullptr) o.domain = r.domain->domain;
  if (r.send_cq != nullptr) o.send_cq = &r.send_cq->queue;
  if (r.receive_cq != nullptr) o.receive_cq = &r.receive_cq->queue;
  if (r.srq != nullptr) o.shared = &r.srq->shared;
  if (r.xrcd != nullptr) o.xrc_domain = r.xrcd->number;
  o.shares_domain = transport == Transport::kXrcReceive && r.xrcd->inode != 0;
  o.send.capacity = qp.caps.max_send_wr;
  o.send.max_sges = r.cap.max_send_sge;
  o.send.max_inline = qp.caps.max_inline_data;
  o.receive_capacity = r.cap.max_recv_wr;
  o.receive_max_sges = r.cap.max_recv_sge;
  o.signal_all = r.signal_all;
  o.blocks_own_multicast = r.blocks_own_multicast;
  o.cookie = &qp;
  device::Device& device = qp.engine.device();
  qp::QueuePair* pair = device.create_qp(o);
  if (pair != nullptr) return pair;
  const std::string reason = qp.home.add_slot();
  if (reason.empty()) pair = device.create_qp(o);
  if (pair == nullptr) {
    refuse(ENOMEM, "%s: all queue pair numbers of this context are taken; %s", r.verb,
           reason.c_str());
  }
  return pair;
}

void remove_user(Pd& domain) { domain.release_user(); }
template <typename Part>
void remove_user(Part& part) {
  part.users.remove();
}

void count_parts(Qp& qp, bool more) {
  const auto count = [more](auto* part) {
    if (part == nullptr) return;
    if (more) {
      part->users.add();
    } else {
      remove_user(*part);
    }
  };
  count(qp.domain);
  count(qp.send_cq);
  count(qp.receive_cq);
  count(qp.srq);
}

// Gets the memory for the next queue pairs in one piece, for a program that makes many. The C
// library grows a thread's heap page by page, with two calls and a fault for each page, which is a
// sixth of a server's work for a connection.
void get_memory_ahead() noexcept {
  constexpr std::size_t kAhead = 64 * 1024;
  constexpr std::uintptr_t kPage = 4096;
  void* const block = std::malloc(kAhead);
  const auto begin = (reinterpret_cast<std::uintptr_t>(block) + kPage - 1) / kPage * kPage;
  if (block != nullptr) {
    (void)::madvise(reinterpret_cast<void*>(begin), kAhead - kPage, kPopulateWrite);
  }
  std::free(block);  // the heap keeps a block of this size
}
constexpr std::uint32_t kQpsOfAPiece = 16;

// Queue pairs that share objects with others belong to the first engine.
bool may_be_further(const QpRequest& r, Transport transport) {
  return (transport == Transport::kRc || transport == Transport::kUc) && r.srq == nullptr;
}

// Throws VerbRefused.
Qp* make_qp(Context& context, const QpRequest& asked) {
  QpRequest request = asked;
  context.check_alive(request.verb);
  const Transport transport = check_type(request.verb, request.type);
  check_caps(request.verb, request.cap);
  check_parts(request, transport);
  const bool is_receiver = transport == Transport::kXrcReceive;
  if (is_receiver) {
    // The queue pair outlives what its first handle was made with, and uses none of it.
    request.domain = nullptr;
    request.send_cq = request.receive_cq = nullptr;
  }
  AttachedEngine& home = context.engines().choose(request.send_cq, request.receive_cq,
                                                  may_be_further(request, transport));
  auto qp = std::make_unique<Qp>(context, home, home.engine());
  qp->domain = request.domain;
  qp->send_cq = request.send_cq;
  qp->receive_cq = request.receive_cq;
  qp->srq = request.srq;
  qp->caps = request.cap;
  qp->caps.max_inline_data = std::max(request.cap.max_inline_data, kMinInline);
  if (request.cap.max_send_wr != 0) {
    qp->caps.max_send_wr = std::max(request.cap.max_send_wr, kMinSendWr);
  }
  if (request.cap.max_recv_wr != 0) {
    qp->caps.max_recv_sge = std::max(request.cap.max_recv_sge, kMinRecvSge);
  }
  if (request.srq != nullptr) qp->caps.max_recv_wr = qp->caps.max_recv_sge = 0;
  qp->signal_all = request.signal_all;
  if (transport == Transport::kUd) qp->engine.want_header_fields();
  qp->pair = make_pair_of(*qp, request, transport);
  fill_public(*qp, request);
  if (request.builder) offer_builder(*qp);
  count_parts(*qp, true);
  if (++qp->home.counts().qps % kQpsOfAPiece == kQpsOfAPiece / 2) get_memory_ahead();
  if (!is_receiver) return qp.release();
  Qp* handle = context.receivers().adopt(std::move(qp), *request.xrcd, request.user);
  // Shows them as they were given: librdmacm takes an ID's protection domain from there.
  ibv_qp& shown = handle->abi.qp;
  if (asked.domain != nullptr) shown.pd = &asked.domain->pd;
  if (asked.send_cq != nullptr) shown.send_cq = &asked.send_cq->abi.cq;
  if (asked.receive_cq != nullptr) shown.recv_cq = &asked.receive_cq->abi.cq;
  return handle;
}

// Reads the attributes that both verbs have in common.
template <typename Attributes>
QpRequest request_of(Context& context, const char* verb, const Attributes& attr) {
  QpRequest r;
  r.verb = verb;
  r.type = attr.qp_type;
  if (attr.send_cq != nullptr) r.send_cq = &part_of(context, verb, "send_cq", attr.send_cq);
  if (attr.recv_cq != nullptr) r.receive_cq = &part_of(context, verb, "recv_cq", attr.recv_cq);
  if (attr.srq != nullptr) r.srq = &part_of(context, verb, "srq", attr.srq);
  r.cap = attr.cap;
  r.signal_all = attr.sq_sig_all != 0;
  r.user = attr.qp_context;
  return r;
}

ibv_qp* create_qp(ibv_pd* p, ibv_qp_init_attr* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_create_qp";
    check_given(kVerb, "qp_init_attr", attr);
    Context& context = Context::of(p->context);
    QpRequest r = request_of(context, kVerb, *attr);
    r.domain = &object_of(p);
    Qp* qp = make_qp(context, r);
    attr->cap = qp->caps;
    return &qp->abi.qp;
  });
}

constexpr std::uint64_t kKnownSendOps =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
    IBV_QP_EX_WITH_SEND_WITH_INV;
constexpr std::uint64_t kSendOpFlush = 1u << 11;
constexpr std::uint64_t kSendOpAtomicWrite = 1u << 12;

std::uint64_t send_ops_of(const Context& context, ibv_qp_type type) {
  constexpr std::uint64_t kOfUd = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  if (type == IBV_QPT_UD) return kOfUd;
  if (type == IBV_QPT_UC) {
    return kOfUd | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
           IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  }
  std::uint64_t all = kKnownSendOps;
  const std::size_t flags = context.library().qp_flags_offset();
  if (flags > abi::kWrAtomicWriteOffset) all |= kSendOpAtomicWrite;
  if (flags > abi::kWrFlushOffset) all |= kSendOpFlush;
  return all;
}

bool wants_builder(const Context& context, const ibv_qp_init_attr_ex& attr) {
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0) return false;
  const std::uint64_t others = attr.send_ops_flags & ~send_ops_of(context, attr.qp_type);
  if (others != 0) {
    refuse(EOPNOTSUPP,
           "ibv_create_qp_ex: send_ops_flags asks for operations that are not offered, or not for "
           "this qp_type: 0x%llx",
           static_cast<unsigned long long>(others));
  }
  return true;
}

// Checks the flags: only one is offered.
bool blocks_own_multicast(const char* verb, const ibv_qp_init_attr_ex& attr) {
  constexpr std::uint32_t kBlock = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  if ((attr.create_flags & ~kBlock) != 0) {
    refuse(EOPNOTSUPP, "%s: create_flags = 0x%x: only IBV_QP_CREATE_BLOCK_SELF_MCAST_LB is offered",
           verb, attr.create_flags);
  }
  if (attr.create_flags != 0 && attr.qp_type != IBV_QPT_UD) {
    refuse(EINVAL, "%s: IBV_QP_CREATE_BLOCK_SELF_MCAST_LB is for UD queue pairs", verb);
  }
  return attr.create_flags != 0;
}

ibv_qp* create_qp_ex(ibv_context* c, ibv_qp_init_attr_ex* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr std::uint32_t kKnownMask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                         IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                         IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    constexpr const char* kVerb = "ibv_create_qp_ex";
    if ((attr->comp_mask & ~kKnownMask) != 0) {
      refuse(EOPNOTSUPP, "%s: comp_mask has bits that are not offered: 0x%x", kVerb,
             attr->comp_mask & ~kKnownMask);
    }
    Context& context = Context::of(c);
    QpRequest r = request_of(context, kVerb, *attr);
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0) {
      r.blocks_own_multicast = blocks_own_multicast(kVerb, *attr);
    }
    const bool has_pd = (attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && attr->pd != nullptr;
    if (has_pd) r.domain = &part_of(context, kVerb, "pd", attr->pd);
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && attr->xrcd != nullptr) {
      r.xrcd = &part_of(context, kVerb, "xrcd", attr->xrcd);
    }
    r.builder = wants_builder(context, *attr);
    Qp* qp = make_qp(context, r);
    attr->cap = qp->caps;
    return &qp->abi.qp;
  });
}

int destroy_qp(ibv_qp* q) noexcept {
  Qp& qp = object_of(q);
  if (q->qp_type == IBV_QPT_XRC_RECV) return errno_of([&] { qp.context.receivers().close(qp); });
  if (!qp.multicast.groups.empty()) {
    return refusal(EBUSY,
                   "ibv_destroy_qp: EBUSY: queue pair 0x%06x is still attached to %zu "
                   "multicast groups",
                   q->qp_num, qp.multicast.groups.size());
  }
  // The peer must learn that its message was received, or it would wait and fail.
  qp.engine.catch_up();
  qp.engine.device().destroy_qp(qp.pair);
  qp.pair = nullptr;
  qp.home.on_destroyed(Qpn(q->qp_num));
  qp.context.events().end_of("ibv_destroy_qp", *q, q->qp_num, q->events_completed, qp.async_events);
  count_parts(qp, false);
  --qp.home.counts().qps;
  bury(qp);
  return 0;
}

}  // namespace

void offer_queue_pair_verbs(abi::Ops& ops) {
  ops.create_qp = &create_qp;
  ops.create_qp_ex = &create_qp_ex;
  ops.destroy_qp = &destroy_qp;
}

}  // namespace verbena::provider
