// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/cm_functions.hpp"

#include <rdma/rdma_user_cm.h>

#include <cstring>

namespace verbena::control {
std::string_view function_of_cm_command(std::span<const std::uint8_t> command) {
  rdma_ucm_cmd_hdr header;
  if (command.size() < sizeof header) return {};
  std::memcpy(&header, command.data(), sizeof header);
  switch (header.cmd) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return "rdma_create_id";
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return "rdma_destroy_id";
    case RDMA_USER_CM_CMD_BIND_IP:
    case RDMA_USER_CM_CMD_BIND:
      return "rdma_bind_addr";
    case RDMA_USER_CM_CMD_RESOLVE_IP:
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      return "rdma_resolve_addr";
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return "rdma_resolve_route";
    case RDMA_USER_CM_CMD_CONNECT:
      return "rdma_connect";
    case RDMA_USER_CM_CMD_LISTEN:
      return "rdma_listen";
    case RDMA_USER_CM_CMD_ACCEPT:
      return "rdma_accept";
    case RDMA_USER_CM_CMD_REJECT:
      return "rdma_reject";
    case RDMA_USER_CM_CMD_DISCONNECT:
      return "rdma_disconnect";
    case RDMA_USER_CM_CMD_GET_EVENT:
      return "rdma_get_cm_event";
    case RDMA_USER_CM_CMD_SET_OPTION:
      return "rdma_set_option";
    case RDMA_USER_CM_CMD_NOTIFY:
      return "rdma_notify";
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return "rdma_join_multicast";
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return "rdma_leave_multicast";
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return "rdma_migrate_id";
    default:
      return {};
  }
}

}  // namespace verbena::control
