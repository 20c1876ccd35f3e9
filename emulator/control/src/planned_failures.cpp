// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/planned_failures.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string>
#include <utility>

namespace verbena::control {
namespace {

#define VERBENA_ERROR(name) \
  { #name, name }
constexpr std::pair<std::string_view, int> kErrors[] = {
    VERBENA_ERROR(EACCES),       VERBENA_ERROR(EADDRINUSE),   VERBENA_ERROR(EADDRNOTAVAIL),
    VERBENA_ERROR(EAGAIN),       VERBENA_ERROR(EBADF),        VERBENA_ERROR(EBUSY),
    VERBENA_ERROR(ECONNABORTED), VERBENA_ERROR(ECONNREFUSED), VERBENA_ERROR(ECONNRESET),
    VERBENA_ERROR(EEXIST),       VERBENA_ERROR(EFAULT),       VERBENA_ERROR(EHOSTUNREACH),
    VERBENA_ERROR(EINTR),        VERBENA_ERROR(EINVAL),       VERBENA_ERROR(EIO),
    VERBENA_ERROR(EISCONN),      VERBENA_ERROR(EMFILE),       VERBENA_ERROR(EMSGSIZE),
    VERBENA_ERROR(ENETDOWN),     VERBENA_ERROR(ENETUNREACH),  VERBENA_ERROR(ENFILE),
    VERBENA_ERROR(ENODEV),       VERBENA_ERROR(ENOENT),       VERBENA_ERROR(ENOMEM),
    VERBENA_ERROR(ENOSPC),       VERBENA_ERROR(ENOSYS),       VERBENA_ERROR(ENOTCONN),
    VERBENA_ERROR(EOPNOTSUPP),   VERBENA_ERROR(EPERM),        VERBENA_ERROR(EPROTONOSUPPORT),
    VERBENA_ERROR(ERANGE),       VERBENA_ERROR(ETIMEDOUT),
};
#undef VERBENA_ERROR

constexpr std::string_view kFunctions[] = {
    "ibv_advise_mr",
    "ibv_alloc_dm",
    "ibv_alloc_mw",
    "ibv_alloc_null_mr",
    "ibv_alloc_parent_domain",
    "ibv_alloc_pd",
    "ibv_alloc_td",
    "ibv_attach_mcast",
    "ibv_bind_mw",
    "ibv_close_xrcd",
    "ibv_create_ah",
    "ibv_create_cq",
    "ibv_create_cq_ex",
    "ibv_create_qp",
    "ibv_create_qp_ex",
    "ibv_create_srq",
    "ibv_create_srq_ex",
    "ibv_dealloc_mw",
    "ibv_dealloc_pd",
    "ibv_dealloc_td",
    "ibv_dereg_mr",
    "ibv_destroy_ah",
    "ibv_destroy_cq",
    "ibv_destroy_qp",
    "ibv_destroy_srq",
    "ibv_detach_mcast",
    "ibv_free_dm",
    "ibv_get_srq_num",
    "ibv_import_dm",
    "ibv_import_mr",
    "ibv_import_pd",
    "ibv_modify_cq",
    "ibv_modify_qp",
    "ibv_modify_qp_rate_limit",
    "ibv_modify_srq",
    "ibv_open_device",
    "ibv_open_qp",
    "ibv_open_xrcd",
    "ibv_poll_cq",
    "ibv_post_recv",
    "ibv_post_send",
    "ibv_post_srq_ops",
    "ibv_post_srq_recv",
    "ibv_query_device",
    "ibv_query_device_ex",
    "ibv_query_port",
    "ibv_query_port_speed",
    "ibv_query_qp",
    "ibv_query_rt_values",
    "ibv_query_srq",
    "ibv_reg_dm_mr",
    "ibv_reg_mr",
    "ibv_req_notify_cq",
    "ibv_rereg_mr",
    "ibv_resize_cq",
    // Those that ask the kernel's connection manager for something.
    "rdma_accept",
    "rdma_bind_addr",
    "rdma_connect",
    "rdma_create_event_channel",
    "rdma_create_id",
    "rdma_destroy_id",
    "rdma_disconnect",
    "rdma_get_cm_event",
    "rdma_join_multicast",
    "rdma_leave_multicast",
    "rdma_listen",
    "rdma_migrate_id",
    "rdma_notify",
    "rdma_reject",
    "rdma_resolve_addr",
    "rdma_resolve_route",
    "rdma_set_option",
};

// Nothing if that is no number of a call.
std::optional<std::uint64_t> number_in(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number == 0) {
    return std::nullopt;
  }
  return number;
}

std::string names_of_errors() {
  std::string names;
  for (const auto& [name, value] : kErrors) names += (names.empty() ? "" : " ") + std::string(name);
  return names;
}

Outcome<PlannedFailure> parse_item(std::string_view item) {
  const auto wrong = [item](const std::string& what) {
    return fail(EINVAL, std::string(item) + ": " + what);
  };
  const std::size_t equals = item.find('=');
  if (equals == item.npos) return wrong("write FUNCTION=ERROR, as ibv_reg_mr=ENOMEM");
  PlannedFailure planned;
  std::string_view error = item.substr(equals + 1);
  if (const std::size_t at = error.find('@'); at != error.npos) {
    std::string_view call = error.substr(at + 1);
    error = error.substr(0, at);
    const bool onwards = call.ends_with('+');
    if (onwards) call.remove_suffix(1);
    const auto number = number_in(call);
    if (!number) return wrong("behind the @ belongs the number of a call, the first is 1");
    planned.first = *number;
    if (!onwards) planned.last = *number;
  }
  const auto* known = std::ranges::find(kErrors, error, [](const auto& e) { return e.first; });
  if (known == std::end(kErrors)) return wrong("the error is none of " + names_of_errors());
  planned.error_name = known->first;
  planned.error = known->second;
  const auto* function = std::ranges::find(kFunctions, item.substr(0, equals));
  if (function == std::end(kFunctions)) {
    return wrong(
        "no function of that name can be made to fail; it is one of libibverbs, as "
        "ibv_create_qp or ibv_create_qp_ex, or of librdmacm, as rdma_connect");
  }
  planned.function = *function;
  return planned;
}

}  // namespace

std::span<const std::string_view> functions_that_can_fail() { return kFunctions; }

Outcome<std::vector<PlannedFailure>> parse_planned_failures(std::string_view list) {
  std::vector<PlannedFailure> all;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (comma != 0) {
      auto planned = parse_item(list.substr(0, comma));
      if (!planned) return Failure<Error>{planned.error()};
      all.push_back(*planned);
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return all;
}

}  // namespace verbena::control
