// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/objects/dead_handles.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "verbena/abi/ops.hpp"
#include "verbena/report/explain.hpp"
#include "verbena/report/failed_answer.hpp"

namespace verbena::provider {
namespace {

using abi::PrivateMr;  // named in the list of operations

constexpr std::size_t kKept = 1024;

std::atomic<ibv_context*> the_limbo{nullptr};
std::array<std::atomic<void*>, kKept> graves{};
std::atomic<std::size_t> next_grave{0};
// Where a builder ends in a queue pair; written before the first queue pair is made.
std::size_t builder_end = 0;

int too_late(const char* verb) noexcept {
  return refusal(EINVAL, "%s: the handle is of an object that was destroyed before", verb);
}

abi::Ops refusing_ops() {
  abi::Ops ops;
#define VERBENA_REFUSE(name, result, arguments, since, until)             \
  if constexpr (!std::is_same_v<decltype(ops.name), abi::NeverOffered>) { \
    ops.name = [](auto... given) noexcept -> result {                     \
      return failed_answer<result>(too_late("ibv_" #name), given...);     \
    };                                                                    \
  }
  VERBENA_VERBS_OPS(VERBENA_REFUSE)
#undef VERBENA_REFUSE
  ops.query_qp_data_in_order = [](ibv_qp*, ibv_wr_opcode, std::uint32_t) noexcept {
    too_late("ibv_query_qp_data_in_order");
    return 0;
  };
  return ops;
}

}  // namespace

void prepare_limbo(const abi::Library& library, ibv_device* device) noexcept {
  if (limbo() != nullptr) return;
  const int saved = errno;
  // Neither the operations nor the context is ever freed: handles may outlive every context.
  try {
    builder_end = library.qp_flags_offset();
    static const auto* const ops =
        new std::vector<abi::AnyFunction>(abi::pack(refusing_ops(), library.layout().generation));
    const auto memory = library.allocate_context(device, -1, sizeof(void*));
    if (memory.context != nullptr) {
      library.set_ops(memory.verbs_context, ops->data());
      ibv_context* none = nullptr;
      if (!the_limbo.compare_exchange_strong(none, memory.context)) {
        library.free_context(memory.context);
      }
    }
  } catch (const std::bad_alloc&) {
  }
  errno = saved;
}

ibv_context* limbo() noexcept { return the_limbo.load(std::memory_order_relaxed); }

namespace dead_handle {

void keep(void* memory) noexcept {
  const std::size_t at = next_grave.fetch_add(1, std::memory_order_relaxed) % kKept;
  ::operator delete(graves[at].exchange(memory, std::memory_order_acq_rel));
}

// The builder's functions need the object, so all do nothing except ibv_wr_complete, which reports.
// A function that does nothing may ignore its arguments, whatever they are.
void silence(abi::PrivateQp& qp) noexcept {
  qp.qp.context = limbo();
  void (*const nothing)() = [] {};
  constexpr std::size_t kFirst = offsetof(ibv_qp_ex, wr_atomic_cmp_swp);
  for (std::size_t at = kFirst; at < builder_end; at += sizeof nothing) {
    std::memcpy(qp.room + at, &nothing, sizeof nothing);
  }
  qp.ex.wr_complete = [](ibv_qp_ex*) { return too_late("ibv_wr_complete"); };
}

// The channel is cleared because libibverbs looks at it before it calls the context.
void silence(abi::PrivateCq& cq) noexcept {
  cq.cq.context = limbo();
  cq.cq.channel = nullptr;
  ibv_cq_ex& ex = cq.ex;
  if (ex.start_poll == nullptr) return;
  ex.start_poll = [](ibv_cq_ex*, ibv_poll_cq_attr*) { return too_late("ibv_start_poll"); };
  ex.next_poll = [](ibv_cq_ex*) { return too_late("ibv_next_poll"); };
  ex.end_poll = [](ibv_cq_ex*) {};
}

void silence(ibv_dm& dm) noexcept {
  dm.context = limbo();
  dm.memcpy_to_dm = [](ibv_dm*, std::uint64_t, const void*, std::size_t) {
    return too_late("ibv_memcpy_to_dm");
  };
  dm.memcpy_from_dm = [](void*, ibv_dm*, std::uint64_t, std::size_t) {
    return too_late("ibv_memcpy_from_dm");
  };
}

}  // namespace dead_handle

}  // namespace verbena::provider
