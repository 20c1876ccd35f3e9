// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/tag_matching.hpp"

#include <algorithm>

namespace verbena::queue {

TagMatching::TagMatching(const Options& options, CompletionQueue& cq) : options_(options), cq_(cq) {
  options_.max_tags = std::min(options_.max_tags, (1u << kIndexBits) - 1);
  options_.max_sges = std::clamp<std::uint32_t>(options_.max_sges, 1, kMaxSges);
}

TagMatching::Posted TagMatching::post(TagOperation& operation) {
  const Guard guard(lock_);
  if (operation.opcode == TagOpcode::kAdd) {
    // Refused operations change nothing, not even the phase.
    if (operation.sges.size() > options_.max_sges) return Posted::kTooManySges;
    if (used_ == options_.max_tags) return Posted::kFull;
  }
  if (operation.synchronises) synchronise(operation.unexpected_count);
  switch (operation.opcode) {
    case TagOpcode::kAdd:
      return add(operation);
    case TagOpcode::kDelete:
      complete(operation, CompletionOpcode::kTagDelete,
               remove(operation.handle) ? Status::kSuccess : Status::kTagMatching);
      break;
    case TagOpcode::kSync:
      complete(operation, CompletionOpcode::kTagSync, Status::kSuccess);
      break;
  }
  return Posted::kOk;
}

TagMatching::Posted TagMatching::add(TagOperation& operation) {
  // All allocations come first.
  Queue& queue = listed_[operation.mask][operation.tag];
  std::uint32_t index;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    index = static_cast<std::uint32_t>(entries_.size());
    sges_.resize((entries_.size() + 1) * options_.max_sges);
    entries_.emplace_back();
    if (free_.capacity() < entries_.capacity()) free_.reserve(entries_.capacity());
  }
  Entry& e = entries_[index];
  e.receive_id = operation.receive_id;
  e.tag = operation.tag;
  e.mask = operation.mask;
  e.sequence = next_sequence_++;
  e.sge_count = static_cast<std::uint32_t>(operation.sges.size());
  std::copy(operation.sges.begin(), operation.sges.end(), sges(index));
  ++queue.waiting;
  ++used_;
  operation.handle = (e.generation << kIndexBits) | index;
  e.where = Entry::Where::kWaiting;
  append(waiting_, index);
  list_waiting();
  complete(operation, CompletionOpcode::kTagAdd, Status::kSuccess);
  return Posted::kOk;
}

void TagMatching::append(List& list, std::uint32_t index) {
  Entry& e = entries_[index];
  e.previous = list.last;
  e.next = kNone;
  (list.is_empty() ? list.first : entries_[list.last].next) = index;
  list.last = index;
}

void TagMatching::take_out(List& list, std::uint32_t index) {
  const Entry& e = entries_[index];
  (e.previous == kNone ? list.first : entries_[e.previous].next) = e.next;
  (e.next == kNone ? list.last : entries_[e.next].previous) = e.previous;
}

void TagMatching::list(std::uint32_t index) {
  Entry& e = entries_[index];
  e.where = Entry::Where::kListed;
  Queue& queue = listed_.find(e.mask)->second.find(e.tag)->second;
  --queue.waiting;
  append(queue, index);
}

void TagMatching::unlist(std::uint32_t index) {
  const Entry& e = entries_[index];
  const auto by_tag = listed_.find(e.mask);
  const auto queue = by_tag->second.find(e.tag);
  if (e.where == Entry::Where::kListed) {
    take_out(queue->second, index);
  } else {
    take_out(waiting_, index);
    --queue->second.waiting;
  }
  if (!queue->second.is_empty() || queue->second.waiting != 0) return;
  by_tag->second.erase(queue);
  if (by_tag->second.empty()) listed_.erase(by_tag);
}

// A handle is valid once: the generation changes when the entry is released.
void TagMatching::release(std::uint32_t index) {
  Entry& e = entries_[index];
  e.where = Entry::Where::kFree;
  e.generation = (e.generation + 1) & ((1u << (32 - kIndexBits)) - 1);
  free_.push_back(index);
  --used_;
}

bool TagMatching::remove(std::uint32_t handle) {
  const std::uint32_t index = handle & ((1u << kIndexBits) - 1);
  if (index >= entries_.size()) return false;
  const Entry& e = entries_[index];
  if (e.where == Entry::Where::kFree || e.generation != handle >> kIndexBits) return false;
  unlist(index);
  release(index);
  return true;
}

void TagMatching::synchronise(std::uint32_t count) {
  handled_ = count;
  list_waiting();
}

// Lists the waiting entries once program and device agree again.
void TagMatching::list_waiting() {
  if (handled_ != unexpected_) return;
  for (std::uint32_t index = waiting_.first; index != kNone;) {
    const std::uint32_t next = entries_[index].next;
    list(index);
    index = next;
  }
  waiting_ = {};
}

void TagMatching::complete(const TagOperation& operation, CompletionOpcode opcode, Status status) {
  if (!operation.signaled && status == Status::kSuccess) return;
  Completion c;
  c.id = operation.id;
  c.opcode = opcode;
  c.status = status;
  if (unexpected_ != handled_) c.flags |= kTagSyncRequest;
  cq_.push(c, false);
}

bool TagMatching::match(std::uint64_t tag, ActiveReceive& out) noexcept {
  const Guard guard(lock_);
  std::optional<std::uint32_t> oldest;
  for (const auto& [mask, by_tag] : listed_) {
    const auto found = by_tag.find(tag & mask);
    if (found == by_tag.end() || found->second.is_empty()) continue;
    const std::uint32_t index = found->second.first;
    if (!oldest || entries_[index].sequence < entries_[*oldest].sequence) oldest = index;
  }
  if (!oldest) {
    ++unexpected_;
    list_waiting();
    return false;
  }
  const Entry& e = entries_[*oldest];
  out.id = e.receive_id;
  out.sge_count = e.sge_count;
  out.capacity = 0;
  for (std::uint32_t i = 0; i < e.sge_count; ++i) {
    out.sges[i] = sges(*oldest)[i];
    out.capacity += out.sges[i].length;
  }
  unlist(*oldest);
  release(*oldest);
  return true;
}

void TagMatching::take_back_unexpected() noexcept {
  const Guard guard(lock_);
  --unexpected_;
  list_waiting();
}

bool TagMatching::wants_synchronisation() const noexcept {
  const Guard guard(lock_);
  return unexpected_ != handled_;
}

bool TagMatching::is_far_behind() const noexcept {
  const Guard guard(lock_);
  return unexpected_ - handled_ > kFarBehind && unexpected_ - handled_ < ~kFarBehind;
}

std::uint32_t TagMatching::size() const noexcept {
  const Guard guard(lock_);
  return used_;
}

}  // namespace verbena::queue
