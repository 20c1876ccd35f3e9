// SPDX-License-Identifier: BSD-2-Clause
// Shared receive queues.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "verbena/abi/objects.hpp"
#include "verbena/objects/users.hpp"
#include "verbena/queue/shared_receive.hpp"

namespace verbena::provider {

class Context;
struct Cq;
struct Pd;
struct Xrcd;

struct Srq {
  using Public = abi::PrivateSrq;
  // The queue's cookie is this object.
  Srq(queue::ReceiveQueue::Options options, Context& owner, queue::EventSink& events)
      : context(owner), shared((options.cookie = this, options), events) {}
  abi::PrivateSrq abi{};
  Context& context;
  queue::SharedReceive shared;
  Pd* domain = nullptr;
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
  ibv_srq_type type = IBV_SRQT_BASIC;
  Users users;
  std::atomic<std::uint32_t> async_events{0};
};

inline Srq& object_of(ibv_srq* srq) { return *reinterpret_cast<Srq*>(srq); }

}  // namespace verbena::provider
