// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/requester/requester.hpp"

#include <algorithm>
#include <utility>

namespace verbena::requester {

using queue::Status;
using queue::WorkOpcode;

namespace {

queue::CompletionOpcode completion_opcode(WorkOpcode opcode) {
  using C = queue::CompletionOpcode;
  switch (opcode) {
    case WorkOpcode::kSend:
    case WorkOpcode::kSendImmediate:
    case WorkOpcode::kSendInvalidate:
      return C::kSend;
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteImmediate:
      return C::kWrite;
    case WorkOpcode::kRead:
      return C::kRead;
    case WorkOpcode::kCompareSwap:
      return C::kCompareSwap;
    case WorkOpcode::kFetchAdd:
      return C::kFetchAdd;
    case WorkOpcode::kAtomicWrite:
      return C::kAtomicWrite;
    case WorkOpcode::kFlush:
      return C::kFlush;
    case WorkOpcode::kLocalInvalidate:
      return C::kLocalInvalidate;
    case WorkOpcode::kBindWindow:
      return C::kBindWindow;
  }
  return C::kSend;
}

}  // namespace

Requester::Requester(queue::Endpoint& endpoint, const SendQueue::Options& options, void* member)
    : endpoint_(endpoint), turn_(member), queue_(options) {}

void Requester::start(Psn first) {
  psns_ = SendPsns(first);
  foreign_answer_.reset();
  cursor_ = queue_.head();
  retries_left_ = reliability_.retry_count;
  rnr_wait_.renew(reliability_.rnr_retry);
  credits_ = {};
  timer_.reset();
  silence_ = {};
  repair_ = {};
  sending_ = true;
}

void Requester::share_path(std::shared_ptr<FlowShare> share) {
  turn_.share_with(std::move(share));
  window_.set_capacity(endpoint_.path->capacity_packets(endpoint_.mtu + 32),
                       endpoint_.path->capacity_packets(64));
}

void Requester::reset() {
  queue_.clear();
  unreported_ = 0;
  psns_ = {};
  cursor_ = 0;
  responses_pending_ = reads_in_flight_ = 0;
  ack_requests_ = {};
  rnr_wait_.end();
  forget_answers();
  repair_.allow_going_back();
  sending_ = draining_ = false;
  poisoned_.reset();
  give_up_turn();
}

// That are awaited, or came early.
void Requester::forget_answers() {
  timer_.forget();
  repair_.forget();
  early_.clear();
}

void Requester::flush() {
  std::uint32_t flushed = 0;
  std::uint64_t first = 0;
  std::string_view opcode;
  for (std::uint32_t position = queue_.head(); position != queue_.tail(); ++position) {
    const SendEntry& entry = queue_.at(position);
    if (!entry.internal && flushed++ == 0) {
      first = entry.id;
      opcode = to_string(entry.opcode);
    }
    complete(entry, Status::kFlushed);
    queue_.pop(entry);
  }
  if (flushed != 0) queue::tell_flushed_sends(endpoint_, opcode, first, flushed);
  cursor_ = queue_.head();
  psns_.skip_all();
  responses_pending_ = reads_in_flight_ = 0;
  rnr_wait_.end();
  forget_answers();
  poisoned_.reset();
  give_up_turn();
}

// The oldest one.
void Requester::complete(const SendEntry& entry, Status status) {
  if (entry.internal) [[unlikely]] {
    return complete_rendezvous(entry, queue_.rare(queue_.head()), status);
  }
  ++unreported_;
  if (status == Status::kSuccess) {
    if (!endpoint_.signal_all && (entry.flags & queue::kSignaled) == 0) return;
  } else if (status != Status::kFlushed) {
    endpoint_.port->requester_errors.add();
    queue::tell_failure(endpoint_, status, to_string(entry.opcode), entry.id,
                        endpoint_.reason.text());
  }
  const auto make = [&](queue::Completion& c) {
    c.id = entry.id;
    c.status = status;
    c.opcode = completion_opcode(entry.opcode);
    c.vendor_error = static_cast<std::uint32_t>(status);
    c.byte_length = entry.length;
    c.qpn = endpoint_.number.value();
    c.account = endpoint_.send_account;
    c.slots = std::exchange(unreported_, 0);
  };
  if (!endpoint_.send_cq->push_made(false, make)) endpoint_.fail_for_want_of_room();
}

// Completes, in order, what has been answered.
void Requester::retire() {
  while (!queue_.is_empty()) {
    const SendEntry& entry = queue_.at(queue_.head());
    if (entry.is_local()) {
      if (!entry.done) break;
    } else {
      if (!entry.numbered || !entry.last().is_before(psns_.una())) break;
      if (entry.wants_response()) --responses_pending_;
    }
    complete(entry, Status::kSuccess);
    if (cursor_ == queue_.head()) ++cursor_;
    queue_.pop(entry);
  }
  if (poisoned_ && queue_.head() == cursor_) fail_head(*poisoned_);
}

void Requester::poison(std::uint32_t position, Status status) {
  poisoned_ = status;
  if (queue_.head() == position) fail_head(status);
}

void Requester::fail_head(Status status) {
  poisoned_.reset();
  if (queue_.is_empty()) return;
  if (status == Status::kRetryExceeded) endpoint_.port->retries_exceeded.add();
  if (status == Status::kRnrRetryExceeded) endpoint_.port->rnr_retries_exceeded.add();
  const SendEntry& entry = queue_.at(queue_.head());
  queue::blame(endpoint_, "%s with wr_id %llu completes with: %s", to_string(entry.opcode).data(),
               static_cast<unsigned long long>(entry.id), to_string(status).data());
  complete(entry, status);
  if (cursor_ == queue_.head()) ++cursor_;
  queue_.pop(entry);
  sending_ = false;
  if (is_reliable()) {
    endpoint_.fail();
  } else {
    endpoint_.fail_send_queue();
  }
}

bool Requester::is_consistent() const {
  if (!psns_.is_consistent()) return false;
  if (cursor_ - queue_.head() > queue_.tail() - queue_.head()) return false;
  std::uint32_t pending = 0;
  for (std::uint32_t p = queue_.head(); p != queue_.tail(); ++p) {
    const SendEntry& e = queue_.at(p);
    if (e.numbered && e.wants_response()) ++pending;
  }
  return pending == responses_pending_;
}

}  // namespace verbena::requester
