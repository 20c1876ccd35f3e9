// SPDX-License-Identifier: BSD-2-Clause
// States, and what may go now. (answers.cpp handles what comes back, and what does not.)
#include "verbena/requester/requester.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous.hpp"
#include "verbena/requester/read_chunks.hpp"
#include "words.hpp"

namespace verbena::requester {

using queue::Status;
using queue::WorkOpcode;
using Result = Emission::Result;

namespace {

// An ACK is requested this many packets after the last request: the window moves on before it is
// used up, and on a slow wire the peer is heard of now and then.
constexpr std::uint32_t kAckRequestInterval = 128;
std::uint32_t ack_request_interval(std::uint32_t window) {
  return std::clamp(window / 2, 1u, kAckRequestInterval);
}

}  // namespace

Requester::Requester(queue::Endpoint& endpoint, const SendQueue::Options& options, void* member)
    : endpoint_(endpoint),
      turn_(member),
      tracker_(options),
      completions_(endpoint),
      retries_(endpoint),
      emission_(endpoint, queue(), psns(), window_) {}

void Requester::start(Psn first) {
  tracker_.start(first);
  retries_.start();
  rnr_wait_.renew();
  credits_ = {};
  timer_.reset();
  repair_ = {};
  sending_ = true;
}

void Requester::share_path(std::shared_ptr<FlowShare> share) {
  turn_.share_with(std::move(share));
  window_.set_capacity(endpoint_.path->capacity_packets(endpoint_.mtu + 32),
                       endpoint_.path->capacity_packets(64));
}

bool Requester::post_rendezvous(const queue::Rendezvous& rendezvous) {
  return requester::post_rendezvous(endpoint_, tracker_.queue(), rendezvous);
}

void Requester::reset() {
  tracker_.reset();
  completions_.forget();
  ack_requests_ = {};
  rnr_wait_.end();
  forget_answers();
  repair_.allow_going_back();
  sending_ = draining_ = false;
  give_up_turn();
}

// Forgets the answers that are awaited, and those that came early.
void Requester::forget_answers() {
  timer_.forget();
  repair_.forget();
  early_.clear();
}

void Requester::flush() {
  std::uint32_t flushed = 0;
  std::uint64_t first = 0;
  std::string_view opcode;
  for (std::uint32_t position = queue().head(); position != queue().tail(); ++position) {
    const SendEntry& entry = queue().at(position);
    if (!entry.internal && flushed++ == 0) {
      first = entry.id;
      opcode = to_string(entry.opcode);
    }
    completions_.complete(queue(), Status::kFlushed);
    tracker_.pop(entry);
  }
  if (flushed != 0) queue::tell_flushed_sends(endpoint_, opcode, first, flushed);
  tracker_.skip_all();
  rnr_wait_.end();
  forget_answers();
  give_up_turn();
}

// Completes, in order, the requests that have been answered.
void Requester::retire() {
  while (const SendEntry* done = tracker_.oldest_done()) {
    completions_.complete(queue(), Status::kSuccess);
    tracker_.pop(*done);
  }
  if (tracker_.is_stopped_at_oldest()) [[unlikely]]
    fail_head(tracker_.failure());
}

void Requester::fail_here(std::uint32_t position, Status status) {
  tracker_.stop_at(position, status);
  if (tracker_.is_stopped_at_oldest()) fail_head(status);
}

void Requester::fail_head(Status status) {
  tracker_.resume();
  if (queue().is_empty()) return;
  if (status == Status::kRetryExceeded) endpoint_.port->retries_exceeded.add();
  if (status == Status::kRnrRetryExceeded) endpoint_.port->rnr_retries_exceeded.add();
  const SendEntry& entry = queue().at(queue().head());
  queue::blame(endpoint_, "%s with wr_id %llu completes with: %s", to_string(entry.opcode).data(),
               static_cast<unsigned long long>(entry.id), to_string(status).data());
  completions_.complete(queue(), status);
  tracker_.pop(entry);
  sending_ = false;
  if (is_reliable()) {
    endpoint_.fail();
  } else {
    endpoint_.fail_send_queue();
  }
}

// Gives a request its PSNs, unless it must wait: for a fence, or for a receive at the peer (with
// all earlier requests answered, one may go without a credit, IBTA Vol 1, 9.7.7.2).
bool Requester::begin(SendEntry& entry) {
  if ((entry.flags & queue::kFence) != 0 && tracker_.has_responses_pending()) [[unlikely]]
    return false;
  const bool is_alone = psns().una() == psns().next();
  if (!credits_.allow_another() && entry.needs_receive() && !is_alone) [[unlikely]]
    return false;
  const bool data =
      entry.opcode == WorkOpcode::kRead || entry.opcode <= WorkOpcode::kWriteImmediate;
  tracker_.number(entry, data && entry.length > endpoint_.mtu
                             ? (entry.length + endpoint_.mtu - 1) / endpoint_.mtu
                             : 1u);
  entry.inspected =
      entry.opcode == WorkOpcode::kRead && entry.packets > 1 && endpoint_.packing().is_inspected;
  entry.message = credits_.next_message();
  if (entry.opcode <= WorkOpcode::kSendInvalidate) {
    ++begun_.sends;
  } else if (entry.opcode <= WorkOpcode::kWriteImmediate) {
    ++begun_.writes;
  }
  return true;
}

bool Requester::may_send(const SendEntry& entry, std::uint32_t window, TimeNs now) {
  if (!is_reliable()) {
    return pacing_.may_send(window_.full(), endpoint_.mtu, now);
  }
  const std::uint32_t ahead = psns().ahead();
  if (entry.wants_response()) {
    if (!tracker_.may_ask_for_data()) return false;
    return ahead == 0 || ahead + psns_asked_for(entry, psns().cursor(),
                                                chunk_of(entry, endpoint_.mtu, window_)) <=
                             window;
  }
  return ahead < window;
}

// Carries out LOCAL_INV and BIND_MW. They take no packet, but have their place in the order, and
// wait behind a fence only.
bool Requester::run_local(SendEntry& entry, wire::TxBatch& out) {
  if ((entry.flags & queue::kFence) != 0 && tracker_.has_responses_pending()) return false;
  emission_.release(out);
  out.bring_in_all();
  memory::Registry& memory = *endpoint_.memory;
  if (entry.opcode == WorkOpcode::kLocalInvalidate) {
    const auto done =
        memory.invalidate(entry.immediate, endpoint_.domain, endpoint_.number.value());
    if (!done.ok()) {
      explain_invalidate(endpoint_, entry, done.error());
      fail_here(tracker_.cursor(), Status::kLocalQpOperation);
      return false;
    }
  } else {
    const Rare& b = queue().rare(tracker_.cursor());
    const memory::WindowBind bind{b.region_key, b.address, b.length, b.access};
    const auto bound = b.new_key == 0 ? memory.bind_type1(b.window_key, endpoint_.domain, bind)
                                      : memory.bind_type2(b.window_key, b.new_key, endpoint_.domain,
                                                          endpoint_.number.value(), bind);
    if (!bound.ok()) {
      explain_bind(endpoint_, entry, b, bound.error());
      fail_here(tracker_.cursor(), Status::kWindowBind);
      return false;
    }
  }
  entry.done = true;
  return true;
}

void Requester::count_repeated(std::uint32_t packets) {
  endpoint_.counters.retransmitted.add(packets);
  endpoint_.port->retransmitted.add(packets);
}

// Notes that the packet at the cursor goes out.
void Requester::note_sent(std::uint32_t packets, bool ack_request, TimeNs now) {
  turn_.sent(packets, ack_request);
  const bool again = psns().is_repeating();
  if (again) [[unlikely]]
    count_repeated(packets);
  if (psns().is_all_answered() || psns().ahead() == 0) timer_.begin(now);
  if (ack_request && !again) timer_.ack_requested(psns().cursor(), now);
}

bool Requester::transmit_probe(wire::TxBatch& out) {
  if (psns().is_all_answered() || queue().is_empty()) {
    repair_.give_up();
    return false;
  }
  const std::uint32_t position = tracker_.oldest_with_packets();
  // A probe contains nothing that was not sent before.
  Emission::Message message = emission_.message_at(position, unsent() > 1, out);
  const Psn una = psns().una();
  std::uint32_t count = emission_.psns_at(message, una);
  if ((una + count).is_after(psns().sent())) count = 1;
  const Result result = emission_.emit(message, una, count, out, true);
  if (result == Result::kBatchFull) return true;
  if (result == Result::kRefused) {
    repair_.give_up();
    fail_here(position, Status::kLocalProtection);
    return false;
  }
  count_repeated(message.wants_response ? 1 : count);
  repair_.sent(una, una + count);
  return false;
}

std::uint64_t Requester::unsent_packets() const {
  if (unsent() >= FlowShare::kPacketsAtMost) return unsent();
  return std::max<std::uint64_t>(unsent(), unsent_bytes() / endpoint_.mtu);
}

bool Requester::poll_transmit(wire::TxBatch& out, TimeNs now) {
  // A UC packet that found no room would be lost, so it does not go.
  if (endpoint_.transport == Transport::kUc && has_urgent()) {
    pacing_.take_notice(endpoint_.path->room(now), now);
  }
  ack_requests_.begin_batch();
  const bool more = transmit_requests(out, now);
  emission_.release(out);
  // The turn brought no packets.
  if (!more && psns().is_all_answered() && turn_.is_held()) give_up_turn();
  return more;
}

void Requester::request_ack(wire::TxBatch& out) {
  if (const auto last = ack_requests_.take_last()) {
    wire::Bth::request_ack(out.start(*last));
    return;
  }
  // The packet that was to come next has failed here.
  if (!ack_requests_.take_missing()) return;
  if (!sending_ || rnr_wait_.is_waiting() || psns().is_all_answered()) return;
  repair_.want();
  transmit_probe(out);
  emission_.release(out);
}

void Requester::note_gone(Psn psn) {
  const std::uint32_t position = tracker_.place_of(psn);
  // Another failure may have ended all requests while the batch was filled.
  if (position == queue().tail()) return;
  explain_buffers(endpoint_, queue(), position, memory::Refusal::kNotMapped);
  fail_here(position, Status::kLocalProtection);
}

// Returns whether the queue pair has a turn, or needs none. What was sent before is repaired even
// when the turn is over. While the peer is silent, only probes go.
bool Requester::take_turn(const SendEntry& entry, TimeNs now) noexcept {
  if (!is_reliable()) return true;
  if (turn_.is_held()) return !turn_.is_over() || psns().is_repeating();
  if (turn_.is_needless()) [[likely]]
    return true;
  if (is_silenced(now)) [[unlikely]]
    return false;
  return turn_.take(unsent_packets(), window_.capacity(entry.length));
}

bool Requester::transmit_requests(wire::TxBatch& out, TimeNs now) {
  if (!sending_ || rnr_wait_.is_waiting()) return false;
  // The probe may be for what comes before a request that failed here.
  if (repair_.is_wanted() && transmit_probe(out)) return true;
  while (tracker_.has_unsent() && !tracker_.is_stopped() && sending_) {
    SendEntry& entry = queue().at(tracker_.cursor());
    if (draining_ && !tracker_.has_begun(entry)) [[unlikely]]
      break;
    if (entry.is_local()) {
      if (!entry.done && !run_local(entry, out)) break;
      tracker_.pass_local();
      retire();
      continue;
    }
    if (!entry.numbered && !begin(entry)) break;
    const std::uint32_t window = window_.packets(entry.length, turn_.share());
    if (!may_send(entry, window, now) || !take_turn(entry, now)) break;
    switch (transmit_request(entry, window, out, now)) {
      case Result::kSent:
        break;
      case Result::kBatchFull:
        return true;
      case Result::kRefused:
        fail_here(tracker_.cursor(), Status::kLocalProtection);
        return false;
    }
  }
  return false;
}

// Sends as much of the request at the cursor as may go. The caller knows that its first packet may.
Emission::Result Requester::transmit_request(SendEntry& entry, std::uint32_t window,
                                             wire::TxBatch& out, TimeNs now) {
  const std::uint32_t position = tracker_.cursor();
  const std::uint32_t interval = ack_request_interval(window);
  Emission::Message message = emission_.message_at(position, unsent() > 1, out);
  do {
    const Psn psn = psns().cursor();
    const std::uint32_t count = emission_.psns_at(message, psn);
    const std::uint32_t packets = message.wants_response ? 1 : count;
    // The last packet of a batch requests one as well (request_ack): answers are not looked at
    // while there is more to send.
    const bool ack_request = ack_requests_.is_due(packets, interval) || psns().ahead() == 0;
    const Result result = emission_.emit(message, psn, count, out, ack_request);
    if (result != Result::kSent) return result;
    ack_requests_.count(packets, ack_request);
    if (is_reliable()) {
      static_assert(wire::TxBatch::kMaxPackets <= 256);
      ack_requests_.added(out.size() - 1, ack_request || message.wants_response);
      if (message.wants_response) tracker_.asked_for_data();
      note_sent(packets, ack_request || message.wants_response, now);
      tracker_.sent(entry, count);
    } else {
      pacing_.sent(std::min(entry.length, endpoint_.mtu));
      if (tracker_.sent_unreliably(entry)) retire();
    }
  } while (tracker_.cursor() == position && may_send(entry, window, now) && take_turn(entry, now));
  return Result::kSent;
}

}  // namespace verbena::requester
