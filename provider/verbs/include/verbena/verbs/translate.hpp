// SPDX-License-Identifier: BSD-2-Clause
// Translates between the verbs' structures and the engine's values, one for one.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>

#include "verbena/base/types.hpp"
#include "verbena/memory/registry.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::provider {

// Numbers of the verbs that the headers of some distributions lack.
namespace wr {
inline constexpr unsigned kFlush = 14;
inline constexpr unsigned kAtomicWrite = 15;
}  // namespace wr

std::optional<Transport> transport_of(ibv_qp_type type);
std::optional<queue::WorkOpcode> opcode_of(ibv_wr_opcode opcode);
// These are called for each completion that is read: a table look-up, and flag bits that are the
// verbs' without IBV_WC_IP_CSUM_OK.
inline ibv_wc_opcode wc_opcode_of(queue::CompletionOpcode opcode) {
  static constexpr std::uint8_t kNumbers[] = {IBV_WC_SEND,
                                              IBV_WC_RDMA_WRITE,
                                              IBV_WC_RDMA_READ,
                                              IBV_WC_COMP_SWAP,
                                              IBV_WC_FETCH_ADD,
                                              IBV_WC_BIND_MW,
                                              IBV_WC_LOCAL_INV,
                                              8 /* FLUSH */,
                                              9 /* ATOMIC_WRITE */,
                                              IBV_WC_RECV,
                                              IBV_WC_RECV_RDMA_WITH_IMM,
                                              IBV_WC_TM_ADD,
                                              IBV_WC_TM_DEL,
                                              IBV_WC_TM_SYNC,
                                              IBV_WC_TM_RECV,
                                              IBV_WC_TM_NO_TAG};
  static_assert(IBV_WC_TM_NO_TAG < 256);
  static_assert(std::size(kNumbers) ==
                static_cast<std::size_t>(queue::CompletionOpcode::kTagNoTag) + 1);
  return static_cast<ibv_wc_opcode>(kNumbers[static_cast<std::size_t>(opcode)]);
}
inline unsigned wc_flags_of(std::uint16_t flags) {
  static_assert(queue::kHasGrh == unsigned{IBV_WC_GRH});
  static_assert(queue::kHasImmediate == unsigned{IBV_WC_WITH_IMM});
  static_assert(queue::kHasInvalidated << 1 == unsigned{IBV_WC_WITH_INV});
  static_assert(queue::kTagSyncRequest << 1 == unsigned{IBV_WC_TM_SYNC_REQ});
  static_assert(queue::kTagMatched << 1 == unsigned{IBV_WC_TM_MATCH});
  static_assert(queue::kTagDataValid << 1 == unsigned{IBV_WC_TM_DATA_VALID});
  constexpr unsigned kSame = queue::kHasGrh | queue::kHasImmediate;
  return (flags & kSame) | ((flags & ~kSame) << 1);
}
void fill(ibv_wc& wc, const queue::Completion& c);
// Fills in what a request binds a window to. `new_key` is 0 for a window of type 1.
void fill_binding(queue::SendRequest& r, const ibv_mw& window, std::uint32_t new_key,
                  const ibv_mw_bind_info& info);

int errno_of_refusal(memory::Refusal refusal);

}  // namespace verbena::provider
