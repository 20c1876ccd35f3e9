// Requests as the engine takes them, made from the verbs' on the stack: no allocation.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>

#include "explain.hpp"
#include "tsan_order.hpp"
#include "verbena/base/scratch.hpp"
#include "verbena/queue/receive_queue.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::provider {

// A scatter list of a request; at most as many entries as any queue holds.
struct SgeList {
  Scratch<queue::Sge, queue::kMaxSges> entries;
  std::size_t count = 0;

  // An errno.
  int take(const char* verb, const ibv_sge* list, int n) noexcept {
    if (n < 0 || static_cast<std::size_t>(n) > entries.size()) {
      return refusal(EINVAL, "%s: num_sge = %d is not in 0 .. %zu, which is the most that any "
                             "queue takes", verb, n, entries.size());
    }
    if (n != 0 && list == nullptr) {
      return refusal(EINVAL, "%s: num_sge = %d, but sg_list is NULL", verb, n);
    }
    count = static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < count; ++i) {
      entries[i] = {list[i].addr, list[i].length, list[i].lkey};
    }
    return 0;
  }
  std::span<const queue::Sge> span() const noexcept { return entries.first(count); }
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

}  // namespace verbena::provider
