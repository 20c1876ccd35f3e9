// SPDX-License-Identifier: BSD-2-Clause
// The emulator's part in time-outs: it reports about peers that do not answer, and asks about queue
// pairs here that peers wait for. Called under the client's lock.
#pragma once

#include "verbena/control/peer_messages.hpp"
#include "verbena/device/device.hpp"
#include "verbena/wire/peer_report.hpp"

namespace verbena::provider {

wire::PeerReport report_of(const control::PeerNews& news);
control::QpAnswer answer_to(const control::QpQuestion& question, device::Device& device);

}  // namespace verbena::provider
