// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/cm_functions.hpp"

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstring>
#include <optional>

#include "verbena/control/cm_answers.hpp"

namespace verbena::control {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint16_t kFamilyIb = 27;  // AF_IB

// Returns a member of the struct behind the header.
template <typename T>
std::optional<T> member_of(Bytes command, std::size_t at) {
  at += sizeof(rdma_ucm_cmd_hdr);
  if (command.size() < at + sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, command.data() + at, sizeof value);
  return value;
}

// Recognises how librdmacm tests for RDMA_PS_IB and AF_IB: before a program's first call it makes
// such an ID and binds it.
bool is_probe(std::uint32_t number, Bytes command) {
  if (number == RDMA_USER_CM_CMD_CREATE_ID) {
    return member_of<std::uint16_t>(command, offsetof(rdma_ucm_create_id, ps)) == RDMA_PS_IB;
  }
  return number == RDMA_USER_CM_CMD_BIND &&
         member_of<std::uint16_t>(command, offsetof(rdma_ucm_bind, addr)) == kFamilyIb;
}

// Recognises an active side's confirmation of a response, by rdma_establish or librdmacm itself.
bool is_confirmation(Bytes command) {
  const auto accept = parse_cm_promised(command);
  return accept && accept->question == CmQuestion{RDMA_USER_CM_CMD_ACCEPT, 0};
}

}  // namespace

std::string_view function_of_cm_command(Bytes command) {
  rdma_ucm_cmd_hdr header;
  if (command.size() < sizeof header) return {};
  std::memcpy(&header, command.data(), sizeof header);
  if (is_probe(header.cmd, command) || is_confirmation(command)) return {};
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
