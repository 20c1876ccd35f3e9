// SPDX-License-Identifier: BSD-2-Clause
// What a context hands to the application: each object begins with the public structure, whose
// address is the handle (and which alone is left for a while when it is destroyed:
// dead_handles.hpp). Made and destroyed by the verbs of its file; an object counts what was built
// upon it, and is not destroyed while that is more than nothing.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "event_pipe.hpp"
#include "verbena/abi/objects.hpp"
#include "verbena/device/device.hpp"
#include "verbena/queue/completion_queue.hpp"
#include "verbena/queue/shared_receive.hpp"
#include "wait_set.hpp"
#include "work_builder.hpp"

namespace verbena::provider {

class Context;
struct Qp;

// How many objects were built upon one.
class Users {
 public:
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  // How many are left.
  std::uint32_t remove() noexcept { return count_.fetch_sub(1, std::memory_order_acq_rel) - 1; }
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint32_t> count_{0};
};

struct Td;

struct Pd {
  using Public = ibv_pd;
  ibv_pd pd{};
  memory::DomainId domain = 0;
  Users users;
  Pd* parent = nullptr;      // of a parent domain: the domain in it; imported: the original
  Td* thread = nullptr;      // of a parent domain, if it has one
  bool imported = false;     // counts itself among its users, and goes with the last of them
  std::uint32_t remote = 0;  // imported from another process: its number there

  void release_user() noexcept;  // verbs_import.cpp
};

struct Mr {
  using Public = abi::PrivateMr;
  abi::PrivateMr mr{};
  Context* context = nullptr;
  Pd* domain = nullptr;
  std::uint32_t key = 0;
  std::uint64_t host_address = 0;
  std::uint64_t base = 0;       // by which keys reach it
  bool foreign = false;         // another process's memory, under a key of our own
  struct Dm* memory = nullptr;  // a region of device memory
};

struct Mw {
  using Public = ibv_mw;
  ibv_mw mw{};
  Pd* domain = nullptr;
};

struct Dm {
  using Public = ibv_dm;
  ibv_dm dm{};
  std::shared_ptr<std::byte[]> bytes;  // with the handles that imported it
  std::uint64_t length = 0;
  Users users;
};

struct Ah {
  using Public = ibv_ah;
  ibv_ah ah{};
  Pd* domain = nullptr;
  queue::AddressVector vector;
};

struct Td {
  using Public = ibv_td;
  ibv_td td{};
  Users users;
};

struct Xrcd {
  using Public = ibv_xrcd;
  ibv_xrcd xrcd{};
  std::uint32_t number = 0;
  std::uint64_t inode = 0;  // of the file that names it; 0: nameless
  std::uint64_t device = 0;
  std::uint32_t opens = 1;
  Users users;
};

// Completion events of one channel, shared by the queues that use it.
struct CompletionChannel {
  EventPipe pipe;
  WaitSet wakers;                        // of the blocked reader
  std::atomic<std::int32_t> armed{0};    // queues that wait to tell of a completion
  std::atomic<bool> has_blocked{false};  // its read might, when that was asked last
};

struct Cq {
  using Public = abi::PrivateCq;
  Cq(const queue::CompletionQueue::Options& options, Context& owner);
  void drive() noexcept;
  abi::PrivateCq abi{};
  Context& context;
  // Which has the queue pairs that complete here; null: several have. Taken: there are such.
  std::atomic<Context*> engine{&context};
  bool is_taken = false;
  queue::CompletionQueue queue;
  std::shared_ptr<CompletionChannel> channel;
  Users users;
  std::atomic<std::uint32_t> completion_events{0};  // written into the channel
  std::atomic<std::uint32_t> async_events{0};
  // That found completions there already, since who waits for events has looked.
  std::atomic<std::uint32_t> unhurried_polls{0};
  // What the extended interface reads: a few at a time are looked at, and leave the queue when all
  // of them were read or the poll ends. Of the thread between ibv_start_poll and ibv_end_poll.
  struct Reader {
    Lock lock;
    static constexpr std::size_t kMost = 32;
    std::span<const queue::Completion> seen;  // empty: nothing is looked at
    // Where nothing is, the one that was read last, for who reads on after the end.
    queue::Completion kept;
    const queue::Completion* current = &kept;
    const queue::Completion* last = &kept;  // of those seen
  };
  Reader reader;
  bool single_threaded = false;
  const queue::Completion& current() const { return *reader.current; }
};

struct Srq {
  using Public = abi::PrivateSrq;
  Srq(const queue::ReceiveQueue::Options& options, Context& owner);
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

// Who holds an XRC receive queue pair (xrc_receivers.hpp).
struct ReceiverHandles {
  std::mutex lock;  // innermost: taken by events, inside the engine
  std::vector<Qp*> handles;
  std::uint32_t remote = 0;  // handles in other contexts
  std::uint32_t domain = 0;  // its XRC domain's number
};

struct Qp {
  using Public = abi::PrivateQp;
  explicit Qp(Context& owner) : context(owner) {}
  abi::PrivateQp abi{};
  Context& context;
  qp::QueuePair* engine = nullptr;
  Pd* domain = nullptr;
  Cq* send_cq = nullptr;
  Cq* receive_cq = nullptr;
  Srq* srq = nullptr;
  Xrcd* xrcd = nullptr;
  // Of XRC_RECV the application has handles only.
  Qp* opened = nullptr;                       // a handle: of this queue pair
  bool is_remote = false;                     // a handle: of a queue pair of another context
  std::unique_ptr<ReceiverHandles> receiver;  // not a handle
  ibv_qp_cap caps{};
  bool signal_all = false;
  bool has_new_peer = false;  // and has posted nothing for it; under the engine's lock
  std::uint32_t flow_label = 0;
  std::uint32_t deferred = 0;  // posts that waited for an answer; under the engine's lock
  WorkBuilder builder;
  std::vector<Gid> groups;  // multicast memberships; under the context's lock
  Users users;
  std::atomic<std::uint32_t> async_events{0};
};

inline Pd& object_of(ibv_pd* pd) { return *reinterpret_cast<Pd*>(pd); }
inline Mr& object_of(ibv_mr* mr) { return *reinterpret_cast<Mr*>(mr); }
inline Mr& object_of(abi::PrivateMr* mr) { return *reinterpret_cast<Mr*>(mr); }
inline Mw& object_of(ibv_mw* mw) { return *reinterpret_cast<Mw*>(mw); }
inline Dm& object_of(ibv_dm* dm) { return *reinterpret_cast<Dm*>(dm); }
inline Ah& object_of(ibv_ah* ah) { return *reinterpret_cast<Ah*>(ah); }
inline Td& object_of(ibv_td* td) { return *reinterpret_cast<Td*>(td); }
inline Xrcd& object_of(ibv_xrcd* xrcd) { return *reinterpret_cast<Xrcd*>(xrcd); }
inline Cq& object_of(ibv_cq* cq) { return *reinterpret_cast<Cq*>(cq); }
inline Cq& object_of(ibv_cq_ex* cq) { return *reinterpret_cast<Cq*>(cq); }
inline Srq& object_of(ibv_srq* srq) { return *reinterpret_cast<Srq*>(srq); }
inline Qp& object_of(ibv_qp* qp) { return *reinterpret_cast<Qp*>(qp); }
inline Qp& object_of(ibv_qp_ex* qp) { return *reinterpret_cast<Qp*>(qp); }

}  // namespace verbena::provider
