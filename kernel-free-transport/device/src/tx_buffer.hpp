// SPDX-License-Identifier: BSD-2-Clause
// A batch that is being sent, and its bytes. A device has several, so that several threads can send
// at once.
#pragma once

#include <array>

#include "verbena/device/device.hpp"

namespace verbena::device {

struct Device::TxBuffer {
  Lock lock;
  std::array<std::uint8_t, wire::TxBatch::kUsualBytes> bytes;
  wire::TxBatch batch{bytes};
};

}  // namespace verbena::device
