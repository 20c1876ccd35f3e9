// SPDX-License-Identifier: BSD-2-Clause
// A completion queue whose events are recorded.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "recording_sink.hpp"
#include "verbena/queue/completion_queue.hpp"

namespace verbena::queue::testing {

inline Completion completion(std::uint64_t id, std::uint32_t qpn = 1,
                             Status status = Status::kSuccess) {
  Completion c;
  c.id = id;
  c.qpn = qpn;
  c.status = status;
  return c;
}

class CompletionQueueTest : public ::testing::Test {
 protected:
  CompletionQueue make(std::uint32_t capacity, bool ignore_overrun = false) {
    CompletionQueue::Options options;
    options.capacity = capacity;
    options.cookie = &cookie_;
    options.ignore_overrun = ignore_overrun;
    return CompletionQueue(options, sink_);
  }
  static std::vector<std::uint64_t> drain(CompletionQueue& cq) {
    std::vector<std::uint64_t> ids;
    Completion c;
    while (cq.poll_one(c)) ids.push_back(c.id);
    return ids;
  }

  RecordingSink sink_;
  int cookie_ = 0;
};

}  // namespace verbena::queue::testing
