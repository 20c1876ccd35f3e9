// SPDX-License-Identifier: BSD-2-Clause
// Why requests fail, in words: which one, with what values, and what to look at.
#include <cinttypes>

#include "verbena/requester/requester.hpp"

namespace verbena::requester {

// The first of the buffers that is refused; by now all may be there again.
namespace {

// Whether all pages of these first bytes can be read.
bool is_readable(const memory::Pin& pin, std::uint64_t length) {
  constexpr std::uint64_t kPage = 4096;
  std::uint8_t byte = 0;
  for (std::uint64_t at = 0; at < length; at += kPage) {
    if (!pin.read(&byte, at, 1)) return false;
  }
  return pin.read(&byte, length - 1, 1);
}

}  // namespace

Requester::Emit Requester::refuse_buffers(std::uint32_t position, memory::Refusal refusal) {
  const SendEntry& entry = queue_.at(position);
  const queue::Sge* const sges = queue_.sges(position);
  ShortText which("%s", to_string(refusal).data());
  for (std::uint32_t i = 0; i < entry.sge_count; ++i) {
    const memory::AccessRequest request{sges[i].key,        endpoint_.domain,
                                        sges[i].address,    sges[i].length,
                                        memory::kLocalRead, endpoint_.number.value()};
    const auto pin = endpoint_.memory->pin(request);
    if (pin.ok() && (sges[i].length == 0 || is_readable(*pin, sges[i].length))) continue;
    const memory::Refusal why = pin.ok() ? refusal : pin.error();
    which = ShortText("sg_list[%u]: %s", i, endpoint_.memory->explain(request, why).c_str());
    break;
  }
  queue::blame(endpoint_, "cannot read the buffers of %s with wr_id %" PRIu64 ": %s",
               to_string(entry.opcode).data(), entry.id, which.c_str());
  return Emit::kFailed;
}

void Requester::explain_bind(std::uint32_t position, memory::Refusal refusal) {
  const Rare& b = queue_.rare(position);
  queue::blame(endpoint_,
               "BIND_MW with wr_id %" PRIu64 " of window 0x%x to region 0x%x, address 0x%" PRIx64
               ", length %" PRIu64 ", %s: %s",
               queue_.at(position).id, b.window_key, b.region_key, b.address, b.length,
               memory::access_names(b.access).c_str(), to_string(refusal).data());
}

void Requester::explain_invalidate(const SendEntry& entry, memory::Refusal refusal) {
  const bool is_region = refusal == memory::Refusal::kNoPermission;
  queue::blame(endpoint_, "LOCAL_INV with wr_id %" PRIu64 " of key 0x%x: %s", entry.id,
               entry.immediate,
               is_region ? "only windows of type 2 can be invalidated" : to_string(refusal).data());
}

// Of the oldest request.
void Requester::explain_nak(wire::NakCode code) {
  if (queue_.is_empty()) return;
  const SendEntry& entry = queue_.at(queue_.head());
  ShortText target;
  if (entry.opcode >= queue::WorkOpcode::kWrite && entry.opcode <= queue::WorkOpcode::kFlush) {
    target.add(" of rkey 0x%x, address 0x%" PRIx64 ", length %u", entry.remote_key,
               entry.remote_address, entry.length);
  }
  const char* hint = "";
  if (code == wire::NakCode::kRemoteAccess) {
    hint = ": does the peer's region still exist, with this range and IBV_ACCESS_REMOTE_* for it?";
  } else if (code == wire::NakCode::kInvalidRequest) {
    hint =
        ": do the peer's qp_access_flags, its receives' sizes, both ends' path_mtu and "
        "max_rd_atomic allow it?";
  } else if (code == wire::NakCode::kRemoteOperational) {
    hint = ": it could not write into its own receive, or its memory is gone";
  }
  queue::blame(endpoint_, "the peer 0x%06x refused %s with wr_id %" PRIu64 "%s with NAK %s%s",
               endpoint_.peer.value(), to_string(entry.opcode).data(), entry.id, target.c_str(),
               to_string(code).data(), hint);
}

void Requester::explain_rnr() {
  if (queue_.is_empty()) return;
  const SendEntry& entry = queue_.at(queue_.head());
  queue::blame(endpoint_,
               "the peer 0x%06x had no receive posted for %s with wr_id %" PRIu64
               ", %u times: it must post receives sooner, or rnr_retry be 7 (for ever; it is %u)",
               endpoint_.peer.value(), to_string(entry.opcode).data(), entry.id,
               reliability_.rnr_retry + 1u, unsigned{reliability_.rnr_retry});
}

// Answers to what was never sent tell of a peer that counts otherwise.
void Requester::note_foreign_answer(Psn psn, DropReason why) {
  endpoint_.drops->count(why);
  foreign_answer_ = psn;
}

void Requester::explain_stop(const wire::PeerReport& peer) {
  queue::explain(endpoint_,
                 "the peer (QPN 0x%06x) does not answer: process %u (%s) is stopped; this queue "
                 "pair waits until it goes on",
                 endpoint_.peer.value(), peer.pid, peer.name.data());
}

namespace {

// What became of the process, if that explains the silence.
ShortText cause_of(const wire::PeerReport& peer) {
  using Standing = wire::PeerReport::Standing;
  using QueuePair = wire::PeerReport::QueuePair;
  ShortText cause;
  if (peer.standing == Standing::kEnded) {
    cause.add("process %u (%s) has ended", peer.pid, peer.name.data());
  } else if (peer.standing == Standing::kRuns && peer.queue_pair == QueuePair::kNone) {
    cause.add("process %u (%s) has no queue pair of that number", peer.pid, peer.name.data());
  } else if (peer.standing == Standing::kRuns && peer.queue_pair == QueuePair::kNotReady) {
    cause.add("the queue pair of process %u (%s) never reached RTR", peer.pid, peer.name.data());
  } else if (peer.standing == Standing::kRuns && peer.queue_pair == QueuePair::kError) {
    cause.add("the queue pair of process %u (%s) is in the error state", peer.pid,
              peer.name.data());
  }
  return cause;
}

}  // namespace

void Requester::explain_gap() {
  queue::blame(endpoint_,
               "the peer (QPN 0x%06x at %s) still reports that PSN 0x%06x is missing, after it was "
               "sent again in each of %u retries: something on the path takes this packet",
               endpoint_.peer.value(), endpoint_.destination.address.to_string().c_str(),
               psns_.una().value(), unsigned{reliability_.retry_count});
}

void Requester::explain_silence(TimeNs now, const wire::PeerReport& peer) {
  const std::string address = endpoint_.destination.address.to_string();
  const auto milliseconds = [](TimeNs time) {
    return static_cast<unsigned long long>(time / 1'000'000);
  };
  if (const ShortText cause = cause_of(peer); !cause.is_empty()) {
    queue::blame(
        endpoint_,
        "no answer from the peer (QPN 0x%06x at %s) to PSN 0x%06x after %u retries of %llu "
        "ms: %s",
        endpoint_.peer.value(), address.c_str(), psns_.una().value(),
        unsigned{reliability_.retry_count}, milliseconds(timer_.retry_interval()), cause.c_str());
    return;
  }
  // A retry that was counted because what lay there had been read has been noted just now.
  const bool was_read = silence_.counted_at() == now;
  if (!was_read) {
    queue::blame(endpoint_,
                 "the peer (QPN 0x%06x at %s) has taken nothing of what was sent to it for %llu "
                 "ms, and did not answer PSN 0x%06x: is its process stopped?",
                 endpoint_.peer.value(), address.c_str(), milliseconds(now - silence_.counted_at()),
                 psns_.una().value());
    return;
  }
  if (foreign_answer_ && psns_.una() == psns_.first()) {
    queue::blame(
        endpoint_,
        "the peer (QPN 0x%06x at %s) does not take PSN 0x%06x, this queue pair's sq_psn, but "
        "answers with PSN 0x%06x: its rq_psn must be this sq_psn",
        endpoint_.peer.value(), address.c_str(), psns_.una().value(), foreign_answer_->value());
    return;
  }
  queue::blame(endpoint_,
               "no answer from the peer (QPN 0x%06x at %s) to PSN 0x%06x after %u retries of %llu "
               "ms: is it alive, in RTR or RTS, and are both sides' PSNs, QPNs and addresses "
               "right?",
               endpoint_.peer.value(), address.c_str(), psns_.una().value(),
               unsigned{reliability_.retry_count}, milliseconds(timer_.retry_interval()));
}

}  // namespace verbena::requester
