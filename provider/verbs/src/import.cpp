// SPDX-License-Identifier: BSD-2-Clause
// Handles of objects that another handle of the same open device has made (ibv_import_pd,
// ibv_import_mr). They name the same domain and the same key. Giving one back does not affect the
// original.
//
// Handles of another process's objects name a domain of this context and, unless it is taken, the
// same key. The key leads to the other process's bytes, which count as pages that may be missing,
// and are missing once that process has ended.
#include <vector>

#include "verbena/context/context.hpp"
#include "verbena/control/import_messages.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/make_mr.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

ibv_pd* import_foreign_pd(Context& context, ibv_context* c, std::uint32_t number) {
  context.imports().ask_owner("ibv_import_pd", control::ObjectKind::kDomain, number,
                              [](const control::ExportedObject&) {});
  auto pd = std::make_unique<Pd>();
  pd->domain = context.imports().domain_of_owner(number);
  pd->remote = number;
  pd->imported = true;
  pd->users.add();
  pd->pd.context = c;
  pd->pd.handle = number;
  return &pd.release()->pd;
}

ibv_mr* import_foreign_mr(Context& context, Pd& pd, std::uint32_t number) {
  constexpr const char* kVerb = "ibv_import_mr";
  ibv_mr* mr = nullptr;
  const auto add = [&](const control::ExportedObject& o) {
    if (o.domain != pd.remote) {
      refuse(EINVAL, "%s: region %u belongs to another protection domain", kVerb, number);
    }
    memory::RegionRequest r = context.imports().request_for(o);
    r.key = number;
    // The first page of an on-demand region may be missing.
    std::uint8_t first = 0;
    const bool is_there = (o.access & memory::kOnDemand) != 0
                              ? context.user_memory().foreign().may_be_read()
                              : context.user_memory().read(&first, r.host_address, 1);
    if (!is_there) {
      refuse(EPERM, "%s: the kernel does not let this process read the memory of region %u's owner",
             kVerb, number);
    }
    mr = make_mr(context, pd, register_region(context, kVerb, r), abi::kMrImported,
                 static_cast<int>(o.access));
    context.exports().regions.remove(object_of(mr).key);
    object_of(mr).foreign = true;
    mr->length = o.length;
    mr->handle = number;
    context.imports().add_region(number, object_of(mr).key);
  };
  context.imports().ask_owner(kVerb, control::ObjectKind::kRegion, number, add);
  return mr;
}

ibv_pd* import_pd(ibv_context* c, std::uint32_t number) noexcept {
  return pointer_or_errno([&] {
    Context& context = alive_context(c, "ibv_import_pd");
    if (context.imports().are_from_another()) return import_foreign_pd(context, c, number);
    auto pd = std::make_unique<Pd>();
    context.exports().domains.with(number, [&](Pd* original) {
      if (original == nullptr) refuse(ENOENT, "ibv_import_pd: no protection domain %u", number);
      pd->parent = original;
      original->users.add();
    });
    pd->domain = pd->parent->domain;
    pd->imported = true;
    pd->users.add();
    pd->pd.context = c;
    pd->pd.handle = number;
    return &pd.release()->pd;
  });
}

// The objects that were made upon the domain stay, and the handle's memory stays until the last of
// them goes.
void unimport_pd(ibv_pd* p) noexcept {
  if (limbo() != nullptr) p->context = limbo();
  object_of(p).release_user();
}

ibv_mr* import_mr(ibv_pd* p, std::uint32_t number) noexcept {
  return pointer_or_errno([&] {
    Context& context = alive_context(p->context, "ibv_import_mr");
    if (context.imports().are_from_another())
      return import_foreign_mr(context, object_of(p), number);
    auto mr = std::make_unique<Mr>();
    context.exports().regions.with(number, [&](Mr* original) {
      if (original == nullptr) refuse(ENOENT, "ibv_import_mr: no memory region %u", number);
      if (original->domain->domain != object_of(p).domain) {
        refuse(EINVAL, "ibv_import_mr: region %u belongs to another protection domain", number);
      }
      mr->key = original->key;
      mr->mr.mr.length = original->mr.mr.length;
    });
    mr->context = &context;
    mr->domain = &object_of(p);
    mr->mr.type = abi::kMrImported;
    ibv_mr& v = mr->mr.mr;
    v.context = p->context;
    v.pd = p;
    v.handle = number;
    v.lkey = v.rkey = mr->key;
    mr->domain->users.add();
    return &mr.release()->mr.mr;
  });
}

void unimport_mr(ibv_mr* m) noexcept {
  Mr& mr = object_of(m);
  if (mr.foreign) {
    (void)mr.context->imports().deregister(mr.key);
    --mr.context->counts().mrs;
  }
  object_of(m).domain->release_user();
  bury(object_of(m));
}

}  // namespace

void offer_import_verbs(abi::Ops& ops) {
  ops.import_pd = &import_pd;
  ops.unimport_pd = &unimport_pd;
  ops.import_mr = &import_mr;
  ops.unimport_mr = &unimport_mr;
}

}  // namespace verbena::provider
