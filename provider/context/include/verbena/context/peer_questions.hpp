// SPDX-License-Identifier: BSD-2-Clause
// What becomes of time-outs: the emulator tells of peers that do not answer, and asks about queue
// pairs here whose peers wait. Under the client's lock.
#pragma once

#include "verbena/control/peer_messages.hpp"
#include "verbena/device/device.hpp"
#include "verbena/wire/peer_report.hpp"

namespace verbena::provider {

wire::PeerReport report_of(const control::PeerNews& news);
control::QpAnswer answer_to(const control::QpQuestion& question, device::Device& device);

}  // namespace verbena::provider
