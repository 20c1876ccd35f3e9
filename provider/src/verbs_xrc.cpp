// XRC domains, and further handles of an XRC receive queue pair. A domain that a file names is one
// for all who open that file in this context.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "context.hpp"
#include "guard.hpp"
#include "parts.hpp"
#include "tombstones.hpp"
#include "verbs.hpp"

namespace verbena::provider {
namespace {

struct FileName {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

FileName name_of(int fd) {
  FileName name;
  if (fd == -1) return name;
  struct stat st {};
  if (::fstat(fd, &st) != 0) refuse(EBADF, "ibv_open_xrcd: fd = %d is no open file", fd);
  name.device = st.st_dev;
  name.inode = st.st_ino;
  return name;
}

Xrcd* find(Context& context, const FileName& name) {
  if (name.inode == 0) return nullptr;
  for (Xrcd* x : context.xrc_domains()) {
    if (x->inode == name.inode && x->device == name.device) return x;
  }
  return nullptr;
}

ibv_xrcd* open_xrcd(ibv_context* c, ibv_xrcd_init_attr* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_open_xrcd";
    Context& context = Context::of(c);
    context.check_alive(kVerb);
    check_given(kVerb, "xrcd_init_attr", attr);
    constexpr std::uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if (attr->comp_mask != kBoth) {
      refuse(EINVAL, "%s: comp_mask must have FD and OFLAGS, and nothing else", kVerb);
    }
    if ((attr->oflags & ~(O_CREAT | O_EXCL)) != 0) {
      refuse(EINVAL, "%s: oflags may have O_CREAT and O_EXCL only", kVerb);
    }
    const FileName name = name_of(attr->fd);
    const std::lock_guard guard(context.lock());
    if (Xrcd* known = find(context, name)) {
      if ((attr->oflags & O_EXCL) != 0) refuse(EINVAL, "%s: O_EXCL, and the domain exists", kVerb);
      ++known->opens;
      return &known->xrcd;
    }
    if ((attr->oflags & O_CREAT) == 0) {
      refuse(attr->fd == -1 ? EINVAL : EAGAIN, "%s: no such domain, and oflags lacks O_CREAT",
             kVerb);
    }
    auto xrcd = std::make_unique<Xrcd>();
    xrcd->xrcd.context = c;
    xrcd->number = context.next_xrc_domain();
    xrcd->inode = name.inode;
    xrcd->device = name.device;
    context.xrc_domains().push_back(xrcd.get());
    return &xrcd.release()->xrcd;
  });
}

int close_xrcd(ibv_xrcd* x) noexcept {
  Xrcd& xrcd = object_of(x);
  Context& context = Context::of(x->context);
  const std::lock_guard guard(context.lock());
  if (xrcd.opens > 1) {
    --xrcd.opens;
    return 0;
  }
  if (const auto users = xrcd.users.count(); users != 0) {
    return refusal(EBUSY, "ibv_close_xrcd: EBUSY: %u SRQs or queue pairs use it", users);
  }
  std::erase(context.xrc_domains(), &xrcd);
  bury(xrcd);
  return 0;
}

Qp* find_receiver(Context& context, const Xrcd& xrcd, std::uint32_t number) {
  Qp* found = nullptr;
  context.device().for_each_qp([&](qp::QueuePair& engine) {
    Qp& qp = *static_cast<Qp*>(engine.cookie());
    if (engine.number().value() == number && qp.xrcd == &xrcd) found = &qp;
  });
  return found;
}

ibv_qp* open_qp(ibv_context* c, ibv_qp_open_attr* attr) noexcept {
  return pointer_or_errno([&] {
    constexpr const char* kVerb = "ibv_open_qp";
    Context& context = Context::of(c);
    context.check_alive(kVerb);
    check_given(kVerb, "qp_open_attr", attr);
    constexpr std::uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
                                      IBV_QP_OPEN_ATTR_TYPE;
    if ((attr->comp_mask & kNeeded) != kNeeded || attr->qp_type != IBV_QPT_XRC_RECV) {
      refuse(EINVAL, "%s: needs qp_num, xrcd and qp_type IBV_QPT_XRC_RECV", kVerb);
    }
    const Xrcd& xrcd = part_of(context, kVerb, "xrcd", attr->xrcd);
    Qp* original = find_receiver(context, xrcd, attr->qp_num);
    if (original == nullptr) {
      refuse(EINVAL, "%s: no XRC_RECV queue pair 0x%06x in this domain", kVerb, attr->qp_num);
    }
    auto handle = std::make_unique<Qp>(context);
    handle->opened = original;
    handle->engine = original->engine;
    handle->xrcd = original->xrcd;
    handle->caps = original->caps;
    ibv_qp& v = handle->abi.qp;
    v.context = c;
    if ((attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) v.qp_context = attr->qp_context;
    v.qp_num = v.handle = attr->qp_num;
    v.qp_type = IBV_QPT_XRC_RECV;
    v.state = original->abi.qp.state;
    ::pthread_mutex_init(&v.mutex, nullptr);
    ::pthread_cond_init(&v.cond, nullptr);
    original->users.add();
    return &handle.release()->abi.qp;
  });
}

}  // namespace

void offer_xrc_verbs(abi::Ops& ops) {
  ops.open_xrcd = &open_xrcd;
  ops.close_xrcd = &close_xrcd;
  ops.open_qp = &open_qp;
}

}  // namespace verbena::provider
