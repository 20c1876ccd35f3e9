// SPDX-License-Identifier: BSD-2-Clause
// UD: puts a datagram into a receive, behind the 40 bytes of its GRH, or drops it and counts the
// reason.
//
// Part of a responder.
#pragma once

#include <optional>

#include "verbena/queue/endpoint.hpp"
#include "verbena/responder/receive_in_use.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::responder {

// If the receive cannot be written to, sets `failed`: the queue pair then ends.
void take_datagram(queue::Endpoint& endpoint, ReceiveInUse& receive, const wire::PacketView& packet,
                   const wire::RxDatagram& datagram, std::optional<ReceiveInUse::Failed>& failed);

}  // namespace verbena::responder
