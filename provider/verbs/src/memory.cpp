// SPDX-License-Identifier: BSD-2-Clause
// Protection domains and memory regions.
#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/make_mr.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/translate.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

ibv_pd* alloc_pd(ibv_context* c) noexcept {
  return pointer_or_errno([&] {
    Context& context = alive_context(c, "ibv_alloc_pd");
    auto pd = std::make_unique<Pd>();
    pd->domain = context.next_domain();
    pd->pd.context = c;
    pd->pd.handle = pd->domain;
    context.exports().domains.add(pd->domain, pd.get());
    ++context.counts().pds;
    return &pd.release()->pd;
  });
}

int dealloc_pd(ibv_pd* p) noexcept {
  Pd& pd = object_of(p);
  if (const auto users = pd.users.count(); users != 0) {
    return refusal(EBUSY, "ibv_dealloc_pd: EBUSY: %u objects of this domain are left", users);
  }
  if (pd.thread != nullptr) pd.thread->users.remove();
  if (pd.parent != nullptr) {
    pd.parent->release_user();
  } else {
    Context& context = Context::of(p->context);
    context.exports().domains.remove(pd.domain);
    --context.counts().pds;
  }
  bury(pd);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* c, ibv_parent_domain_init_attr* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_alloc_parent_domain";
    Context& context = alive_context(c, kVerb);
    check_given(kVerb, "attr", attr);
    Pd& protection = part_of(context, kVerb, "attr->pd", attr->pd);
    constexpr unsigned kKnown =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if ((attr->comp_mask & ~kKnown) != 0) {
      refuse(EOPNOTSUPP, "%s: unknown bits in comp_mask 0x%x", kVerb, attr->comp_mask);
    }
    if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0 &&
        (attr->alloc == nullptr || attr->free == nullptr)) {
      refuse(EINVAL, "%s: allocators come in pairs: alloc and free", kVerb);
    }
    Td* const thread =
        attr->td != nullptr ? &part_of(context, kVerb, "attr->td", attr->td) : nullptr;
    auto pd = std::make_unique<Pd>();
    pd->parent = &protection;
    pd->parent->users.add();
    pd->thread = thread;
    if (thread != nullptr) thread->users.add();
    pd->domain = pd->parent->domain;
    pd->pd.context = c;
    pd->pd.handle = pd->domain;
    return &pd.release()->pd;
  });
}

ibv_td* alloc_td(ibv_context* c, ibv_td_init_attr* attr) noexcept {
  return pointer_or_errno([&] {
    check_given("ibv_alloc_td", "init_attr", attr);
    if (attr->comp_mask != 0) {
      refuse(EINVAL, "ibv_alloc_td: comp_mask = 0x%x, must be 0", attr->comp_mask);
    }
    auto td = std::make_unique<Td>();
    td->td.context = c;
    return &td.release()->td;
  });
}

int dealloc_td(ibv_td* t) noexcept {
  Td& td = object_of(t);
  if (const auto users = td.users.count(); users != 0) {
    return refusal(EBUSY, "ibv_dealloc_td: EBUSY: %u parent domains use it", users);
  }
  bury(td);
  return 0;
}

// Applies to on-demand regions as well, whose pages are not looked at before they are used.
void check_user_space(const char* verb, std::uint64_t address, std::uint64_t length) {
  if (address <= UserMemory::kUserSpaceEnd && length <= UserMemory::kUserSpaceEnd - address) return;
  refuse(EFAULT, "%s: address 0x%llx, length %llu: not mapped: beyond the address space", verb,
         static_cast<unsigned long long>(address), static_cast<unsigned long long>(length));
}

