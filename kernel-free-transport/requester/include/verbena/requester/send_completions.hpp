// SPDX-License-Identifier: BSD-2-Clause
// What the program is told about its requests: one completion for each request that is signaled or
// failed. It also frees the slots of the requests before it.
//
// Part of a requester.
#pragma once

#include <cstdint>

#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/send_queue.hpp"

namespace verbena::requester {

class SendCompletions {
 public:
  explicit SendCompletions(queue::Endpoint& endpoint) : endpoint_(endpoint) {}

  // Completes the oldest request of this queue. Called in order, once for each request.
  void complete(const SendQueue& queue, queue::Status status);
  // Forgets requests of which the program will not be told.
  void forget() { unreported_ = 0; }

 private:
  queue::Endpoint& endpoint_;
  std::uint16_t unreported_ = 0;  // requests whose slots the next completion frees
};

}  // namespace verbena::requester
