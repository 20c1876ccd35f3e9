// SPDX-License-Identifier: BSD-2-Clause
// The messages between `verbena capture` and the daemon, which tells the command whose rings it has
// to read. What the daemon tells a context is CaptureOrder (messages.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/address.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

// A request by `verbena capture`, which writes the content of the rings that it then gets into a
// file. The capture lasts as long as the connection. An empty device means all. With `both_ends`
// sender and receiver record a packet that goes from one context to another.
struct Capture {
  std::string device;
  bool both_ends = false;
  VERBENA_MESSAGE(kCapture) { a(m.device, m.both_ends); }
};

// Tells `verbena capture` about a context, with the context's ring as descriptor [0], before the
// context sends anything. The daemon itself is the source with slot 0, one for each device.
struct CaptureSource {
  std::uint32_t number = 0;  // never used twice in a capture
  std::uint32_t pid = 0;
  std::string program;
  std::string device;
  IpAddress address;
  std::uint32_t slot = 0;
  VERBENA_MESSAGE(kCaptureSource) { a(m.number, m.pid, m.program, m.device, m.address, m.slot); }
};
// Tells `verbena capture` that a source has got this extra slot.
struct CaptureSlot {
  std::uint32_t number = 0;
  std::uint32_t slot = 0;
  VERBENA_MESSAGE(kCaptureSlot) { a(m.number, m.slot); }
};
// Tells `verbena capture` that a source has ended. Records that it left in its ring are still read.
struct CaptureSourceEnded {
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kCaptureSourceEnded) { a(m.number); }
};

}  // namespace verbena::control
