// SPDX-License-Identifier: BSD-2-Clause
// Turns a plain struct into a message of the control protocol.
#pragma once

#include "verbena/control/device_info.hpp"
#include "verbena/control/protocol.hpp"

namespace verbena::control {

// Every message struct has `kType` and a static `fields(archive, self)`.
#define VERBENA_MESSAGE(type_)                             \
  static constexpr MessageType kType = MessageType::type_; \
  VERBENA_FIELDS

}  // namespace verbena::control
