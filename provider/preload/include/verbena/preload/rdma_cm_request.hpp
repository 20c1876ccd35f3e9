// What the emulator cannot see in a command of rdma_cm: the memory and the descriptors of the
// program that it points to. Pure; the commands themselves are the emulator's to understand.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::preload {

struct RdmaCmRequest {
  bool is_get_event = false;
  std::uint64_t value_address = 0;  // of SET_OPTION
  std::uint32_t value_length = 0;
  bool names_channel = false;  // MIGRATE_ID
  std::uint32_t channel_fd = 0;
};

// The longest value an option may have; the kernel's own limit is a little higher.
inline constexpr std::uint32_t kOptionValueMax = 32 * 1024;

RdmaCmRequest parse_rdma_cm_write(std::span<const std::uint8_t> command);

}  // namespace verbena::preload
