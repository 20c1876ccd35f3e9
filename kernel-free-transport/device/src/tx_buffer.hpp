// The bytes of one batch on their way out. A device has a few, so that several threads can send.
#pragma once

#include <array>

#include "verbena/device/device.hpp"

namespace verbena::device {

struct Device::TxBuffer {
  // As much as one UDP_SEGMENT send may carry.
  static constexpr std::size_t kBytes = 65507;
  Lock lock;
  std::array<std::uint8_t, kBytes> bytes;
  wire::TxBatch batch{bytes};
};

}  // namespace verbena::device
