// SPDX-License-Identifier: BSD-2-Clause
// Memory windows.
#include <cerrno>

#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/post.hpp"
#include "verbena/verbs/translate.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

// Local write grants nothing here, but programs pass it along with the region's flags.
constexpr unsigned kWindowAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                   IBV_ACCESS_ZERO_BASED;

ibv_mw* alloc_mw(ibv_pd* p, ibv_mw_type type) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_alloc_mw";
    Context& context = alive_context(p->context, kVerb);
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
      refuse(EINVAL, "%s: type = %d is neither 1 nor 2", kVerb, static_cast<int>(type));
    }
    Pd& pd = object_of(p);
    auto mw = std::make_unique<Mw>();
    const auto key = context.device().memory().allocate_window(pd.domain, type == IBV_MW_TYPE_2);
    if (!key) refuse(errno_of_refusal(key.error()), "%s: no key is left", kVerb);
    mw->domain = &pd;
    mw->mw.context = p->context;
    mw->mw.pd = p;
    mw->mw.rkey = *key;
    mw->mw.handle = *key;
    mw->mw.type = type;
    pd.users.add();
    return &mw.release()->mw;
  });
}

int dealloc_mw(ibv_mw* m) noexcept {
  return errno_of([&] {
    Mw& mw = object_of(m);
    const auto done = Context::of(m->context).device().memory().free_window(m->rkey);
    if (!done) {
      refuse(errno_of_refusal(done.error()), "ibv_dealloc_mw: rkey 0x%x: %s", m->rkey,
             to_string(done.error()));
    }
    mw.domain->release_user();
    bury(mw);
  });
}

void check_bind(const ibv_qp& q, const ibv_mw& m, const ibv_mw_bind_info& info) {
  if (m.type != IBV_MW_TYPE_1) {
    refuse(EINVAL, "ibv_bind_mw: a type 2 window is bound by posting IBV_WR_BIND_MW");
  }
  if ((info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) {
    refuse(EINVAL, "ibv_bind_mw: a type 1 window cannot be zero-based");
  }
  if (info.mr == nullptr && info.length != 0) refuse(EINVAL, "ibv_bind_mw: mr is NULL");
  const auto domain = object_of(m.pd).domain;
  if (object_of(q.pd).domain != domain ||
      (info.mr != nullptr && object_of(info.mr->pd).domain != domain)) {
    refuse(EPERM, "ibv_bind_mw: queue pair, window and region must have one protection domain");
  }
  if ((info.mw_access_flags & ~kWindowAccess) != 0) {
    refuse(EINVAL, "ibv_bind_mw: mw_access_flags = 0x%x has bits that windows do not know",
           info.mw_access_flags);
  }
}

// The new key of a type 1 window is known at once; its binding happens in the send queue's order.
// The device keeps one slot per window, so only the key's low byte changes.
std::uint32_t next_key(std::uint32_t key) { return (key & ~0xffu) | ((key + 1) & 0xffu); }

int bind_mw(ibv_qp* q, ibv_mw* m, ibv_mw_bind* bind) noexcept {
  return errno_of([&] {
    Qp& qp = object_of(q);
    check_given("ibv_bind_mw", "mw_bind", bind);
    part_of(qp.context, "ibv_bind_mw", "mw", m);
    const ibv_mw_bind_info& info = bind->bind_info;
    if (info.mr != nullptr) part_of(qp.context, "ibv_bind_mw", "mr", info.mr);
    check_bind(*q, *m, info);
    queue::SendRequest r;
    r.id = bind->wr_id;
    r.opcode = queue::WorkOpcode::kBindWindow;
    r.flags = static_cast<std::uint8_t>(bind->send_flags & kWorkFlags);
    fill_binding(r, *m, 0, info);
    const int error = qp.engine.post(*qp.pair, qp.posts, [&] {
      if (!qp.pair->may_post_send()) {
        return refusal(EINVAL, "ibv_bind_mw: queue pair 0x%06x is in state %s", q->qp_num,
                       qp::to_string(qp.pair->state()));
      }
      return errno_of_posted(qp, qp.pair->post_send(r), &r);
    });
    if (error != 0) throw VerbRefused{error};
    m->rkey = next_key(m->rkey);
  });
}

}  // namespace

void offer_window_verbs(abi::Ops& ops) {
  ops.alloc_mw = &alloc_mw;
  ops.dealloc_mw = &dealloc_mw;
  ops.bind_mw = &bind_mw;
}

}  // namespace verbena::provider
