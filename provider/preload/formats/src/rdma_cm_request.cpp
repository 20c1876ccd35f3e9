// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/preload/rdma_cm_request.hpp"

#include <rdma/rdma_user_cm.h>

#include <cstring>

namespace verbena::preload {
namespace {

template <typename T>
bool load_start(std::span<const std::uint8_t> bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  return true;
}

}  // namespace

RdmaCmRequest parse_rdma_cm_write(std::span<const std::uint8_t> command) {
  RdmaCmRequest request;
  rdma_ucm_cmd_hdr header;
  if (!load_start(command, header)) return request;
  const std::span<const std::uint8_t> body = command.subspan(sizeof header);
  request.is_get_event = header.cmd == RDMA_USER_CM_CMD_GET_EVENT;
  rdma_ucm_get_event fetch;
  if (request.is_get_event && header.in >= sizeof fetch && header.in <= body.size() &&
      load_start(body, fetch)) {
    request.event_address = fetch.response;
    request.event_room = header.out;
  }
  rdma_ucm_set_option option;
  if (header.cmd == RDMA_USER_CM_CMD_SET_OPTION && load_start(body, option)) {
    request.value_address = option.optval;
    request.value_length = option.optlen;
  }
  rdma_ucm_migrate_id migration;
  if (header.cmd == RDMA_USER_CM_CMD_MIGRATE_ID && load_start(body, migration)) {
    request.names_channel = true;
    request.channel_fd = migration.fd;
    request.leaving_id = migration.id;
  }
  // LEAVE_MCAST has the same layout.
  rdma_ucm_destroy_id end;
  const bool ends =
      header.cmd == RDMA_USER_CM_CMD_DESTROY_ID || header.cmd == RDMA_USER_CM_CMD_LEAVE_MCAST;
  if (ends && header.out >= sizeof(rdma_ucm_destroy_id_resp) && load_start(body, end)) {
    request.gives_back = true;
    request.response_address = end.response;
    if (header.cmd == RDMA_USER_CM_CMD_DESTROY_ID) request.leaving_id = end.id;
  }
  return request;
}

}  // namespace verbena::preload
