// SPDX-License-Identifier: BSD-2-Clause
// XRC domains, and further handles of an XRC receive queue pair. A domain that a file names is the
// same for all processes of the emulator that open this file (shared_domains.hpp).
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "verbena/context/context.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

using File = SharedDomains::File;

File file_of(int fd) {
  File file;
  file.fd = fd;
  if (fd == -1) return file;
  struct stat st {};
  if (::fstat(fd, &st) != 0) refuse(EBADF, "ibv_open_xrcd: fd = %d is no open file", fd);
  file.device = st.st_dev;
  file.inode = st.st_ino;
  return file;
}

Xrcd* find(Context& context, const File& file) {
  if (file.inode == 0) return nullptr;
  for (Xrcd* x : context.xrc_domains()) {
    if (x->inode == file.inode && x->device == file.device) return x;
  }
  return nullptr;
}

// Returns a domain that this context has already open, or null if the daemon must be asked.
Xrcd* find_again(Context& context, const File& file, int oflags) {
  const std::lock_guard guard(context.lock());
  Xrcd* known = find(context, file);
  if (known == nullptr) return nullptr;
  if ((oflags & O_EXCL) != 0) refuse(EINVAL, "ibv_open_xrcd: O_EXCL, and the domain exists");
  ++known->opens;
  return known;
}

// Lists the domain, unless another thread has opened the same file meanwhile and was first.
Xrcd& enlist(Context& context, std::unique_ptr<Xrcd> xrcd) {
  Xrcd* first = nullptr;
  {
    const std::lock_guard guard(context.lock());
    first = find(context, {xrcd->device, xrcd->inode, -1});
    if (first == nullptr) {
      context.xrc_domains().push_back(xrcd.get());
      return *xrcd.release();
    }
    ++first->opens;
  }
  context.shared_domains().close(xrcd->number, SharedDomains::Await::kDaemon);
  return *first;
}

ibv_xrcd* open_xrcd(ibv_context* c, ibv_xrcd_init_attr* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_open_xrcd";
    Context& context = alive_context(c, kVerb);
    check_given(kVerb, "xrcd_init_attr", attr);
    constexpr std::uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if (attr->comp_mask != kBoth) {
      refuse(EINVAL, "%s: comp_mask must have FD and OFLAGS, and nothing else", kVerb);
    }
    if ((attr->oflags & ~(O_CREAT | O_EXCL)) != 0) {
      refuse(EINVAL, "%s: oflags may have O_CREAT and O_EXCL only", kVerb);
    }
    const File file = file_of(attr->fd);
    if (Xrcd* known = find_again(context, file, attr->oflags)) return &known->xrcd;
    auto xrcd = std::make_unique<Xrcd>();
    xrcd->xrcd.context = c;
    xrcd->inode = file.inode;
    xrcd->device = file.device;
    if (file.inode != 0) {
      xrcd->number = context.shared_domains().open(kVerb, file, attr->oflags);
    } else {
      xrcd->number = context.next_xrc_domain();
    }
    return &enlist(context, std::move(xrcd)).xrcd;
  });
}

int close_xrcd(ibv_xrcd* x) noexcept {
  return errno_of([&] {
    Xrcd& xrcd = object_of(x);
    Context& context = Context::of(x->context);
    {
      const std::lock_guard guard(context.lock());
      if (xrcd.opens > 1) {
        --xrcd.opens;
        return;
      }
      if (const auto users = xrcd.users.count(); users != 0) {
        refuse(EBUSY, "ibv_close_xrcd: EBUSY: %u SRQs or queue pairs use it", users);
      }
      std::erase(context.xrc_domains(), &xrcd);
    }
    context.shared_domains().close(xrcd.number, SharedDomains::Await::kDaemon);
    bury(xrcd);
  });
}

ibv_qp* open_qp(ibv_context* c, ibv_qp_open_attr* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_open_qp";
    Context& context = alive_context(c, kVerb);
    check_given(kVerb, "qp_open_attr", attr);
    constexpr std::uint32_t kNeeded =
        IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if ((attr->comp_mask & kNeeded) != kNeeded || attr->qp_type != IBV_QPT_XRC_RECV) {
      refuse(EINVAL, "%s: needs qp_num, xrcd and qp_type IBV_QPT_XRC_RECV", kVerb);
    }
    Xrcd& xrcd = part_of(context, kVerb, "xrcd", attr->xrcd);
    const bool has_user = (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0;
    void* const user = has_user ? attr->qp_context : nullptr;
    return &context.receivers().open(kVerb, xrcd, attr->qp_num, user)->abi.qp;
  });
}

}  // namespace

void offer_xrc_verbs(abi::Ops& ops) {
  ops.open_xrcd = &open_xrcd;
  ops.close_xrcd = &close_xrcd;
  ops.open_qp = &open_qp;
}

}  // namespace verbena::provider