ibv_mr* reg_mr(ibv_pd* p, void* address, std::size_t length, std::uint64_t iova,
               int access) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_reg_mr";
    Context& context = alive_context(p->context, kVerb);
    Pd& pd = object_of(p);
    const auto rights = static_cast<unsigned>(access);
    check_access(kVerb, rights);
    memory::RegionRequest r;
    r.domain = pd.domain;
    r.host_address = reinterpret_cast<std::uintptr_t>(address);
    r.length = length;
    r.base = (rights & memory::kZeroBased) != 0 ? 0 : iova;
    r.access = rights & kKnownAccess;
    const bool whole =
        (rights & memory::kOnDemand) != 0 && address == nullptr && length == SIZE_MAX;
    if (whole) {
      if ((rights & memory::kZeroBased) != 0) {
        refuse(EINVAL, "%s: an implicit region cannot be zero-based", kVerb);
      }
      r.base = 0;
      r.length = UserMemory::kUserSpaceEnd;
    }
    if (length == 0) refuse(EINVAL, "ibv_reg_mr: length is 0");
    constexpr std::uint64_t kInPage = 4095;
    if ((rights & memory::kZeroBased) == 0 && !whole && ((r.host_address ^ iova) & kInPage) != 0) {
      refuse(EINVAL, "%s: iova 0x%llx and address 0x%llx have different offsets in their pages",
             kVerb, static_cast<unsigned long long>(iova),
             static_cast<unsigned long long>(r.host_address));
    }
    check_user_space(kVerb, r.host_address, r.length);
    ibv_mr* mr = make_mr(context, pd, register_region(context, kVerb, r), abi::kMrOrdinary, access);
    object_of(mr).host_address = r.host_address;
    object_of(mr).base = r.base;
    mr->length = length;
    return mr;
  });
}

ibv_mr* alloc_null_mr(ibv_pd* p) noexcept {
  return pointer_or_errno([&] {
    Context& context = alive_context(p->context, "ibv_alloc_null_mr");
    Pd& pd = object_of(p);
    memory::RegionRequest r;
    r.domain = pd.domain;
    r.length = ~std::uint64_t{0};
    r.access = memory::kLocalWrite;
    r.null = true;
    ibv_mr* mr =
        make_mr(context, pd, register_region(context, "ibv_alloc_null_mr", r), abi::kMrNull, 0);
    mr->addr = nullptr;
    mr->length = SIZE_MAX;
    return mr;
  });
}

int dereg_mr(abi::PrivateMr* m) noexcept {
  return errno_of([&] {
    Mr& mr = object_of(m);
    const auto done = mr.foreign ? mr.context->imports().deregister(mr.key)
                                 : mr.context->device().memory().deregister(mr.key);
    if (!done) {
      refuse(errno_of_refusal(done.error()), "ibv_dereg_mr: key 0x%x: %s", mr.key,
             to_string(done.error()));
    }
    mr.context->exports().regions.remove(mr.key);
    if (mr.is_exported) mr.context->imports().tell_importers("ibv_dereg_mr", mr.key, nullptr);
    mr.domain->release_user();
    if (mr.device_memory != nullptr) mr.device_memory->regions.remove();
    --mr.context->counts().mrs;
    bury(mr);
  });
}

int rereg_mr(abi::PrivateMr* m, int flags, ibv_pd* p, void* address, std::size_t length,
             int access) noexcept {
  return errno_of([&] {
    Mr& mr = object_of(m);
    const auto rights = static_cast<unsigned>(access);
    memory::Registry::Change change;
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
      if (mr.mr.mr.length == SIZE_MAX) {
        refuse(EINVAL, "ibv_rereg_mr: an implicit region is the whole address space");
      }
      check_user_space("ibv_rereg_mr", reinterpret_cast<std::uintptr_t>(address), length);
      change.translation = true;
      change.to.host_address = reinterpret_cast<std::uintptr_t>(address);
      change.to.length = length;
      change.to.base = reinterpret_cast<std::uintptr_t>(address);
    }
    if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
      change.domain = true;
      change.to.domain = part_of(*mr.context, "ibv_rereg_mr", "pd", p).domain;
    }
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
      check_access("ibv_rereg_mr", rights);
      change.access = true;
      change.to.access = rights & kKnownAccess;
    }
    const auto key = mr.context->device().memory().change_region(mr.key, change);
    if (!key) {
      refuse(errno_of_refusal(key.error()), "ibv_rereg_mr: key 0x%x: %s", mr.key,
             to_string(key.error()));
    }
    bool is_exported = false;
    mr.context->exports().regions.with(mr.key, [&](Mr*) {
      is_exported = mr.is_exported;
      if (change.translation) {
        mr.host_address = mr.base = change.to.host_address;
        m->mr.length = length;
      }
      if (change.domain) {
        object_of(p).users.add();
        mr.domain->release_user();
        mr.domain = &object_of(p);
      }
      if (change.access) m->access = access;
    });
    if (is_exported) mr.context->imports().tell_importers("ibv_rereg_mr", mr.key, &mr);
  });
}

