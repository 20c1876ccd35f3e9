// SPDX-License-Identifier: BSD-2-Clause
// What the parts of a requester work on: a queue pair's endpoint and a send queue.
#pragma once

#include "../queue/endpoint_fixture.hpp"
#include "verbena/requester/send_queue.hpp"

namespace verbena::requester::testing {

class SenderTest : public queue::testing::EndpointTest {
 protected:
  SenderTest() { queue_.count_freed_by(&freed_); }

  queue::FreedSlots freed_;
  SendQueue queue_{{.capacity = 4, .max_sges = 2, .max_inline = 64, .datagram = true}};
};

}  // namespace verbena::requester::testing
