// SPDX-License-Identifier: BSD-2-Clause
// Calls that are made to fail on request, to see what a program does then. VERBENA_FAIL, which
// `verbena run --fail` sets, holds items with commas between them:
//
//   ibv_reg_mr=ENOMEM          each call of this function fails so
//   ibv_post_send=ENOMEM@3     the third call of the process does, no other
//   rdma_connect=ETIMEDOUT@5+  the fifth and all after it do
//
// The plugin carries out the items of libibverbs, the preload library those of librdmacm. `verbena
// run` refuses an item that neither knows.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "verbena/control/error.hpp"

namespace verbena::control {

struct PlannedFailure {
  std::string_view function;  // has static storage, as the next
  std::string_view error_name;
  int error = 0;
  std::uint64_t first = 1;
  std::uint64_t last = ~std::uint64_t{0};

  bool is_of_librdmacm() const { return function.starts_with("rdma_"); }
};

// Parses the items of both libraries. The error names the item and says what is wrong.
Outcome<std::vector<PlannedFailure>> parse_planned_failures(std::string_view list);

// Counts the calls of one function. Any thread.
class PlannedCalls {
 public:
  // Counts a call. Returns its number in the process if it is to fail.
  std::optional<std::uint64_t> next(const PlannedFailure& planned) noexcept {
    const std::uint64_t call = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (call < planned.first || call > planned.last) return std::nullopt;
    return call;
  }

 private:
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace verbena::control
