// A shared receive queue as queue pairs meet it: the queue, and for XRC the completion queue and
// the protection domain that come with it.
#pragma once

#include <cstdint>

#include "verbena/memory/registry.hpp"
#include "verbena/queue/completion_queue.hpp"
#include "verbena/queue/receive_queue.hpp"

namespace verbena::queue {

struct SharedReceive {
  SharedReceive(const ReceiveQueue::Options& options, EventSink& events) : queue(options, events) {}
  ReceiveQueue queue;
  memory::DomainId domain = 0;
  std::uint32_t number = 0;          // XRC SRQ number
  std::uint32_t xrc_domain = 0;      // 0: not an XRC SRQ
  CompletionQueue* cq = nullptr;     // XRC and tag matching: where its completions go
};

class SharedReceiveDirectory {
 public:
  virtual ~SharedReceiveDirectory() = default;
  // The XRC SRQ of that number in that XRC domain, or null.
  virtual SharedReceive* find(std::uint32_t number, std::uint32_t xrc_domain) const noexcept = 0;
};

}  // namespace verbena::queue
