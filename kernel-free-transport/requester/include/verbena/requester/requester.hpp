// SPDX-License-Identifier: BSD-2-Clause
// The sending half of a queue pair (IBTA Vol 1, 9.7.3 and 9.7.5): turns posted requests into
// packets, and responses into completions, in order. Owned by the queue pair and called under its
// lock; time comes in as an argument, packets go out through the batch that it is given.
//
// Reliable transports keep a request until it is answered. SendTracker knows how far each request
// is; `una` is the oldest PSN that is not acknowledged.
//
// After a NAK, or a response that shows a gap, the packet that is missing at `una` is sent again
// alone: a peer that keeps what came early needs no more. If the peer does not keep it, or if
// several packets are missing in a row, all from `una` on is sent again. After a short silence a
// probe asks (one packet; its answer tells what is missing); the local ACK timeout counts retries
// as the specification wants.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/ack_requests.hpp"
#include "verbena/requester/answer_timer.hpp"
#include "verbena/requester/credits.hpp"
#include "verbena/requester/early_answers.hpp"
#include "verbena/requester/emission.hpp"
#include "verbena/requester/pacing.hpp"
#include "verbena/requester/posting.hpp"
#include "verbena/requester/repair.hpp"
#include "verbena/requester/retries.hpp"
#include "verbena/requester/rnr_wait.hpp"
#include "verbena/requester/send_completions.hpp"
#include "verbena/requester/send_tracker.hpp"
#include "verbena/requester/turn.hpp"
#include "verbena/requester/window.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::requester {

struct ReliabilityAttributes {
  std::uint8_t timeout = 0;  // 4.096 us * 2^timeout; 0 = never
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;  // 7 = for ever
  std::uint8_t max_rd_atomic = 0;
};

class Requester {
 public:
  // `member` is passed to the sink of its FlowShare.
  Requester(queue::Endpoint& endpoint, const SendQueue::Options& options, void* member);

  // --- posting ---
  Posted post(const queue::SendRequest& request) {
    return requester::post(endpoint_, tracker_.queue(), request);
  }
  Posted would_post(const queue::SendRequest& request) const {
    return requester::would_post(endpoint_, queue(), request);
  }
  // Posts the transfer of a matched rendezvous. Returns false while there is no room.
  bool post_rendezvous(const queue::Rendezvous& rendezvous);
  // Completes everything as flushed and forgets it.
  void flush();
  // Returns silently to the state after creation.
  void reset();
  // Sets the counter of the slots that polled completions have freed (SendQueue).
  void count_freed_by(const queue::FreedSlots* freed) { tracker_.queue().count_freed_by(freed); }

  // --- states ---
  void start(Psn first);  // RTS
  void set_reliability(const ReliabilityAttributes& attributes) {
    timer_.set_timeout(attributes.timeout);
    retries_.set_count(attributes.retry_count);
    rnr_wait_.set_count(attributes.rnr_retry);
    tracker_.set_reads_most(attributes.max_rd_atomic);
  }
  // Shares the path with the queue pairs that send to the same peer.
  void share_path(std::shared_ptr<FlowShare> share);
  // Gives up its turn, or its place in the queue for one.
  void give_up_turn() noexcept { turn_.give_up(); }
  void set_sending(bool sending) { sending_ = sending; }  // true in RTS and SQD
  void set_draining(bool draining) { draining_ = draining; }
  bool is_drained() const { return tracker_.is_drained(); }

  // --- packets and time ---
  // Adds the packets that may go now. Returns true if there is more than the batch could take.
  bool poll_transmit(wire::TxBatch& out, TimeNs now);
  // Makes the packet that was added last request an ACK if it does not yet, because nothing follows
  // it for now. After a full batch the caller may leave that to the next one.
  void request_ack(wire::TxBatch& out);
  // The payload of the packet with this PSN was gone when it was to be copied, so the packet did
  // not leave: its request fails here.
  [[gnu::cold]] void note_gone(Psn psn);
  bool has_urgent() const { return repair_.is_wanted() || tracker_.has_unsent(); }
  // Returns whether there are packets to send, of which none was sent before.
  bool has_posted() const {
    return !repair_.is_wanted() && tracker_.has_unsent() && psns().cursor() == psns().sent();
  }
  // Returns whether what was posted waits for a turn: there is nothing to do until the sink is
  // told. Each post asks, so packets are counted only while the queue pair waits.
  bool awaits_turn() const { return turn_.is_awaited() && turn_.is_awaited_with(unsent_packets()); }
  void handle_response(const wire::PacketView& packet, TimeNs now);
  void handle_piggybacked_ack(const wire::PiggybackedAck& ack, TimeNs now);
  void handle_timeout(TimeNs now);
  TimeNs deadline() const;

