// SPDX-License-Identifier: BSD-2-Clause
// A shared receive queue as queue pairs see it: the queue, the protection domain of its buffers,
// and for XRC and tag matching its completion queue and its tagged buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "verbena/memory/registry.hpp"
#include "verbena/queue/completion_queue.hpp"
#include "verbena/queue/receive_queue.hpp"
#include "verbena/queue/tag_matching.hpp"

namespace verbena::queue {

struct SharedReceive {
  SharedReceive(const ReceiveQueue::Options& options, EventSink& events) : queue(options, events) {}
  ~SharedReceive() { leave_completions(); }
  SharedReceive(const SharedReceive&) = delete;
  // Sets the completion queue. Throws std::bad_alloc.
  void complete_to(CompletionQueue& where) {
    account = queue.attach(where);
    cq = &where;
  }
  // Detaches from the completion queue, before that is destroyed. This SRQ must have no users any
  // more.
  void leave_completions() noexcept {
    if (cq != nullptr) queue.detach(*std::exchange(cq, nullptr));
  }
  ReceiveQueue queue;
  memory::DomainId domain = 0;
  std::uint32_t number = 0;           // XRC SRQ number
  std::uint32_t xrc_domain = 0;       // 0: not an XRC SRQ
  CompletionQueue* cq = nullptr;      // XRC and tag matching: where its completions go
  std::uint32_t account = 0;          // the account there
  std::unique_ptr<TagMatching> tags;  // tag matching
};

class SharedReceiveDirectory {
 public:
  virtual ~SharedReceiveDirectory() = default;
  // Returns the XRC SRQ with this number in this XRC domain, or null.
  virtual SharedReceive* find(std::uint32_t number, std::uint32_t xrc_domain) const noexcept = 0;
  // Says whether this device assigns such numbers: an SRQ's number tells its owner, like a queue
  // pair's.
  virtual bool is_own(std::uint32_t number) const noexcept = 0;
  // Opens a line: a queue pair number whose packets are answers for this receiver. Returns nothing
  // if all numbers are taken. Both calls need the receive lock.
  virtual std::optional<Qpn> open_line(Qpn receiver) = 0;
  virtual void close_line(Qpn line) = 0;
};

}  // namespace verbena::queue
