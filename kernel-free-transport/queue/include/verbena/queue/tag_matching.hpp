// SPDX-License-Identifier: BSD-2-Clause
// The tagged side of a tag-matching SRQ (ibv_post_srq_ops): buffers that wait for messages by tag,
// matched in posting order, and the counter by which program and device agree on which messages
// were unexpected.
//
// A message matches an entry if message.tag & entry.mask == entry.tag. Each mask in use has a
// table, so exact tags cost the same with one entry and with thousands. Phase synchronisation: a
// tagged message without a match increments `unexpected`. Until the program has said (TM_SYNC) that
// it has handled as many, new entries take no part in matching, because the message that they are
// for may already be with the program.
//
// One lock protects it. Posting threads and the receiving thread take it.
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
  bool synchronises = false;           // unexpected_count is valid
  std::uint32_t unexpected_count = 0;  // unexpected messages that the program has handled
  std::uint32_t handle = 0;            // DELETE: the entry; ADD: returned
  std::uint64_t receive_id = 0;        // ADD, like all members below
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

  // Moves the oldest entry that matches the tag to `out`. If there is none, the message counts as
  // unexpected in the same step, so no entry can be added in between.
  bool match(std::uint64_t tag, ActiveReceive& out) noexcept;
  // Takes back the count of a message that found no plain receive either and will come again.
  void take_back_unexpected() noexcept;
  // Says whether the program is behind: then completions of its list operations ask it to
  // synchronise.
  bool wants_synchronisation() const noexcept;
  // How far behind the program must be before completions of unexpected messages also ask, because
  // a program may add nothing for a long time.
  static constexpr std::uint32_t kFarBehind = 256;
  bool is_far_behind() const noexcept;

  std::uint32_t size() const noexcept;
  const Options& options() const { return options_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // A list of entries in posting order.
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
  // The listed entries of one tag and mask, and the number of entries that wait to be listed. It is
  // allocated when an entry is added, so that listing the entry on the receive path allocates
  // nothing.
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
  // Removes an entry from its list.
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
  std::uint32_t unexpected_ = 0;  // counted by the device
  std::uint32_t handled_ = 0;     // handled by the program
};

}  // namespace verbena::queue
