// SPDX-License-Identifier: BSD-2-Clause
// The tagged side of a tag-matching SRQ (ibv_post_srq_ops): buffers that wait for messages by tag,
// matched in posting order, and the counter by which the program and the device agree on what was
// unexpected.
//
// A message matches an entry when message.tag & entry.mask == entry.tag. Entries are found through
// a table for each mask that is in use, so that exact tags cost the same with one entry and with
// thousands. Phase synchronisation: a tagged message that matched nothing raises `unexpected`;
// until the program has said (TM_SYNC) that it has handled as many, entries that it adds wait
// outside of the matching, since the message that they are for may already be on the program's
// side.
//
// One lock, taken by posting threads and by the receiving one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/queue/completion_queue.hpp"
#include "verbena/queue/receive_queue.hpp"
#include "verbena/queue/work.hpp"

namespace verbena::queue {

enum class TagOpcode : std::uint8_t { kAdd, kDelete, kSync };

struct TagOperation {
  std::uint64_t id = 0;
  TagOpcode opcode = TagOpcode::kAdd;
  bool signaled = false;
  bool synchronises = false;           // unexpected_count is meant
  std::uint32_t unexpected_count = 0;  // unexpected messages that the program has handled
  std::uint32_t handle = 0;            // DELETE: which; ADD: the answer
  std::uint64_t receive_id = 0;        // ADD, as all below
  std::uint64_t tag = 0;
  std::uint64_t mask = 0;
  std::span<const Sge> sges;
};

class TagMatching {
 public:
  struct Options {
    std::uint32_t max_tags = 0;
    std::uint32_t max_sges = 1;
  };
  TagMatching(const Options& options, CompletionQueue& cq);

  enum class Posted : std::uint8_t { kOk, kFull, kTooManySges };
  Posted post(TagOperation& operation);

  // The oldest entry that the tag matches leaves into `out`. When there is none the message counts
  // as unexpected, in the same step: no entry can be added in between.
  bool match(std::uint64_t tag, ActiveReceive& out) noexcept;
  // That message found no plain receive either and will come again.
  void take_back_unexpected() noexcept;
  // Whether the program is behind: completions of its list operations ask it to synchronise.
  bool wants_synchronisation() const noexcept;
  // By so much that those of unexpected messages ask, too. A program may add nothing for long.
  static constexpr std::uint32_t kFarBehind = 256;
  bool is_far_behind() const noexcept;

  std::uint32_t size() const noexcept;
  const Options& options() const { return options_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // Entries in the order of their posting.
  struct List {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
    bool is_empty() const { return first == kNone; }
  };
  struct Entry {
    std::uint64_t receive_id = 0;
    std::uint64_t tag = 0;
    std::uint64_t mask = 0;
    std::uint64_t sequence = 0;
    std::uint32_t generation = 0;
    std::uint32_t sge_count = 0;
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    enum class Where : std::uint8_t { kFree, kWaiting, kListed } where = Where::kFree;
  };
  // The listed entries of one tag and mask, and how many more wait to be: made when an entry is
  // added, so that listing it, on the receive path, allocates nothing.
  struct Queue : List {
    std::uint32_t waiting = 0;
  };
  using ByTag = std::unordered_map<std::uint64_t, Queue>;

  Posted add(TagOperation& operation);
  bool remove(std::uint32_t handle);
  void synchronise(std::uint32_t count);
  void list_waiting();
  void append(List& list, std::uint32_t index);
  void take_out(List& list, std::uint32_t index);
  void list(std::uint32_t index);
  // Out of the list that it is in.
  void unlist(std::uint32_t index);
  void release(std::uint32_t index);
  void complete(const TagOperation& operation, CompletionOpcode opcode, Status status);
  Sge* sges(std::uint32_t index) { return sges_.data() + std::size_t{index} * options_.max_sges; }

  static constexpr std::uint32_t kIndexBits = 20;

  Options options_;
  CompletionQueue& cq_;
  mutable Lock lock_;
  std::vector<Entry> entries_;
  std::vector<Sge> sges_;
  std::vector<std::uint32_t> free_;
  std::map<std::uint64_t, ByTag> listed_;  // by mask
  List waiting_;                           // added while out of phase
  std::uint64_t next_sequence_ = 0;
  std::uint32_t used_ = 0;
  std::uint32_t unexpected_ = 0;  // seen by the device
  std::uint32_t handled_ = 0;     // by the program
};

}  // namespace verbena::queue