int advise_mr(ibv_pd* p, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) noexcept {
  return errno_of([&] {
    if (static_cast<unsigned>(advice) > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
      refuse(EOPNOTSUPP, "ibv_advise_mr: unknown advice %d", static_cast<int>(advice));
    }
    if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) {
      refuse(EINVAL, "ibv_advise_mr: unknown flags 0x%x", flags);
    }
    if (count == 0) refuse(EINVAL, "ibv_advise_mr: num_sge is 0");
    check_given("ibv_advise_mr", "sg_list", list);
    Context& context = Context::of(p->context);
    const bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    for (std::uint32_t i = 0; i < count; ++i) {
      memory::AccessRequest r;
      r.key = list[i].lkey;
      r.domain = object_of(p).domain;
      r.address = list[i].addr;
      r.length = list[i].length;
      r.need = write ? memory::kLocalWrite : memory::kLocalRead;
      const auto pin = context.device().memory().pin(r);
      using memory::Refusal;
      if (pin && (flags == 0 || pin->bring_in(r.length, write))) continue;
      if (pin) refuse(EFAULT, "ibv_advise_mr: sg_list[%u]: %s", i, to_string(Refusal::kNotMapped));
      const int error = pin.error() == Refusal::kNoPermission    ? EPERM
                        : pin.error() == Refusal::kForeignDomain ? EPERM
                        : pin.error() == Refusal::kNoSuchKey     ? ENOENT
                                                                 : EFAULT;
      refuse(error, "ibv_advise_mr: sg_list[%u]: %s", i, to_string(pin.error()));
    }
  });
}

}  // namespace

std::uint32_t register_region(Context& context, const char* verb,
                              const memory::RegionRequest& request) {
  const auto key = context.device().memory().register_region(request);
  if (!key) {
    refuse(errno_of_refusal(key.error()), "%s: address 0x%llx, length %llu, access 0x%x: %s", verb,
           static_cast<unsigned long long>(request.host_address),
           static_cast<unsigned long long>(request.length), request.access, to_string(key.error()));
  }
  return *key;
}

void check_access(const char* verb, unsigned access) {
  if ((access & ~(kKnownAccess | kOptionalAccess)) != 0) {
    refuse(EINVAL, "%s: access has bits that mean nothing: 0x%x", verb,
           access & ~(kKnownAccess | kOptionalAccess));
  }
  if ((access & (memory::kRemoteWrite | memory::kRemoteAtomic)) != 0 &&
      (access & memory::kLocalWrite) == 0) {
    refuse(EINVAL,
           "%s: IBV_ACCESS_REMOTE_WRITE and IBV_ACCESS_REMOTE_ATOMIC need "
           "IBV_ACCESS_LOCAL_WRITE (access is 0x%x)",
           verb, access);
  }
}

ibv_mr* make_mr(Context& context, Pd& pd, std::uint32_t key, abi::MrType type, int access) try {
  auto mr = std::make_unique<Mr>();
  mr->context = &context;
  mr->domain = &pd;
  mr->key = key;
  mr->mr.type = type;
  mr->mr.access = access;
  ibv_mr& v = mr->mr.mr;
  v.context = pd.pd.context;
  v.pd = &pd.pd;
  v.handle = key;
  v.lkey = key;
  v.rkey = key;
  context.exports().regions.add(key, mr.get());
  pd.users.add();
  ++context.counts().mrs;
  return &mr.release()->mr.mr;
} catch (...) {
  // The device must not keep a region that the program knows nothing of.
  (void)context.device().memory().deregister(key);
  throw;
}

void offer_memory_verbs(abi::Ops& ops) {
  ops.alloc_pd = &alloc_pd;
  ops.dealloc_pd = &dealloc_pd;
  ops.alloc_parent_domain = &alloc_parent_domain;
  ops.alloc_td = &alloc_td;
  ops.dealloc_td = &dealloc_td;
  ops.reg_mr = &reg_mr;
  ops.dereg_mr = &dereg_mr;
  ops.rereg_mr = &rereg_mr;
  ops.alloc_null_mr = &alloc_null_mr;
  ops.advise_mr = &advise_mr;
}

}  // namespace verbena::provider
