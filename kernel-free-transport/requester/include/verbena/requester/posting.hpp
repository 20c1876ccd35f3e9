// SPDX-License-Identifier: BSD-2-Clause
// Posting: checks a request and copies it into the send queue.
#pragma once

#include <cstdint>

#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/send_queue.hpp"

namespace verbena::requester {

enum class Posted : std::uint8_t {
  kOk,
  kQueueFull,    // ENOMEM
  kNoMemory,     // ENOMEM
  kTooManySges,  // EINVAL, as all below
  kInlineTooLong,
  kMessageTooLong,
  kWrongOpcode,      // not an operation of this transport
  kNoAddress,        // UD without an address handle
  kBadLength,        // atomics are 8 bytes
  kInlineForbidden,  // READ and atomics have nothing to send
  kInlineGone,       // EFAULT
};
const char* to_string(Posted posted);

// Returns what post() would return, without posting. It looks for room for this request only, so a
// caller that checks several in a row has to see that there is room for all.
Posted would_post(const queue::Endpoint& endpoint, const SendQueue& queue,
                  const queue::SendRequest& request);
// Adds the request to the queue, or returns why not.
Posted post(const queue::Endpoint& endpoint, SendQueue& queue, const queue::SendRequest& request);

}  // namespace verbena::requester
