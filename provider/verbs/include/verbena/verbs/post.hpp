// SPDX-License-Identifier: BSD-2-Clause
// Makes the engine's requests from the verbs' on the stack: nothing is allocated, and lists are
// read in place. Also gives the errno of a refused post.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include "verbena/objects/objects.hpp"
#include "verbena/queue/receive_queue.hpp"
#include "verbena/queue/work.hpp"
#include "verbena/report/explain.hpp"
#include "verbena/report/tsan_order.hpp"
#include "verbena/requester/requester.hpp"

namespace verbena::provider {

static_assert(sizeof(queue::Sge) == sizeof(ibv_sge) &&
              offsetof(queue::Sge, address) == offsetof(ibv_sge, addr) &&
              offsetof(queue::Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(queue::Sge, key) == offsetof(ibv_sge, lkey));

// The scatter list of a request: the application's own, with at most as many entries as any queue
// takes.
class SgeList {
 public:
  // Returns an errno.
  int take(const char* verb, const ibv_sge* list, int n) noexcept {
    if (static_cast<unsigned>(n) > queue::kMaxSges) [[unlikely]] {
      return refusal(EINVAL,
                     "%s: num_sge = %d is not in 0 .. %zu, which is the most that any "
                     "queue takes",
                     verb, n, queue::kMaxSges);
    }
    if (n != 0 && list == nullptr) [[unlikely]] {
      return refusal(EINVAL, "%s: num_sge = %d, but sg_list is NULL", verb, n);
    }
    entries_ = {reinterpret_cast<const queue::Sge*>(list), static_cast<std::size_t>(n)};
    return 0;
  }
  std::span<const queue::Sge> span() const noexcept { return entries_; }

 private:
  std::span<const queue::Sge> entries_;
};

struct ReceiveRequest {
  SgeList sges;
  queue::RecvRequest value;

  int take(const char* verb, const ibv_recv_wr& wr) noexcept {
    note_posting();
    value.id = wr.wr_id;
    const int error = sges.take(verb, wr.sg_list, wr.num_sge);
    value.sges = sges.span();
    return error;
  }
};

// How much a receive queue takes, and the names that the program knows these limits by.
struct ReceiveLimits {
  const char* name_of_capacity;
  std::uint32_t capacity;
  const char* name_of_sges;
  std::uint32_t sges;
};
// Returns the errno of a refused receive. `whose` is the verb, and the queue pair if it has one.
[[gnu::cold]] int errno_of_receive(const char* whose, queue::ReceiveQueue::Posted posted, int sges,
                                   const ReceiveLimits& limits) noexcept;

// FENCE, SIGNALED, SOLICITED and INLINE have the same values in the engine.
inline constexpr unsigned kWorkFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
static_assert(+IBV_SEND_FENCE == +queue::kFence && +IBV_SEND_SIGNALED == +queue::kSignaled &&
              +IBV_SEND_SOLICITED == +queue::kSolicited && +IBV_SEND_INLINE == +queue::kInline);

// `request` is the refused request; null if there were too many.
int errno_of_posted(const Qp& qp, requester::Posted posted,
                    const queue::SendRequest* request) noexcept;
// Returns the errno for a queue pair that takes no requests now, or never does.
int errno_of_state(const char* verb, const Qp& qp) noexcept;

}  // namespace verbena::provider
