// SPDX-License-Identifier: BSD-2-Clause
// What the program is told of its requests: one completion for each that is signaled or failed,
// which frees the slots of those before it.
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

  // Of the oldest request of this queue. In order, and each once.
  void complete(const SendQueue& queue, queue::Status status);
  // The program is told of nothing that came before.
  void forget() { unreported_ = 0; }

 private:
  queue::Endpoint& endpoint_;
  std::uint16_t unreported_ = 0;  // requests done since the last completion: it frees their slots
};

}  // namespace verbena::requester
