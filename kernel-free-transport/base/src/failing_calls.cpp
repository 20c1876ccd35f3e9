// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/failing_calls.hpp"

#include <algorithm>
#include <cerrno>

namespace verbena {
namespace {

#define VERBENA_ERROR(name) \
  { #name, name }
constexpr NamedError kErrors[] = {
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
    // Functions that ask the kernel's connection manager.
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

template <typename Is>
std::optional<NamedError> find_error(Is is) {
  const auto* const known = std::ranges::find_if(kErrors, is);
  return known == std::end(kErrors) ? std::nullopt : std::optional(*known);
}

}  // namespace

std::optional<NamedError> error_named(std::string_view name) {
  return find_error([name](const NamedError& error) { return error.name == name; });
}

std::optional<NamedError> error_of_value(int value) {
  return find_error([value](const NamedError& error) { return error.value == value; });
}

std::string names_of_errors() {
  std::string names;
  for (const NamedError& error : kErrors) {
    names += (names.empty() ? "" : " ") + std::string(error.name);
  }
  return names;
}

std::span<const std::string_view> functions_that_can_fail() { return kFunctions; }

std::string_view function_that_can_fail(std::string_view name) {
  const auto* const known = std::ranges::find(kFunctions, name);
  return known == std::end(kFunctions) ? std::string_view() : *known;
}

}  // namespace verbena
