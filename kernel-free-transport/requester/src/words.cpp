// SPDX-License-Identifier: BSD-2-Clause
#include "words.hpp"

#include <cinttypes>

namespace verbena::requester {

using queue::Endpoint;

namespace {

// Returns whether all pages of the first `length` bytes can be read.
bool is_readable(const memory::Pin& pin, std::uint64_t length) {
  constexpr std::uint64_t kPage = 4096;
  std::uint8_t byte = 0;
  for (std::uint64_t at = 0; at < length; at += kPage) {
    if (!pin.read(&byte, at, 1)) return false;
  }
  return pin.read(&byte, length - 1, 1);
}

// Each emulator has its own fabric, in which LIDs and queue pair numbers begin anew.
constexpr const char* kOneEmulator =
    "; if the peer is another program, both must use one emulator (verbena run --pair, or verbena "
    "up and then verbena run for both)";

// Returns what hinders the queue pair of a process that runs; else nothing.
ShortText cause_in(const Endpoint& endpoint, const PeerReport& peer) {
  switch (peer.queue_pair) {
    case PeerReport::QueuePair::kNone:
      if (!peer.is_own_process) break;
      return ShortText(
          "this leads to this process itself, which has no queue pair of that number%s",
          kOneEmulator);
    case PeerReport::QueuePair::kNotReady:
      return ShortText("the queue pair of process %u (%s) never reached RTR", peer.pid,
                       peer.name.c_str());
    case PeerReport::QueuePair::kError:
      return ShortText("the queue pair of process %u (%s) is in the error state", peer.pid,
                       peer.name.c_str());
    default:
      if (peer.connected_to == 0 || peer.connected_to == endpoint.number.value()) return {};
      return ShortText(
          "the queue pair of process %u (%s) is connected to QPN 0x%06x, not to this one (0x%06x)",
          peer.pid, peer.name.c_str(), peer.connected_to, endpoint.number.value());
  }
  return ShortText("process %u (%s) has no queue pair of that number", peer.pid, peer.name.c_str());
}

// Returns what became of the process and its queue pair, if that explains the silence; else
// nothing.
ShortText cause_of(const Endpoint& endpoint, const PeerReport& peer) {
  using Standing = PeerReport::Standing;
  switch (peer.standing) {
    case Standing::kRuns:
      return cause_in(endpoint, peer);
    case Standing::kEnded:
      return ShortText("process %u (%s) has ended", peer.pid, peer.name.c_str());
    case Standing::kClosed:
      return ShortText("process %u (%s) has closed its device", peer.pid, peer.name.c_str());
    case Standing::kNobody:
      return ShortText("no process of this emulator has a queue pair of that number%s",
                       kOneEmulator);
    case Standing::kNowhere:
      if (endpoint.peer_lid == 0 || endpoint.destination.has_grh) {
        return ShortText("no device of this emulator has that address");
      }
      return ShortText("no device of this emulator has LID %u", unsigned{endpoint.peer_lid});
    case Standing::kPortDown:
      return ShortText("the port of %s is DOWN (verbena port %s up)", peer.name.c_str(),
                       peer.name.c_str());
    default:
      return {};
  }
}

ShortText obstacle_of_bind(const Endpoint& endpoint, const Rare& b, memory::Refusal refusal) {
  using memory::Refusal;
  const bool is_type2 = b.new_key != 0;
  const bool changes = (b.access & (memory::kRemoteWrite | memory::kRemoteAtomic)) != 0;
  switch (refusal) {
    case Refusal::kNoSuchKey:
      return ShortText("there is no region, or no type %d window, of this key%s", is_type2 ? 2 : 1,
                       is_type2 ? " (ibv_bind_mw is for windows of type 1)"
                                : ": after a bind that failed, mw->rkey must get the key back that "
                                  "the window had before it");
    case Refusal::kNoPermission:
    case Refusal::kOutOfRange:
      return endpoint.memory->explain(
          {b.region_key, endpoint.domain, b.address, b.length,
           memory::kWindowBind | (changes ? memory::kLocalWrite : 0u), endpoint.number.value()},
          refusal);
    case Refusal::kBusy:
      return ShortText("the window is bound already; IBV_WR_LOCAL_INV must come before");
    case Refusal::kBadArgument:
      return ShortText(
          "bind_mw.rkey is 0x%x, and must be ibv_inc_rkey() of the window's, the length must not "
          "be 0, and the access flags only IBV_ACCESS_REMOTE_* and IBV_ACCESS_ZERO_BASED",
          b.new_key);
    default:
      return ShortText("%s", to_string(refusal));
  }
}

}  // namespace

// Names the first buffer that is refused. By now all of them may be there again.
void explain_buffers(Endpoint& endpoint, const SendQueue& queue, std::uint32_t position,
                     memory::Refusal refusal) {
  const SendEntry& entry = queue.at(position);
  const queue::Sge* const sges = queue.sges(position);
  ShortText which("%s", refusal == memory::Refusal::kNoSuchKey
                            ? "a region was just being changed (ibv_rereg_mr, or a part of it was "
                              "unmapped)"
                            : to_string(refusal));
  for (std::uint32_t i = 0; i < entry.sge_count; ++i) {
    const memory::AccessRequest request{sges[i].key,        endpoint.domain,
                                        sges[i].address,    sges[i].length,
                                        memory::kLocalRead, endpoint.number.value()};
    const auto pin = endpoint.memory->pin(request);
    if (pin.ok() && (sges[i].length == 0 || is_readable(*pin, sges[i].length))) continue;
    const memory::Refusal why = pin.ok() ? refusal : pin.error();
    which = ShortText("sg_list[%u]: %s", i, endpoint.memory->explain(request, why).c_str());
    break;
  }
  queue::blame(endpoint, "cannot read the buffers of %s with wr_id %" PRIu64 ": %s",
               to_string(entry.opcode).data(), entry.id, which.c_str());
}

void explain_bind(Endpoint& endpoint, const SendEntry& entry, const Rare& b,
                  memory::Refusal refusal) {
  queue::blame(endpoint,
               "BIND_MW with wr_id %" PRIu64 " of window 0x%x to region 0x%x, address 0x%" PRIx64
               ", length %" PRIu64 ", %s: %s",
               entry.id, b.window_key, b.region_key, b.address, b.length,
               memory::access_names(b.access).c_str(),
               obstacle_of_bind(endpoint, b, refusal).c_str());
}

void explain_invalidate(Endpoint& endpoint, const SendEntry& entry, memory::Refusal refusal) {
  const bool is_region = refusal == memory::Refusal::kNoPermission;
  queue::blame(endpoint, "LOCAL_INV with wr_id %" PRIu64 " of key 0x%x: %s", entry.id,
               entry.immediate,
               is_region ? "only windows of type 2 can be invalidated" : to_string(refusal));
}

void explain_nak(Endpoint& endpoint, const SendQueue& queue, wire::NakCode code) {
  if (queue.is_empty()) return;
  const SendEntry& entry = queue.at(queue.head());
  ShortText target;
  if (entry.opcode >= queue::WorkOpcode::kWrite && entry.opcode <= queue::WorkOpcode::kFlush) {
    target.add(" of rkey 0x%x, address 0x%" PRIx64 ", length %u", entry.remote_key,
               entry.remote_address, entry.length);
  }
  const bool is_xrc = endpoint.transport == Transport::kXrcSend;
  if (is_xrc) target.add(" for XRC SRQ 0x%06x", entry.remote_qpn);
  const char* hint = "";
  if (code == wire::NakCode::kRemoteAccess) {
    hint = ": does the peer's region still exist, with this range and IBV_ACCESS_REMOTE_* for it?";
  } else if (code == wire::NakCode::kInvalidRequest) {
    hint = is_xrc
               ? ": has the peer's domain an SRQ of that number (wr.qp_type.xrc.remote_srqn), and "
                 "do its qp_access_flags, its receives' sizes and both ends' path_mtu allow it?"
               : ": do the peer's qp_access_flags, its receives' sizes, both ends' path_mtu and "
                 "max_rd_atomic allow it?";
  } else if (code == wire::NakCode::kRemoteOperational) {
    hint =
        ": it could not write into its own receive, its memory is gone, or its completion queue is "
        "full";
  }
  queue::blame(endpoint, "the peer 0x%06x refused %s with wr_id %" PRIu64 "%s with NAK %s%s",
               endpoint.peer.value(), to_string(entry.opcode).data(), entry.id, target.c_str(),
               to_string(code).data(), hint);
}

void explain_rnr(Endpoint& endpoint, const SendQueue& queue, std::uint8_t retries) {
  if (queue.is_empty()) return;
  const SendEntry& entry = queue.at(queue.head());
  queue::blame(endpoint,
               "the peer 0x%06x had no receive posted for %s with wr_id %" PRIu64
               ", %u times: it must post receives sooner, or rnr_retry be 7 (for ever; it is %u)",
               endpoint.peer.value(), to_string(entry.opcode).data(), entry.id, retries + 1u,
               unsigned{retries});
}

void explain_endless_rnr(const Endpoint& endpoint, const SendQueue& queue) {
  if (queue.is_empty()) return;
  const SendEntry& entry = queue.at(queue.head());
  queue::explain(endpoint,
                 "the peer 0x%06x has had no receive posted for %s with wr_id %" PRIu64
                 " for a second; with rnr_retry 7 this queue pair waits until it posts one",
                 endpoint.peer.value(), to_string(entry.opcode).data(), entry.id);
}

void explain_stop(const Endpoint& endpoint, const PeerReport& peer) {
  queue::explain(endpoint,
                 "the peer (QPN 0x%06x) does not answer: process %u (%s) is stopped; this queue "
                 "pair waits until it goes on",
                 endpoint.peer.value(), peer.pid, peer.name.c_str());
}

bool has_cause(const Endpoint& endpoint, const PeerReport& peer) {
  return peer.standing == PeerReport::Standing::kStopped || !cause_of(endpoint, peer).is_empty();
}

void explain_endless_silence(const Endpoint& endpoint, Psn missing, const PeerReport& peer) {
  if (peer.standing == PeerReport::Standing::kStopped) return explain_stop(endpoint, peer);
  queue::explain(
      endpoint,
      "no answer from the peer (QPN 0x%06x) to PSN 0x%06x: %s; with timeout 0 this queue "
      "pair waits for ever",
      endpoint.peer.value(), missing.value(), cause_of(endpoint, peer).c_str());
}

void explain_gap(Endpoint& endpoint, Psn missing, std::uint8_t retries) {
  queue::blame(endpoint,
               "the peer (QPN 0x%06x at %s) still reports that PSN 0x%06x is missing, after it was "
               "sent again in each of %u retries: something on the path takes this packet",
               endpoint.peer.value(), endpoint.destination.address.to_string().c_str(),
               missing.value(), unsigned{retries});
}

void explain_silence(Endpoint& endpoint, const Silence& silence, const PeerReport& peer) {
  const std::string address = endpoint.destination.address.to_string();
  const auto milliseconds = [](TimeNs time) {
    return static_cast<unsigned long long>(time / 1'000'000);
  };
  if (const ShortText cause = cause_of(endpoint, peer); !cause.is_empty()) {
    queue::blame(
        endpoint,
        "no answer from the peer (QPN 0x%06x at %s) to PSN 0x%06x after %u retries of %llu "
        "ms: %s",
        endpoint.peer.value(), address.c_str(), silence.missing.value(), unsigned{silence.retries},
        milliseconds(silence.interval), cause.c_str());
    return;
  }
  if (silence.taken_nothing != 0) {
    queue::blame(endpoint,
                 "the peer (QPN 0x%06x at %s) has taken nothing of what was sent to it for %llu "
                 "ms, and did not answer PSN 0x%06x: is its process stopped?",
                 endpoint.peer.value(), address.c_str(), milliseconds(silence.taken_nothing),
                 silence.missing.value());
    return;
  }
  if (silence.answered) {
    queue::blame(
        endpoint,
        "the peer (QPN 0x%06x at %s) does not take PSN 0x%06x, this queue pair's sq_psn, but "
        "answers with PSN 0x%06x: its rq_psn must be this sq_psn",
        endpoint.peer.value(), address.c_str(), silence.missing.value(), silence.answered->value());
    return;
  }
  if (silence.refused != 0) {
    queue::blame(
        endpoint,
        "no answer from the peer (QPN 0x%06x at %s) to PSN 0x%06x after %u retries of %llu "
        "ms: meanwhile the system has refused to send %llu packets of this process "
        "(udp_send_failures): does the interface's MTU still carry packets with path_mtu "
        "%u, and is there a route?",
        endpoint.peer.value(), address.c_str(), silence.missing.value(), unsigned{silence.retries},
        milliseconds(silence.interval), static_cast<unsigned long long>(silence.refused),
        endpoint.mtu);
    return;
  }
  queue::blame(endpoint,
               "no answer from the peer (QPN 0x%06x at %s) to PSN 0x%06x after %u retries of %llu "
               "ms: is it alive, in RTR or RTS, and are both sides' PSNs, QPNs and addresses "
               "right?",
               endpoint.peer.value(), address.c_str(), silence.missing.value(),
               unsigned{silence.retries}, milliseconds(silence.interval));
}

}  // namespace verbena::requester
