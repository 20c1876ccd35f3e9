// SPDX-License-Identifier: BSD-2-Clause
// Extracts from a command of rdma_cm what the emulator cannot see: pointers into the program's
// memory and the program's descriptors. Pure. The emulator interprets the commands themselves.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::preload {

struct RdmaCmRequest {
  bool is_get_event = false;
  std::uint64_t event_address = 0;
  std::uint16_t event_room = 0;     // 0 if the command is malformed
  std::uint64_t value_address = 0;  // SET_OPTION
  std::uint32_t value_length = 0;
  bool names_channel = false;  // MIGRATE_ID
  std::uint32_t channel_fd = 0;
  std::uint32_t leaving_id = 0;  // DESTROY_ID; MIGRATE_ID: leaves the named channel
  bool gives_back = false;       // DESTROY_ID, LEAVE_MCAST
  std::uint64_t response_address = 0;
};

// The room for an event in the oldest library (rdma_ucm_event_resp up to its param).
inline constexpr std::uint16_t kEventRoomMin = 328;

// The longest value an option may have; the kernel's own limit is a little higher.
inline constexpr std::uint32_t kOptionValueMax = 32 * 1024;

RdmaCmRequest parse_rdma_cm_write(std::span<const std::uint8_t> command);

}  // namespace verbena::preload
