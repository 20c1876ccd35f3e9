// SPDX-License-Identifier: BSD-2-Clause
// Device memory: a small amount of memory of the device's own, accessed by copies and keys. Here it
// is memory of the process, with the restrictions of adapters (alignment, zero-based keys).
#include <algorithm>
#include <cstring>
#include <new>

#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/make_mr.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

// The device moves whole words of its memory.
constexpr std::uint64_t kWord = 4;
constexpr std::uint32_t kMinLogAlignment = 4;
constexpr std::uint32_t kMaxLogAlignment = 12;

int check_copy(const char* verb, const Dm& dm, std::uint64_t offset, std::size_t length) {
  if (offset > dm.length || length > dm.length - offset) {
    return refusal(EINVAL, "%s: offset %llu and length %zu are beyond the %llu bytes", verb,
                   static_cast<unsigned long long>(offset), length,
                   static_cast<unsigned long long>(dm.length));
  }
  if (offset % kWord != 0 || length % kWord != 0) {
    return refusal(EINVAL, "%s: offset %llu and length %zu must be multiples of %llu", verb,
                   static_cast<unsigned long long>(offset), length,
                   static_cast<unsigned long long>(kWord));
  }
  return 0;
}

int copy_to_dm(ibv_dm* d, std::uint64_t offset, const void* from, std::size_t length) {
  Dm& dm = object_of(d);
  const int error = check_copy("ibv_memcpy_to_dm", dm, offset, length);
  if (error == 0) std::memcpy(dm.bytes() + offset, from, length);
  return error;
}

int copy_from_dm(void* to, ibv_dm* d, std::uint64_t offset, std::size_t length) {
  Dm& dm = object_of(d);
  const int error = check_copy("ibv_memcpy_from_dm", dm, offset, length);
  if (error == 0) std::memcpy(to, dm.bytes() + offset, length);
  return error;
}

std::unique_ptr<Dm> make_dm(ibv_context* c, std::shared_ptr<DeviceBytes> memory,
                            std::uint64_t length, std::uint32_t number) {
  auto dm = std::make_unique<Dm>();
  dm->memory = std::move(memory);
  dm->length = length;
  dm->dm.context = c;
  dm->dm.memcpy_to_dm = &copy_to_dm;
  dm->dm.memcpy_from_dm = &copy_from_dm;
  dm->dm.handle = number;
  return dm;
}

// The alignment is at least 16 bytes, because words may be the target of atomics.
std::shared_ptr<DeviceBytes> allocate(std::size_t length, std::uint32_t log_alignment) {
  const auto alignment =
      std::align_val_t{std::size_t{1} << std::max(log_alignment, kMinLogAlignment)};
  auto memory = std::make_shared<DeviceBytes>();
  auto* bytes = static_cast<std::byte*>(::operator new(length, alignment));
  std::memset(bytes, 0, length);
  const auto free = [alignment](std::byte* all) { ::operator delete(all, alignment); };
  memory->bytes = std::shared_ptr<std::byte[]>(bytes, free);
  return memory;
}

// Asks no other process, so it also succeeds in a forked child, where everything else is dead.
ibv_dm* alloc_dm(ibv_context* c, ibv_alloc_dm_attr* attr) noexcept {
  return pointer_or_errno([&] {
    Context& context = Context::of(c);
    check_given("ibv_alloc_dm", "attr", attr);
    if (attr->comp_mask != 0) refuse(EINVAL, "ibv_alloc_dm: comp_mask must be 0");
    if (attr->length == 0) refuse(EINVAL, "ibv_alloc_dm: length is 0");
    if (attr->length > kMaxDeviceMemory) {
      refuse(ENOMEM, "ibv_alloc_dm: length %zu is more than max_dm_size = %llu", attr->length,
             static_cast<unsigned long long>(kMaxDeviceMemory));
    }
    if (attr->log_align_req > kMaxLogAlignment) {
      refuse(EINVAL, "ibv_alloc_dm: log_align_req = %u is more than %u", attr->log_align_req,
             kMaxLogAlignment);
    }
    auto dm = make_dm(c, allocate(attr->length, attr->log_align_req), attr->length,
                      context.next_domain());
    context.exports().device_memory.add(dm->dm.handle, dm.get());
    return &dm.release()->dm;
  });
}

int free_dm(ibv_dm* d) noexcept {
  Dm& dm = object_of(d);
  if (const auto users = dm.memory->regions.count(); users != 0) {
    return refusal(EBUSY, "ibv_free_dm: EBUSY: %u memory regions use it", users);
  }
  Context::of(d->context).exports().device_memory.remove(d->handle);
  bury(dm);
  return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* p, ibv_dm* d, std::uint64_t offset, std::size_t length,
                  unsigned access) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_reg_dm_mr";
    Context& context = alive_context(p->context, kVerb);
    Dm& dm = part_of(context, kVerb, "dm", d);
    if ((access & memory::kZeroBased) == 0) {
      refuse(EINVAL, "%s: access must have IBV_ACCESS_ZERO_BASED", kVerb);
    }
    check_access(kVerb, access);
    if (offset > dm.length || length > dm.length - offset) {
      refuse(EINVAL, "%s: offset %llu + length %zu is beyond the device memory (%llu bytes)", kVerb,
             static_cast<unsigned long long>(offset), length,
             static_cast<unsigned long long>(dm.length));
    }
    memory::RegionRequest r;
    r.domain = object_of(p).domain;
    r.host_address = reinterpret_cast<std::uintptr_t>(dm.bytes() + offset);
    r.length = length;
    r.base = 0;
    r.access = access & kKnownAccess;
    r.device_memory = true;
    ibv_mr* mr = make_mr(context, object_of(p), register_region(context, kVerb, r),
                         abi::kMrOrdinary, static_cast<int>(access));
    mr->length = length;
    object_of(mr).host_address = r.host_address;
    object_of(mr).device_memory = dm.memory;
    dm.memory->regions.add();
    return mr;
  });
}

// Makes another handle of the same bytes.
ibv_dm* import_dm(ibv_context* c, std::uint32_t number) noexcept {
  return pointer_or_errno([&] {
    Context& context = alive_context(c, "ibv_import_dm");
    auto dm = context.exports().device_memory.with(number, [&](Dm* original) {
      if (original == nullptr) refuse(ENOENT, "ibv_import_dm: no device memory %u", number);
      return make_dm(c, original->memory, original->length, number);
    });
    return &dm.release()->dm;
  });
}

void unimport_dm(ibv_dm* d) noexcept { bury(object_of(d)); }

}  // namespace

void offer_device_memory_verbs(abi::Ops& ops) {
  ops.alloc_dm = &alloc_dm;
  ops.free_dm = &free_dm;
  ops.reg_dm_mr = &reg_dm_mr;
  ops.import_dm = &import_dm;
  ops.unimport_dm = &unimport_dm;
}

}  // namespace verbena::provider
