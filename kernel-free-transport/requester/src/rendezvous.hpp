// SPDX-License-Identifier: BSD-2-Clause
// What the device sends on its own for a tag-matching SRQ: the READ of announced data, and FIN.
#pragma once

#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/send_queue.hpp"

namespace verbena::requester {

// Posts the transfer of a matched rendezvous: a READ into its buffer, and the message that says
// that it is done (FIN). Returns false while there is no room.
bool post_rendezvous(queue::Endpoint& endpoint, SendQueue& queue,
                     const queue::Rendezvous& rendezvous);
// Completes the READ of a rendezvous. `rare` belongs to `entry`.
void complete_rendezvous(queue::Endpoint& endpoint, const SendEntry& entry, const Rare& rare,
                         queue::Status status);

}  // namespace verbena::requester
