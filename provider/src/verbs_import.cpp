// Handles of what another handle of the same open device has made (ibv_import_pd, ibv_import_mr).
// They name the same domain and the same key; giving one back leaves the original alone.
#include <vector>

#include "context.hpp"
#include "guard.hpp"
#include "tombstones.hpp"
#include "verbs.hpp"

namespace verbena::provider {
namespace {

ibv_pd* import_pd(ibv_context* c, std::uint32_t number) noexcept {
  return pointer_or_errno([&] {
    Context& context = Context::of(c);
    context.check_alive("ibv_import_pd");
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

// What was made upon it stays, and with it the memory of the handle until the last of it goes.
void unimport_pd(ibv_pd* p) noexcept {
  if (limbo() != nullptr) p->context = limbo();
  object_of(p).release_user();
}

ibv_mr* import_mr(ibv_pd* p, std::uint32_t number) noexcept {
  return pointer_or_errno([&] {
    Context& context = Context::of(p->context);
    context.check_alive("ibv_import_mr");
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
  object_of(m).domain->release_user();
  bury(object_of(m));
}

}  // namespace

void Pd::release_user() noexcept {
  if (users.remove() != 0 || !imported) return;
  parent->users.remove();
  bury(*this);
}

void offer_import_verbs(abi::Ops& ops) {
  ops.import_pd = &import_pd;
  ops.unimport_pd = &unimport_pd;
  ops.import_mr = &import_mr;
  ops.unimport_mr = &unimport_mr;
}

}  // namespace verbena::provider
