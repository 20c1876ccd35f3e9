// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs, and the handles of XRC receive queue pairs.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "verbena/abi/objects.hpp"
#include "verbena/objects/post_state.hpp"
#include "verbena/objects/users.hpp"
#include "verbena/objects/work_builder.hpp"
#include "verbena/qp/queue_pair.hpp"

namespace verbena::provider {

class AttachedEngine;
class Context;
class Engine;
struct Cq;
struct Pd;
struct Srq;
struct Xrcd;
struct Qp;

// The handles of an XRC receive queue pair (xrc_receivers.hpp).
struct ReceiverHandles {
  std::mutex lock;  // innermost: events take it inside the engine
  std::vector<Qp*> handles;
  std::uint32_t remote = 0;  // handles in other contexts
  std::uint32_t domain = 0;  // number of its XRC domain
};

// A membership is known by the GID and the LID that it was attached with.
struct Membership {
  Gid group;
  std::uint16_t lid = 0;
  bool operator==(const Membership&) const = default;
};

// The multicast groups of a queue pair.
struct Memberships {
  std::mutex lock;  // held while the daemon is asked, so threads attach and detach one by one
  std::vector<Membership> groups;
};

struct Qp {
  using Public = abi::PrivateQp;
  // `attached` is one of the owner's engines, and contains `of_home`.
  Qp(Context& owner, AttachedEngine& attached, Engine& of_home)
      : context(owner), home(attached), engine(of_home) {}
  abi::PrivateQp abi{};
  Context& context;
  AttachedEngine& home;
  Engine& engine;
  qp::QueuePair* pair = nullptr;  // the engine's
  Pd* domain = nullptr;
  Cq* send_cq = nullptr;
  Cq* receive_cq = nullptr;
  Srq* srq = nullptr;
  Xrcd* xrcd = nullptr;
  // Of an XRC_RECV queue pair the application has handles only.
  Qp* opened = nullptr;                       // in a handle: its queue pair
  bool is_remote = false;                     // in a handle: its queue pair is in another context
  std::unique_ptr<ReceiverHandles> receiver;  // not in a handle
  ibv_qp_cap caps{};
  bool signal_all = false;
  PostState posts;  // under the pair's lock
  WorkBuilder builder;
  Memberships multicast;
  Users users;
  std::atomic<std::uint32_t> async_events{0};
};

inline Qp& object_of(ibv_qp* qp) { return *reinterpret_cast<Qp*>(qp); }
inline Qp& object_of(ibv_qp_ex* qp) { return *reinterpret_cast<Qp*>(qp); }

}  // namespace verbena::provider
