// SPDX-License-Identifier: BSD-2-Clause
// A queue of posted receives, of one queue pair or shared by many (SRQ): a FIFO ring of fixed-size
// entries. A receive leaves the queue when a message begins to use it. It is copied to its user
// then, so that users of a shared queue may finish in any order. Its slot becomes free when its
// completion was polled (freed_slots.hpp). The queue has its own lock; in a queue of one queue pair
// it is not contended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/queue/completion_queue.hpp"
#include "verbena/queue/events.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::queue {

inline constexpr std::size_t kMaxSges = 32;

// A receive in use, with its buffers.
struct ActiveReceive {
  std::uint64_t id = 0;
  std::uint32_t sge_count = 0;
  std::uint64_t capacity = 0;  // sum of the lengths
  std::array<Sge, kMaxSges> sges;
};

class ReceiveQueue {
 public:
  struct Options {
    std::uint32_t capacity = 1;
    std::uint32_t max_sges = 1;
    void* cookie = nullptr;  // for the events of a shared queue
    bool shared = false;
  };
  ReceiveQueue(const Options& options, EventSink& events);

  // The last two are a queue pair's answers.
  enum class Posted : std::uint8_t { kOk, kFull, kTooManySges, kNoMemory, kWrongState, kNoQueue };
  Posted post(const RecvRequest& request) noexcept;
  // Moves the oldest receive to `out`, and sends the limit event if due. Returns false if there is
  // none.
  bool take(ActiveReceive& out) noexcept;
  // Removes all receives. Their completions free no slots any more.
  void clear() noexcept;

  // Says that receives of this queue complete to `cq`, and returns the account that counts their
  // slots. All users of one `cq` share it. Throws std::bad_alloc.
  std::uint32_t attach(CompletionQueue& cq);
  void detach(CompletionQueue& cq) noexcept;
  // Frees the slot of a receive that was taken but will not complete.
  void give_back() noexcept;

  // Arms SRQ_LIMIT_REACHED, which fires once when fewer than `limit` receives remain. 0 disarms it.
  bool set_limit(std::uint32_t limit) noexcept;
  std::uint32_t limit() const noexcept {
    const Guard guard(lock_);
    return limit_;
  }
  bool resize(std::uint32_t capacity);

  std::uint32_t count() const noexcept { return count_hint_.read_relaxed(); }
  std::uint32_t capacity() const noexcept {
    const Guard guard(lock_);
    return capacity_;
  }
  std::uint32_t max_sges() const noexcept { return max_sges_; }
  bool is_shared() const noexcept { return shared_; }
  void* cookie() const noexcept { return cookie_; }

 private:
  struct EntryHead {
    std::uint64_t id;
    std::uint32_t sge_count;
    std::uint32_t unused;
  };
  struct Attached {
    CompletionQueue* cq;
    std::uint32_t account;
    std::uint32_t users;
    std::uint32_t total;  // slots freed there, when last read
  };
  bool look_for_freed() noexcept;
  void settle(Attached& attached) noexcept;
  std::byte* entry(std::uint32_t position) const {
    // Positions are below twice the capacity, so a subtraction wraps them.
    return storage_.get() +
           std::size_t{position >= capacity_ ? position - capacity_ : position} * stride_;
  }
  bool allocate() noexcept;

  EventSink& events_;
  void* cookie_;
  std::unique_ptr<std::byte[]> storage_;  // allocated at the first post
  std::uint32_t capacity_;
  std::uint32_t max_sges_;
  std::size_t stride_;
  std::uint32_t head_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t held_ = 0;  // slots in use, as last seen: posted, or not polled yet
  std::vector<Attached> attached_;
  Published<std::uint32_t> count_hint_{0};
  std::uint32_t limit_ = 0;
  bool shared_;
  mutable Lock lock_;
};

}  // namespace verbena::queue
