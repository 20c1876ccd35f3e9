// SPDX-License-Identifier: BSD-2-Clause
// The data that answers bring: whether it is what was asked for, and its way into the buffers of
// the request.
#pragma once

#include <cstdint>

#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/send_queue.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::requester {

// An answer to the request in that place, which awaits data. What is wrong has been told.
queue::Status take_answer(queue::Endpoint& endpoint, const SendQueue& queue, std::uint32_t position,
                          const wire::PacketView& packet);

}  // namespace verbena::requester
