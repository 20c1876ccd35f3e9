// SPDX-License-Identifier: BSD-2-Clause
// The data that answers bring: checks whether it is what was asked for, and puts it into the
// buffers of the request.
#pragma once

#include <cstdint>

#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/send_queue.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::requester {

// Takes an answer to the request at `position`, which awaits data. Returns what is wrong with it,
// if anything is.
queue::Status take_answer(queue::Endpoint& endpoint, const SendQueue& queue, std::uint32_t position,
                          const wire::PacketView& packet);

}  // namespace verbena::requester
