// SPDX-License-Identifier: BSD-2-Clause
// Address handles and multicast membership.
#include <algorithm>

#include "verbena/context/address_vector.hpp"
#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

constexpr std::uint16_t kFirstMulticastLid = 0xc000;

ibv_ah* create_ah(ibv_pd* p, ibv_ah_attr* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_create_ah";
    Context& context = alive_context(p->context, kVerb);
    check_given(kVerb, "attr", attr);
    if (attr->port_num != control::kPortNumber) {
      refuse(EINVAL, "%s: port_num = %u, the device has port 1 only", kVerb, attr->port_num);
    }
    if (attr->is_global == 0 && !context.plan().infiniband) {
      refuse(EINVAL, "%s: is_global = 0: a RoCE port needs the GRH (grh.dgid)", kVerb);
    }
    if (attr->is_global != 0 && attr->grh.sgid_index >= context.device().limits().gids) {
      refuse(EINVAL, "%s: grh.sgid_index = %u: the GID table has no such entry", kVerb,
             attr->grh.sgid_index);
    }
    const qp::PathAttributes path =
        context.first().port().path_to(kVerb, *attr, Port::MayAsk::kYes);
    if (const auto wrong = qp::check_numbers("attr", path)) {
      refuse(EINVAL, "%s: %s", kVerb, wrong->c_str());
    }
    if (!path.has_local_gid) {
      refuse(EINVAL,
             "%s: grh.sgid_index = %u: that row of the port's GID table is free "
             "(`ibv_devinfo -v` shows those in use)",
             kVerb, attr->grh.sgid_index);
    }
    using Obstacle = qp::PathAttributes::Obstacle;
    if (path.obstacle == Obstacle::kOtherFamily) {
      refuse(EINVAL, "%s: grh.sgid_index = %u and grh.dgid are addresses of different IP families",
             kVerb, attr->grh.sgid_index);
    }
    if (path.obstacle == Obstacle::kLocalAddress) throw VerbRefused{EINVAL};  // explained already
    if (!path.resolved) {
      if (attr->is_global == 0) {
        refuse(EINVAL, "%s: no route: the fabric has no port with dlid = %u", kVerb, attr->dlid);
      }
      refuse(EINVAL,
             "%s: no route: grh.dgid = %s is of no port of this one's kind (InfiniBand, RoCE)",
             kVerb, path.remote_gid.to_string().c_str());
    }
    auto ah = std::make_unique<Ah>();
    ah->domain = &object_of(p);
    ah->vector.destination = path.destination;
    ah->vector.remote_gid = path.remote_gid;
    ah->vector.service_level = path.service_level;
    ah->vector.is_infiniband = context.plan().infiniband;
    ah->domain->users.add();
    ah->ah.context = p->context;
    ah->ah.pd = p;
    return &ah.release()->ah;
  });
}

int destroy_ah(ibv_ah* a) noexcept {
  Ah& ah = object_of(a);
  ah.domain->release_user();
  bury(ah);
  return 0;
}

void check_group(const char* verb, const Qp& qp, const Gid& mgid) {
  if (qp.abi.qp.qp_type != IBV_QPT_UD) {
    refuse(EINVAL, "%s: only UD queue pairs join multicast groups", verb);
  }
  if (!mgid.is_multicast() && !mgid.as_ip().is_multicast()) {
    refuse(EINVAL, "%s: %s is not a multicast GID", verb, mgid.to_string().c_str());
  }
}

bool is_member(const std::vector<Membership>& groups, const Gid& mgid) {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const Membership& m) { return m.group == mgid; });
}

int attach_mcast(ibv_qp* q, const ibv_gid* gid, std::uint16_t lid) noexcept {
  return errno_of([&] {
    Qp& qp = object_of(q);
    qp.home.check_alive("ibv_attach_mcast");
    check_given("ibv_attach_mcast", "gid", gid);
    const Gid mgid = gid_of(*gid);
    check_group("ibv_attach_mcast", qp, mgid);
    if (qp.context.plan().infiniband && lid != 0 && lid < kFirstMulticastLid) {
      refuse(EINVAL, "ibv_attach_mcast: lid = 0x%04x is not a multicast LID", lid);
    }
    const Membership wanted{mgid, lid};
    const std::lock_guard one_by_one(qp.multicast.lock);
    std::vector<Membership>& groups = qp.multicast.groups;
    if (std::find(groups.begin(), groups.end(), wanted) != groups.end()) return;
    groups.reserve(groups.size() + 1);  // what was joined is noted
    if (!is_member(groups, mgid)) qp.context.multicast().join(qp.pair->number(), mgid, lid);
    groups.push_back(wanted);
  });
}

int detach_mcast(ibv_qp* q, const ibv_gid* gid, std::uint16_t lid) noexcept {
  return errno_of([&] {
    Qp& qp = object_of(q);
    check_given("ibv_detach_mcast", "gid", gid);
    const Gid mgid = gid_of(*gid);
    const std::lock_guard one_by_one(qp.multicast.lock);
    std::vector<Membership>& groups = qp.multicast.groups;
    const auto found = std::find(groups.begin(), groups.end(), Membership{mgid, lid});
    if (found == groups.end()) {
      refuse(
          EINVAL, "ibv_detach_mcast: queue pair 0x%06x is not attached to %s%s", q->qp_num,
          mgid.to_string().c_str(),
          is_member(groups, mgid) ? " with this lid: it must be the one of ibv_attach_mcast" : "");
    }
    groups.erase(found);
    if (!is_member(groups, mgid)) qp.context.multicast().leave(qp.pair->number(), mgid, lid);
  });
}

}  // namespace

void offer_address_verbs(abi::Ops& ops) {
  ops.create_ah = &create_ah;
  ops.destroy_ah = &destroy_ah;
  ops.attach_mcast = &attach_mcast;
  ops.detach_mcast = &detach_mcast;
}

}  // namespace verbena::provider
