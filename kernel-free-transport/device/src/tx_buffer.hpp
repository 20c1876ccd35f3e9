// SPDX-License-Identifier: BSD-2-Clause
// What is on its way out: a batch and its bytes. A device has a few, so that several threads can
// send.
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