  // Returns the new messages that were begun since the last call.
  SentCounters::Messages take_begun() noexcept { return std::exchange(begun_, {}); }

  // --- for status and tests ---
  const SendQueue& queue() const { return tracker_.queue(); }
  Psn next_psn() const { return psns().next(); }
  Psn unacknowledged() const { return psns().una(); }
  std::uint32_t in_flight() const { return psns().in_flight(); }
  std::uint32_t unsent() const { return tracker_.unsent(); }
  // The bytes of data that are not sent, if all requests but the first were like the last one.
  std::uint64_t unsent_bytes() const { return tracker_.unsent_bytes(endpoint_.mtu); }
  bool is_consistent() const { return tracker_.is_consistent(); }

 private:
  // requester.cpp
  bool transmit_requests(wire::TxBatch& out, TimeNs now);
  bool begin(SendEntry& entry);
  bool take_turn(const SendEntry& entry, TimeNs now) noexcept;
  // Returns whether packets went out, to which the peer has not said anything for long.
  bool is_silenced(TimeNs now) const {
    return psns().ahead() != 0 && timer_.lets_others_go_first(now);
  }
  // Returns whether there is nothing to wait for before the turn: nothing has gone out yet, or all
  // must go again.
  bool only_awaits_turn() const { return turn_.is_awaited() && psns().ahead() == 0; }
  // Returns how many packets unsent_bytes() makes, but at least one for each request. If the
  // requests alone are enough for a turn, only they are counted.
  std::uint64_t unsent_packets() const;
  bool may_send(const SendEntry& entry, std::uint32_t window, TimeNs now);
  bool run_local(SendEntry& entry, wire::TxBatch& out);
  Emission::Result transmit_request(SendEntry& entry, std::uint32_t window, wire::TxBatch& out,
                                    TimeNs now);
  void note_sent(std::uint32_t packets, bool ack_request, TimeNs now);
  void count_repeated(std::uint32_t packets);
  bool transmit_probe(wire::TxBatch& out);
  void forget_answers();
  void retire();
  // Fails the request at `position`; it completes once all requests before it have completed.
  [[gnu::cold]] void fail_here(std::uint32_t position, queue::Status status);
  // Fails the oldest request.
  [[gnu::cold]] void fail_head(queue::Status status);

  // answers.cpp
  bool is_expected(Psn last, wire::Aeth aeth);
  [[gnu::cold]] void note_foreign_answer(Psn psn, DropReason why);
  void handle_acknowledge(Psn psn, wire::Aeth aeth, TimeNs now);
  void handle_ack(Psn psn, wire::Aeth aeth, TimeNs now);
  [[gnu::cold]] void handle_nak(Psn psn, wire::Aeth aeth, TimeNs now);
  [[gnu::cold]] void handle_rnr_nak(Psn psn, std::uint8_t timer, TimeNs now);
  void handle_data(const wire::PacketView& packet, TimeNs now);
  bool take_data(const wire::PacketView& packet, TimeNs now);
  void keep_early(const wire::PacketView& packet, TimeNs now);
  void catch_up_with_early(TimeNs now);
  // Everything before `upto` has arrived. Returns false if a READ or atomic before it has no
  // response.
  bool acknowledge(Psn upto, TimeNs now);
  [[gnu::cold]] void handle_gap(TimeNs now);
  [[gnu::cold]] void repair_missing(TimeNs now);
  [[gnu::cold]] void go_back(TimeNs now);
  [[gnu::cold]] void handle_silence(TimeNs now);
  void made_progress(std::uint32_t acknowledged, TimeNs now);
  bool may_repair_be_answered(TimeNs now) const {
    return repair_.may_be_answered(now, timer_.repetition_takes());
  }

  const SendPsns& psns() const { return tracker_.psns(); }
  bool is_reliable() const { return verbena::is_reliable(endpoint_.transport); }

  queue::Endpoint& endpoint_;
  Turn turn_;
  SendTracker tracker_;
  SentCounters::Messages begun_;  // not added to the port's counters yet
  Window window_;
  AckRequests ack_requests_;
  Credits credits_;
  SendCompletions completions_;

  AnswerTimer timer_;
  RnrWait rnr_wait_;
  Retries retries_;
  Repair repair_;
  bool sending_ = false;
  bool draining_ = false;
  Pacing pacing_;       // UC, UD
  EarlyAnswers early_;  // answers behind a gap at `una`
  Emission emission_;
};

}  // namespace verbena::requester
