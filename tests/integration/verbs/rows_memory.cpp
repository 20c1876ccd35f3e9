// SPDX-License-Identifier: BSD-2-Clause
// Domains, regions, windows, device memory, and queries of the device.
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "refusals.hpp"

namespace refusals {
namespace {

constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;

int parent(Case& c, ibv_parent_domain_init_attr a) {
  return made(ibv_alloc_parent_domain(c.w.context, &a));
}

int xrcd(Case& c, std::uint32_t mask, int fd, int oflags) {
  ibv_xrcd_init_attr a{};
  a.comp_mask = mask;
  a.fd = fd;
  a.oflags = oflags;
  return made(ibv_open_xrcd(c.w.context, &a));
}
constexpr std::uint32_t kXrcdBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

int reg(Case& c, void* at, std::size_t length, int access) {
  return made(ibv_reg_mr(c.w.pd, at, length, access));
}

// Returns the errno behind ibv_rereg_mr's own codes.
int rereg(Case& c, int flags, ibv_pd* pd, void* at, std::size_t length, int access) {
  const int code = ibv_rereg_mr(c.w.mr, flags, pd, at, length, access);
  if (code == 0) return 0;
  return code == IBV_REREG_MR_ERR_INPUT || code == IBV_REREG_MR_ERR_CMD ? errno : -1;
}

void* read_only() {
  static void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page;
}
void* hole() {
  static void* const page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page;
}

int advise(Case& c, int advice, std::uint32_t flags, std::uint32_t key, std::uint64_t at,
           std::uint32_t length, std::uint32_t count = 1) {
  ibv_sge sge{at, length, key};
  return ibv_advise_mr(c.w.pd, static_cast<ibv_advise_mr_advice>(advice), flags, &sge, count);
}
std::uint64_t start(Case& c) { return reinterpret_cast<std::uintptr_t>(c.w.bytes.data()); }

int device_memory(Case& c, std::size_t length, std::uint32_t alignment, std::uint32_t mask) {
  ibv_alloc_dm_attr a{};
  a.length = length;
  a.log_align_req = alignment;
  a.comp_mask = mask;
  return made(ibv_alloc_dm(c.w.context, &a));
}

int bind(Case& c, ibv_qp* qp, ibv_mw* mw, ibv_mr* mr, unsigned access) {
  ibv_mw_bind b{};
  b.bind_info.mr = mr;
  b.bind_info.addr = start(c);
  b.bind_info.length = 64;
  b.bind_info.mw_access_flags = access;
  return ibv_bind_mw(qp, mw, &b);
}

int port(Case& c, std::uint8_t number) {
  ibv_port_attr a;
  return ibv_query_port(c.w.context, number, &a);
}

}  // namespace

std::vector<Row> domain_rows() {
  return {
      {"ibv_query_port", "port 0", EINVAL, "port_num = 0", [](Case& c) { return port(c, 0); }}
      // namespace refusals
      ,
      {"ibv_query_port", "port 2", EINVAL, "port_num = 2", [](Case& c) { return port(c, 2); }},
      {"ibv_query_port", "port 255", EINVAL, "port_num = 255",
       [](Case& c) { return port(c, 255); }},
      {"ibv_query_device", "device_attr NULL", EINVAL, "attr is NULL",
       [](Case& c) { return ibv_query_device(c.w.context, nullptr); }},
      {"ibv_query_device_ex", "unknown comp_mask", EINVAL, nullptr,
       [](Case& c) {
         ibv_query_device_ex_input input{1};
         ibv_device_attr_ex a;
         return ibv_query_device_ex(c.w.context, &input, &a);
       }},
      {"ibv_query_rt_values_ex", "values NULL", EINVAL, "values is NULL",
       [](Case& c) { return ibv_query_rt_values_ex(c.w.context, nullptr); }},
      {"ibv_dealloc_pd", "in use", EBUSY, "objects of this domain",
       [](Case& c) { return ibv_dealloc_pd(c.w.pd); }},
      {"ibv_import_pd", "no such number", ENOENT, "no protection domain",
       [](Case& c) { return made(ibv_import_pd(c.w.context, 0xabcdef)); }},
      {"ibv_import_pd", "of a destroyed one", ENOENT, "no protection domain",
       [](Case& c) { return made(ibv_import_pd(c.w.context, c.dead.pd_number)); }},
      {"ibv_alloc_parent_domain", "attr NULL", EINVAL, "attr is NULL",
       [](Case& c) { return made(ibv_alloc_parent_domain(c.w.context, nullptr)); }},
      {"ibv_alloc_parent_domain", "pd NULL", EINVAL, "attr->pd is NULL",
       [](Case& c) { return parent(c, {}); }},
      {"ibv_alloc_parent_domain", "foreign pd", EINVAL, "attr->pd belongs to another",
       [](Case& c) {
         return parent(c, {c.foreign.pd, nullptr, 0, nullptr, nullptr, nullptr});
       }},
      {"ibv_alloc_parent_domain", "destroyed pd", EINVAL, "attr->pd was destroyed",
       [](Case& c) {
         return parent(c, {c.dead.pd, nullptr, 0, nullptr, nullptr, nullptr});
       }},
      {"ibv_alloc_parent_domain", "foreign td", EINVAL, "attr->td belongs to another",
       [](Case& c) {
         return parent(c, {c.w.pd, c.foreign.td, 0, nullptr, nullptr, nullptr});
       }},
      {"ibv_alloc_parent_domain", "destroyed td", EINVAL, "attr->td was destroyed",
       [](Case& c) {
         return parent(c, {c.w.pd, c.dead.td, 0, nullptr, nullptr, nullptr});
       }},
      {"ibv_alloc_parent_domain", "unknown comp_mask", EOPNOTSUPP, "unknown bits in comp_mask",
       [](Case& c) {
         return parent(c, {c.w.pd, nullptr, 1u << 30, nullptr, nullptr, nullptr});
       }},
      {"ibv_alloc_parent_domain", "half the allocators", EINVAL, "come in pairs",
       [](Case& c) {
         return parent(c, {c.w.pd, nullptr, 1, nullptr, nullptr, nullptr});
       }},
      {"ibv_alloc_td", "attr NULL", EINVAL, "init_attr is NULL",
       [](Case& c) { return made(ibv_alloc_td(c.w.context, nullptr)); }},
      {"ibv_alloc_td", "unknown comp_mask", EINVAL, "comp_mask = 0x1",
       [](Case& c) {
         ibv_td_init_attr a{1};
         return made(ibv_alloc_td(c.w.context, &a));
       }},
      {"ibv_dealloc_td", "in use", EBUSY, "parent domains use it",
       [](Case& c) {
         ibv_parent_domain_init_attr a{};
         a.pd = c.w.pd;
         a.td = c.w.td;
         ibv_pd* both = ibv_alloc_parent_domain(c.w.context, &a);
         const int error = ibv_dealloc_td(c.w.td);
         NEED(both != nullptr && ibv_dealloc_pd(both) == 0);
         return error;
       }},
      {"ibv_open_xrcd", "attr NULL", EINVAL, "xrcd_init_attr is NULL",
       [](Case& c) { return made(ibv_open_xrcd(c.w.context, nullptr)); }},
      {"ibv_open_xrcd", "comp_mask 0", EINVAL, "comp_mask must have",
       [](Case& c) { return xrcd(c, 0, -1, O_CREAT); }},
      {"ibv_open_xrcd", "unknown comp_mask", EINVAL, "comp_mask must have",
       [](Case& c) { return xrcd(c, kXrcdBoth | 4, -1, O_CREAT); }},
      {"ibv_open_xrcd", "fd that is not open", EBADF, "fd = 999999 is no open file",
       [](Case& c) { return xrcd(c, kXrcdBoth, 999999, O_CREAT); }},
      {"ibv_open_xrcd", "unknown oflags", EINVAL, "oflags may have",
       [](Case& c) { return xrcd(c, kXrcdBoth, -1, O_CREAT | O_APPEND); }},
      {"ibv_open_xrcd", "unknown name, without O_CREAT", EAGAIN, "lacks O_CREAT",
       [](Case& c) { return xrcd(c, kXrcdBoth, 0, 0); }},
      {"ibv_close_xrcd", "in use", EBUSY, "SRQs or queue pairs use it",
       [](Case& c) { return ibv_close_xrcd(c.w.xrcd); }},
  };
}

std::vector<Row> memory_rows() {
  return {
      {"ibv_reg_mr", "length 0", EINVAL, "length is 0",
       [](Case& c) { return reg(c, c.w.bytes.data(), 0, kLocal); }},
      {"ibv_reg_mr", "addr NULL", EFAULT, "not mapped",
       [](Case& c) { return reg(c, nullptr, 64, kLocal); }},
      {"ibv_reg_mr", "unmapped", EFAULT, "not mapped",
       [](Case& c) { return reg(c, hole(), 64, kLocal); }},
      {"ibv_reg_mr", "read-only memory, written", EFAULT, "not mapped",
       [](Case& c) { return reg(c, read_only(), 64, kLocal); }},
      {"ibv_reg_mr", "beyond the mapping", EFAULT, "not mapped",
       [](Case& c) { return reg(c, c.w.bytes.data(), std::size_t{1} << 40, kLocal); }},
      {"ibv_reg_mr", "beyond the address space", EFAULT, "beyond the address space",
       [](Case& c) { return reg(c, c.w.bytes.data(), SIZE_MAX - 4096, kLocal); }},
      {"ibv_reg_mr", "on demand, beyond the address space", EFAULT, "beyond the address space",
       [](Case& c) {
         void* const high = reinterpret_cast<void*>(std::uintptr_t{1} << 63);
         return reg(c, high, 64, kLocal | IBV_ACCESS_ON_DEMAND);
       }},
      {"ibv_reg_mr_iova", "another offset in the page", EINVAL, "different offsets",
       [](Case& c) {
         const std::uint64_t at = start(c) + 64;
         return made(ibv_reg_mr_iova(c.w.pd, reinterpret_cast<void*>(at), 64, at + 100, kLocal));
       }},
      {"ibv_reg_mr", "remote write without local", EINVAL, "need IBV_ACCESS_LOCAL_WRITE",
       [](Case& c) { return reg(c, c.w.bytes.data(), 64, IBV_ACCESS_REMOTE_WRITE); }},
      {"ibv_reg_mr", "remote atomic without local", EINVAL, "need IBV_ACCESS_LOCAL_WRITE",
       [](Case& c) { return reg(c, c.w.bytes.data(), 64, IBV_ACCESS_REMOTE_ATOMIC); }},
      {"ibv_reg_mr", "unknown access", EINVAL, "bits that mean nothing",
       [](Case& c) { return reg(c, c.w.bytes.data(), 64, kLocal | 1 << 15); }},
      {"ibv_reg_dmabuf_mr", "any", EOPNOTSUPP, nullptr,
       [](Case& c) { return made(ibv_reg_dmabuf_mr(c.w.pd, 0, 64, 0, 0, kLocal)); }},
      {"ibv_dereg_mr", "a window is bound", EBUSY, "ibv_dereg_mr",
       [](Case& c) {
         ibv_mw* mw = ibv_alloc_mw(c.w.pd, IBV_MW_TYPE_1);
         NEED(bind(c, c.w.rc, mw, c.w.mr, IBV_ACCESS_REMOTE_READ) == 0);
         const int error = ibv_dereg_mr(c.w.mr);
         NEED(ibv_dealloc_mw(mw) == 0);
         return error;
       }},
      {"ibv_rereg_mr", "unknown flags", EINVAL, nullptr,
       [](Case& c) { return rereg(c, 1 << 10, nullptr, nullptr, 0, 0); }},
      {"ibv_rereg_mr", "pd NULL", EINVAL, "pd is NULL",
       [](Case& c) { return rereg(c, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0); }},
      {"ibv_rereg_mr", "foreign pd", EINVAL, "pd belongs to another",
       [](Case& c) { return rereg(c, IBV_REREG_MR_CHANGE_PD, c.foreign.pd, nullptr, 0, 0); }},
      {"ibv_rereg_mr", "destroyed pd", EINVAL, "pd was destroyed",
       [](Case& c) { return rereg(c, IBV_REREG_MR_CHANGE_PD, c.dead.pd, nullptr, 0, 0); }},
      {"ibv_rereg_mr", "length 0", EINVAL, nullptr,
       [](Case& c) {
         return rereg(c, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, c.w.bytes.data(), 0, 0);
       }},
      {"ibv_rereg_mr", "unmapped", EFAULT, "not mapped",
       [](Case& c) { return rereg(c, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, hole(), 64, 0); }},
      {"ibv_rereg_mr", "remote write without local", EINVAL, "need IBV_ACCESS_LOCAL_WRITE",
       [](Case& c) {
         return rereg(c, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE);
       }},
      {"ibv_import_mr", "no such number", ENOENT, "no memory region",
       [](Case& c) { return made(ibv_import_mr(c.w.pd, 0xabcdef)); }},
      {"ibv_import_mr", "of a destroyed one", ENOENT, "no memory region",
       [](Case& c) { return made(ibv_import_mr(c.w.pd, c.dead.mr_number)); }},
      {"ibv_import_mr", "of another domain", EINVAL, "belongs to another protection domain",
       [](Case& c) { return made(ibv_import_mr(c.w.pd, c.w.other_mr->handle)); }},
      {"ibv_advise_mr", "unknown advice", EOPNOTSUPP, "unknown advice",
       [](Case& c) { return advise(c, 77, 0, c.w.mr->lkey, start(c), 64); }},
      {"ibv_advise_mr", "unknown flags", EINVAL, "unknown flags",
       [](Case& c) { return advise(c, 0, 8, c.w.mr->lkey, start(c), 64); }},
      {"ibv_advise_mr", "no elements", EINVAL, "num_sge is 0",
       [](Case& c) { return advise(c, 0, 0, c.w.mr->lkey, start(c), 64, 0); }},
      {"ibv_advise_mr", "sg_list NULL", EINVAL, "sg_list is NULL",
       [](Case& c) { return ibv_advise_mr(c.w.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 1); }},
      {"ibv_advise_mr", "no such key", ENOENT, "sg_list[0]",
       [](Case& c) { return advise(c, 0, 0, 0xdead00, start(c), 64); }},
      {"ibv_advise_mr", "key of a destroyed region", ENOENT, "sg_list[0]",
       [](Case& c) { return advise(c, 0, 0, c.dead.lkey, start(c), 64); }},
      {"ibv_advise_mr", "key of another domain", EPERM, "sg_list[0]",
       [](Case& c) { return advise(c, 0, 0, c.w.other_mr->lkey, start(c), 64); }},
      {"ibv_advise_mr", "out of range", EFAULT, "sg_list[0]",
       [](Case& c) { return advise(c, 0, 0, c.w.mr->lkey, start(c) + kBytes, 64); }},
      {"ibv_alloc_mw", "unknown type", EINVAL, "neither 1 nor 2",
       [](Case& c) { return made(ibv_alloc_mw(c.w.pd, static_cast<ibv_mw_type>(3))); }},
      {"ibv_bind_mw", "a window of type 2", EINVAL, nullptr,
       [](Case& c) { return bind(c, c.w.rc, c.w.mw2, c.w.mr, IBV_ACCESS_REMOTE_READ); }},
      {"ibv_bind_mw", "a region of another domain", EPERM, nullptr,
       [](Case& c) { return bind(c, c.w.rc, c.w.mw1, c.w.other_mr, IBV_ACCESS_REMOTE_READ); }},
      {"ibv_bind_mw", "unknown access", EINVAL, nullptr,
       [](Case& c) { return bind(c, c.w.rc, c.w.mw1, c.w.mr, 1u << 15); }},
      {"ibv_bind_mw", "zero-based", EINVAL, "cannot be zero-based",
       [](Case& c) { return bind(c, c.w.rc, c.w.mw1, c.w.mr, IBV_ACCESS_ZERO_BASED); }},
      {"ibv_bind_mw", "wrong state", EINVAL, "is in state INIT",
       [](Case& c) { return bind(c, c.w.init, c.w.mw1, c.w.mr, IBV_ACCESS_REMOTE_READ); }},
      {"ibv_alloc_dm", "attr NULL", EINVAL, "attr is NULL",
       [](Case& c) { return made(ibv_alloc_dm(c.w.context, nullptr)); }},
      {"ibv_alloc_dm", "length 0", EINVAL, "length is 0",
       [](Case& c) { return device_memory(c, 0, 0, 0); }},
      {"ibv_alloc_dm", "more than there is", ENOMEM, "max_dm_size",
       [](Case& c) { return device_memory(c, (1u << 20) + 1, 0, 0); }},
      {"ibv_alloc_dm", "alignment too large", EINVAL, "log_align_req = 40",
       [](Case& c) { return device_memory(c, 64, 40, 0); }},
      {"ibv_alloc_dm", "unknown comp_mask", EINVAL, "comp_mask must be 0",
       [](Case& c) { return device_memory(c, 64, 0, 1); }},
      {"ibv_free_dm", "in use", EBUSY, "memory regions use it",
       [](Case& c) { return ibv_free_dm(c.w.dm); }},
      {"ibv_memcpy_to_dm", "out of range", EINVAL, "beyond the 256 bytes",
       [](Case& c) { return ibv_memcpy_to_dm(c.w.dm, 252, c.w.bytes.data(), 8); }},
      {"ibv_memcpy_to_dm", "offset that wraps", EINVAL, "beyond the 256 bytes",
       [](Case& c) { return ibv_memcpy_to_dm(c.w.dm, ~0ull - 3, c.w.bytes.data(), 8); }},
      {"ibv_memcpy_to_dm", "misaligned", EINVAL, "multiples of 4",
       [](Case& c) { return ibv_memcpy_to_dm(c.w.dm, 2, c.w.bytes.data(), 8); }},
      {"ibv_memcpy_from_dm", "out of range", EINVAL, "beyond the 256 bytes",
       [](Case& c) { return ibv_memcpy_from_dm(c.w.bytes.data(), c.w.dm, 256, 4); }},
      {"ibv_reg_dm_mr", "not zero-based", EINVAL, "IBV_ACCESS_ZERO_BASED",
       [](Case& c) { return made(ibv_reg_dm_mr(c.w.pd, c.w.dm, 0, 64, kLocal)); }},
      {"ibv_reg_dm_mr", "out of range", EINVAL, "beyond the device memory",
       [](Case& c) { return made(ibv_reg_dm_mr(c.w.pd, c.w.dm, 200, 64, IBV_ACCESS_ZERO_BASED)); }},
      {"ibv_reg_dm_mr", "dm NULL", EINVAL, "dm is NULL",
       [](Case& c) { return made(ibv_reg_dm_mr(c.w.pd, nullptr, 0, 64, IBV_ACCESS_ZERO_BASED)); }},
      {"ibv_reg_dm_mr", "foreign dm", EINVAL, "dm belongs to another",
       [](Case& c) {
         return made(ibv_reg_dm_mr(c.w.pd, c.foreign.dm, 0, 64, IBV_ACCESS_ZERO_BASED));
       }},
      {"ibv_reg_dm_mr", "destroyed dm", EINVAL, "dm was destroyed",
       [](Case& c) {
         return made(ibv_reg_dm_mr(c.w.pd, c.dead.dm, 0, 64, IBV_ACCESS_ZERO_BASED));
       }},
      {"ibv_import_dm", "no such number", ENOENT, "no device memory",
       [](Case& c) { return made(ibv_import_dm(c.w.context, c.dead.dm_number)); }},
      {"ibv_query_gid", "index beyond the table", 0, nullptr,
       [](Case& c) {
         ibv_gid gid;
         return ibv_query_gid(c.w.context, 1, 1000, &gid) == -1 ? 0 : -1;
       }},
      {"ibv_query_pkey", "index beyond the table", 0, nullptr,
       [](Case& c) {
         __be16 key;
         return ibv_query_pkey(c.w.context, 1, 1000, &key) == -1 ? 0 : -1;
       }},
      {"ibv_get_pkey_index", "no such P_Key", 0, nullptr,
       [](Case& c) { return ibv_get_pkey_index(c.w.context, 1, 0x1234) == -1 ? 0 : -1; }},
      {"ibv_import_device", "no descriptor", EINVAL, nullptr,
       [](Case& c) { return made(ibv_import_device(-1)); }},
  };
}

}  // namespace refusals
