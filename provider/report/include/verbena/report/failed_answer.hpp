// SPDX-License-Identifier: BSD-2-Clause
// Makes the result of a verb that failed, by the conventions of guard.hpp: errno and null, an
// errno, or a negative errno where the verb returns a count. A verb that posts also names the bad
// request.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <string_view>
#include <type_traits>

namespace verbena::provider {

namespace detail {
inline void name_culprit(...) noexcept {}
template <typename Object, typename Request>
void name_culprit(Object*, Request* request, Request** bad) noexcept {
  *bad = request;
}
}  // namespace detail

template <typename Result, typename... Arguments>
Result failed_answer(int error, Arguments... arguments) noexcept {
  detail::name_culprit(arguments...);
  if constexpr (std::is_pointer_v<Result>) {
    errno = error;
    return nullptr;
  } else if constexpr (!std::is_void_v<Result>) {
    constexpr bool counts = (std::is_same_v<Arguments, ibv_wc*> || ...);
    return counts ? -error : error;
  }
}

// Returns whether a result of this verb can be an errno. Verbs that are never offered have none.
template <typename Result>
constexpr bool can_fail(std::string_view name) {
  if (name == "query_qp_data_in_order") return false;
  return std::is_pointer_v<Result> || std::is_same_v<Result, int>;
}

}  // namespace verbena::provider
