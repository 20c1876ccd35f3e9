// SPDX-License-Identifier: BSD-2-Clause
// UD: a datagram goes into a receive, behind the 40 bytes of its GRH, or is dropped, with its
// reason counted.
//
// Part of a responder.
#pragma once

#include <optional>

#include "verbena/queue/endpoint.hpp"
#include "verbena/responder/receive_in_use.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::responder {

// What has `failed` ends the queue pair: the receive cannot be written to.
void take_datagram(queue::Endpoint& endpoint, ReceiveInUse& receive, const wire::PacketView& packet,
                   const wire::RxDatagram& datagram, std::optional<ReceiveInUse::Failed>& failed);

}  // namespace verbena::responder
