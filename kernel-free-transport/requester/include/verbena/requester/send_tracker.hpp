// SPDX-License-Identifier: BSD-2-Clause
// The requests of a send queue, and how far each is: which one is next to be sent and from which of
// its packets on, which ones were answered, and how many await data. A place in the queue and a PSN
// are two names of one position; they move together, and only here.
//
//         head                     cursor                    tail       places in the queue
//    ------|-------------------------|-------------------------|------>
//         una                      cursor                    next       PSNs (send_psns.hpp)
//          sent, not answered yet      to be sent, maybe again
//
// A request that fails here, because its buffers are gone, completes behind those before it. Until
// then the cursor stops at it.
//
// Part of a requester.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "verbena/requester/send_psns.hpp"
#include "verbena/requester/send_queue.hpp"

namespace verbena::requester {

class SendTracker {
 public:
  explicit SendTracker(const SendQueue::Options& options) : queue_(options) {}

  SendQueue& queue() { return queue_; }
  const SendQueue& queue() const { return queue_; }
  const SendPsns& psns() const { return psns_; }

  // --- a connection begins and ends ---
  // RTS: requests that lie in the queue get PSNs from this one on.
  void start(Psn first) {
    psns_ = SendPsns(first);
    cursor_ = queue_.head();
  }
  // All requests have been popped, and no answer is awaited any more.
  void skip_all();
  // Returns to the state after creation.
  void reset();

  // --- what is to be sent ---
  std::uint32_t cursor() const { return cursor_; }
  bool has_unsent() const { return cursor_ != queue_.tail(); }
  // Requests that are not sent, of which the first may have been sent in part.
  std::uint32_t unsent() const { return queue_.tail() - cursor_; }
  // The bytes of data of those requests, if all but the first were like the last one.
  std::uint64_t unsent_bytes(std::uint32_t mtu) const;
  // The request at the cursor is sent for the first time, in so many packets.
  void number(SendEntry& entry, std::uint32_t packets) {
    entry.packets = packets;
    entry.first = psns_.give(packets);
    entry.numbered = true;
    if (entry.wants_response()) ++responses_pending_;
  }
  // `psns` PSNs of the request at the cursor went out.
  void sent(const SendEntry& entry, std::uint32_t psns) {
    psns_.send(psns);
    if (psns_.cursor().is_after(entry.last())) ++cursor_;
  }
  // Sets how many request packets may await data at a time (max_rd_atomic; at least one).
  void set_reads_most(std::uint8_t most) { reads_most_ = std::max<std::uint8_t>(most, 1); }
  bool may_ask_for_data() const { return reads_in_flight_ < reads_most_; }
  // A request packet was sent that asks for data.
  void asked_for_data() { ++reads_in_flight_; }
  // One packet of the request at the cursor went out, and no answer will come. Returns true if it
  // was the last one.
  bool sent_unreliably(const SendEntry& entry) {
    psns_.move_cursor(psns_.cursor() + 1);
    if (!psns_.cursor().is_after(entry.last())) return false;
    psns_.await_none();
    ++cursor_;
    return true;
  }
  // The request at the cursor takes no packets, and has been carried out.
  void pass_local() { ++cursor_; }
  // Returns the place of the request to which this PSN was given; the queue's tail if there is none
  // (any more).
  std::uint32_t place_of(Psn psn) const;
  // Everything from this PSN on has to be sent again.
  void go_back_to(Psn psn);

  // --- what failed here ---
  // The request at `position` failed, so the cursor stops at it.
  void stop_at(std::uint32_t position, queue::Status status) {
    cursor_ = position;
    failed_ = status;
  }
  bool is_stopped() const { return failed_.has_value(); }
  bool is_stopped_at_oldest() const { return failed_ && queue_.head() == cursor_; }
  // The status of the request at which the cursor is stopped.
  queue::Status failure() const { return *failed_; }
  // The cursor may go on. A request that failed here fails again when it is sent.
  void resume() { failed_.reset(); }

  // --- what is answered ---
  // Returns whether requests that were begun await data.
  bool has_responses_pending() const { return responses_pending_ != 0; }
  // How far an answer reaches that says that everything before `upto` has arrived: data that did
  // not come is still to come.
  struct Reach {
    Psn upto;
    bool is_complete;  // nothing in between awaits data
  };
  Reach reach_of(Psn upto) const {
    if (!psns_.una().is_before(upto)) return {psns_.una(), true};
    // Usually nothing awaits data.
    if (responses_pending_ == 0) [[likely]]
      return {upto, true};
    return reach_before_data(upto);
  }
  // Everything before `upto` was answered. Returns true if some of that was to be sent again.
  bool acknowledge(Psn upto) {
    psns_.acknowledge(upto);
    if (!psns_.cursor().is_before(upto)) return false;
    go_back_to(upto);
    return true;
  }
  // All data has come that `reads` request packets asked for.
  void data_came(std::uint32_t reads) { reads_in_flight_ -= std::min(reads_in_flight_, reads); }

  // --- what is done ---
  // Returns the place of the oldest request that takes packets; the queue's tail if there is none.
  std::uint32_t oldest_with_packets() const {
    std::uint32_t position = queue_.head();
    while (position != queue_.tail() && queue_.at(position).is_local()) ++position;
    return position;
  }
  // Returns the oldest request if it has been answered or carried out; else null.
  const SendEntry* oldest_done() const {
    if (queue_.is_empty()) return nullptr;
    const SendEntry& oldest = queue_.at(queue_.head());
    const bool is_done =
        oldest.is_local() ? oldest.done : oldest.numbered && oldest.last().is_before(psns_.una());
    return is_done ? &oldest : nullptr;
  }
  // Removes the oldest request, which has completed with whatever status.
  void pop(const SendEntry& oldest) {
    if (oldest.wants_response() && oldest.numbered) --responses_pending_;
    if (cursor_ == queue_.head()) ++cursor_;
    queue_.pop(oldest);
  }
  // Returns whether some of the request at the cursor went out, or it was carried out.
  bool has_begun(const SendEntry& entry) const {
    if (entry.is_local()) return entry.done;
    return entry.numbered &&
           (psns_.sent().is_after(entry.first) || psns_.cursor().is_after(entry.first));
  }
  // Returns whether everything that was begun is done.
  bool is_drained() const {
    if (!psns_.is_all_answered() || queue_.head() != cursor_) return false;
    return queue_.is_empty() || !has_begun(queue_.at(cursor_));
  }

  bool is_consistent() const;

 private:
  Reach reach_before_data(Psn upto) const;

  SendQueue queue_;
  SendPsns psns_;
  std::uint32_t cursor_ = 0;
  std::uint32_t responses_pending_ = 0;  // requests that await data
  std::uint32_t reads_in_flight_ = 0;    // request packets that asked for data
  std::uint8_t reads_most_ = 1;
  std::optional<queue::Status> failed_;  // why the request at the cursor failed here
};

}  // namespace verbena::requester
