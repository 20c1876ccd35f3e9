// SPDX-License-Identifier: BSD-2-Clause
// Between `verbena capture` and the daemon, which says whose rings there are to read. What a
// context is told of it is CaptureOrder (messages.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/address.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

// From `verbena capture`, which makes a file of the rings that come from then on. Lasts as long as
// the connection. An empty device means all. With `both_ends` what one context sends to another is
// recorded by both.
struct Capture {
  std::string device;
  bool both_ends = false;
  VERBENA_MESSAGE(kCapture) { a(m.device, m.both_ends); }
};

// To `verbena capture`, before the context sends anything: who it is, with its ring as descriptor
// [0]. The emulator itself is the source of slot 0, one for each device.
struct CaptureSource {
  std::uint32_t number = 0;  // never used twice in a capture
  std::uint32_t pid = 0;
  std::string program;
  std::string device;
  IpAddress address;
  std::uint32_t slot = 0;
  VERBENA_MESSAGE(kCaptureSource) { a(m.number, m.pid, m.program, m.device, m.address, m.slot); }
};
// It has got this extra slot, too.
struct CaptureSlot {
  std::uint32_t number = 0;
  std::uint32_t slot = 0;
  VERBENA_MESSAGE(kCaptureSlot) { a(m.number, m.slot); }
};
// It has ended. What it left in its ring is still to be read.
struct CaptureSourceEnded {
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kCaptureSourceEnded) { a(m.number); }
};

}  // namespace verbena::control
