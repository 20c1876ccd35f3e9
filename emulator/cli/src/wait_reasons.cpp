// SPDX-License-Identifier: BSD-2-Clause
#include "wait_reasons.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

namespace verbena::cli {
namespace {

// The most objects of one kind that are told one by one.
constexpr std::size_t kToldMost = 4;

// The order in which reasons are told.
enum class Weight : std::uint8_t { kBroken, kStuck, kNotReady, kWaits };
struct Reason {
  Weight weight;
  std::string text;
};

std::string counted(std::uint64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string is_or_are(std::uint64_t count) { return count == 1 ? " is" : " are"; }

std::string hex(std::uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%06x", number);
  return text;
}

// Returns null if there is no such program.
const ProgramStatus* find_program(const Programs& programs, std::uint32_t pid) {
  const auto found = std::ranges::find(programs, pid, [](const auto& p) { return p->pid; });
  return found != programs.end() ? found->get() : nullptr;
}

// The queue pair at the other end, and its program.
struct Peer {
  const ProgramStatus* program = nullptr;
  const QueuePairStatus* qp = nullptr;
};

class Reasons {
 public:
  Reasons(const ProgramStatus& program, const Surroundings& around)
      : program_(program), around_(around) {}

  std::vector<std::string> find() {
    tell_each(program_.destroys, &Reasons::reason_of_destroy, "waiting destroy call");
    tell_events();
    tell_each(program_.ids, &Reasons::reason_of_id, "rdma_cm ID");
    const bool is_explained = !said_.empty();
    tell_each(program_.cqs, &Reasons::reason_of_queue, "completion queue");
    tell_each(program_.qps, &Reasons::reason_of_pair, "queue pair");
    if (!is_explained && nothing_comes()) {
      said_.emplace_back(
          "nothing is outstanding and all completions were polled, so no completion will come; a "
          "request without IBV_SEND_SIGNALED leaves none");
    }
    if (said_.empty() && program_.has_context) {
      said_.push_back("has a device open; nothing is known that it waits for: " +
                      counted(program_.qps.size(), "queue pair") + ", " +
                      counted(program_.cqs.size(), "completion queue") + ", " +
                      counted(program_.shared_receives, "receive") + " in SRQs");
    }
    return std::move(said_);
  }

 private:
  // Tells the weightiest reasons of objects of one kind, and how many more objects have one.
  template <typename Object>
  void tell_each(const std::vector<Object>& objects,
                 std::optional<Reason> (Reasons::*reason_of)(const Object&) const,
                 const std::string& name) {
    std::vector<Reason> reasons;
    for (const Object& object : objects) {
      if (auto reason = (this->*reason_of)(object)) reasons.push_back(std::move(*reason));
    }
    std::ranges::stable_sort(reasons, {}, &Reason::weight);
    const std::size_t told = std::min(reasons.size(), kToldMost);
    for (std::size_t i = 0; i < told; ++i) said_.push_back(std::move(reasons[i].text));
    if (told < reasons.size()) {
      said_.push_back("and " + counted(reasons.size() - told, "more " + name));
    }
  }

  void tell_events() {
    std::uint64_t unread = 0;
    for (const CmIdStatus& id : program_.ids) unread = std::max(unread, id.unread_events);
    if (unread == 0) return;
    said_.push_back(counted(unread, "event") + " of rdma_cm" + is_or_are(unread) +
                    " not read (rdma_get_cm_event)");
  }

  // Leaves out a call that was not there at the first look: it has waited only for a moment.
  std::optional<Reason> reason_of_destroy(const WaitingDestroyStatus& destroy) const {
    const ProgramStatus* const before = find_program(around_.earlier, program_.pid);
    if (before != nullptr && std::ranges::count(before->destroys, destroy) == 0) return {};
    const std::string by = " (" + destroy.acknowledges + ")";
    std::string object = "CQ " + std::to_string(destroy.number);
    if (destroy.call == "ibv_destroy_qp") object = "QP " + hex(destroy.number);
    if (destroy.call == "ibv_destroy_srq") object = "SRQ " + hex(destroy.number);
    const std::string waits = destroy.call + " waits: ";
    if (destroy.number != 0) {
      return Reason{Weight::kBroken, waits + counted(destroy.missing, "event") + " of " + object +
                                         is_or_are(destroy.missing) + " not acknowledged" + by};
    }
    if (destroy.events == 1) {
      return Reason{Weight::kBroken,
                    waits + "1 event of the ID was read and is not acknowledged" + by};
    }
    return Reason{Weight::kBroken, waits + "of " + counted(destroy.events, "event") +
                                       " of the ID that were read not all are acknowledged" + by};
  }

  bool has_events() const {
    return std::ranges::any_of(program_.ids,
                               [](const CmIdStatus& id) { return id.unread_events != 0; });
  }

  // Returns nothing while an event is not read, because the event is the reason, and the states are
  // those that it tells of.
  std::optional<Reason> reason_of_id(const CmIdStatus& id) const {
    if (has_events()) return std::nullopt;
    const std::string& state = id.state;
    const std::string to = id.destination.empty() ? "" : " to " + id.destination;
    if (state == "REQUEST") {
      const std::string from = id.destination.empty() ? "" : " from " + id.destination;
      return Reason{Weight::kStuck,
                    "a request for a connection" + from + " was neither accepted nor rejected"};
    }
    if (state == "ADDR_QUERY") return waits("rdma_resolve_addr" + to + " has no answer yet");
    if (state == "ADDR_RESOLVED") return waits("rdma_resolve_route" + to + " was not called yet");
    if (state == "ROUTE_RESOLVED") return waits("rdma_connect" + to + " was not called yet");
    if (state == "CONNECT" && (id.port_space == "UDP" || id.port_space == "IPOIB")) {
      return waits("rdma_connect" + to + " has no answer yet (a SIDR request)");
    }
    if (state == "CONNECT") {
      return waits("its connection" + to + " by rdma_cm is not complete");
    }
    if (state == "FAILED") {
      return Reason{Weight::kStuck,
                    "its connection" + to + " by rdma_cm was not made: rejected, or not answered"};
    }
    if (state == "DISCONNECT") return waits("rdma_disconnect" + to + " has no answer yet");
    if (state == "DISCONNECTED") return waits("its connection" + to + " by rdma_cm has ended");
    return reason_of_listener(id);
  }

  std::optional<Reason> reason_of_listener(const CmIdStatus& id) const {
    const auto is_passive = [](const CmIdStatus& other) {
      return other.state == "LISTEN" || other.state == "BOUND";
    };
    if (!is_passive(id) || !std::ranges::all_of(program_.ids, is_passive)) return std::nullopt;
    if (id.state == "BOUND") return waits("is bound to " + id.source + " and does not listen");
    return waits("listens at " + id.source + " with rdma_cm, and nobody is connected");
  }

  static Reason waits(std::string text) { return {Weight::kWaits, std::move(text)}; }

  std::string name_of(const CompletionQueueStatus& cq) const {
    const bool has_others = std::ranges::any_of(program_.cqs, [&](const auto& other) {
      return other.number == cq.number && other.context != cq.context;
    });
    return "CQ " + std::to_string(cq.number) + (has_others ? " of " + cq.device : "");
  }

  std::optional<Reason> reason_of_queue(const CompletionQueueStatus& cq) const {
    const std::string name = name_of(cq);
    if (cq.has_overrun) {
      return Reason{Weight::kBroken, name + " has overrun: there were more than " +
                                         std::to_string(cq.capacity) + " completions at once"};
    }
    const std::string at = " at fd " + std::to_string(cq.channel_fd);
    if (cq.has_channel && cq.unread_events != 0) {
      return Reason{Weight::kStuck, counted(cq.unread_events, "event") + at +
                                        is_or_are(cq.unread_events) +
                                        " not read (ibv_get_cq_event, " + name + ")"};
    }
    if (cq.unpolled == 0) return reason_of_acknowledgements(cq, name);
    const std::string holds = name + " holds " + counted(cq.unpolled, "completion") + " not polled";
    return Reason{Weight::kStuck, holds + why_no_event(cq, at)};
  }

  static std::string why_no_event(const CompletionQueueStatus& cq, const std::string& at) {
    if (!cq.has_channel) return "; it has no channel for events";
    if (cq.armed == "any") return "";
    if (cq.armed == "solicited") {
      return " and is armed for solicited ones only: they raise no event" + at +
             " (ibv_req_notify_cq with solicited_only, and IBV_SEND_SOLICITED at the sender)";
    }
    if (cq.unacknowledged_events != 0) {
      return "; an event was read, and it has not polled since, or not until the queue was empty";
    }
    return " and is not armed: they raise no event" + at +
           " (ibv_req_notify_cq comes first, then a poll)";
  }

  std::optional<Reason> reason_of_acknowledgements(const CompletionQueueStatus& cq,
                                                   const std::string& name) const {
    const auto is_destroyed = [&](const WaitingDestroyStatus& destroy) {
      return destroy.call == "ibv_destroy_cq" && destroy.number == cq.number &&
             destroy.context == cq.context;
    };
    if (cq.unacknowledged_events == 0) return std::nullopt;
    if (std::ranges::any_of(program_.destroys, is_destroyed)) return std::nullopt;
    return waits(counted(cq.unacknowledged_events, "event") + " of " + name +
                 is_or_are(cq.unacknowledged_events) +
                 " not acknowledged (ibv_ack_cq_events): ibv_destroy_cq would wait for that");
  }

  std::optional<Reason> reason_of_pair(const QueuePairStatus& qp) const {
    const std::string name = qp.type + " QP " + qp.qpn;
    const std::string in_state = name + " is in " + qp.state;
    if (!qp.last_error.empty()) {
      return Reason{Weight::kBroken,
                    in_state + ": " + qp.last_error + why_moved(qp) + end_of_peer(qp)};
    }
    if (qp.state == "ERR" || qp.state == "SQE") return Reason{Weight::kBroken, in_state};
    if (qp.state == "SQD") {
      return Reason{Weight::kNotReady, in_state + ": it sends nothing before RTS"};
    }
    if (qp.state == "INIT" || qp.state == "RESET") {
      return Reason{Weight::kNotReady,
                    in_state + ": it sends and receives nothing before RTR and RTS"};
    }
    if (qp.sends != 0) return reason_of_sends(qp, name);
    if (qp.receives != 0 && has_empty_receive_cq(qp)) return reason_of_receives(qp, name);
    return std::nullopt;
  }

  // Says that librdmacm may have moved the queue pair: it calls ibv_modify_qp for the program.
  std::string why_moved(const QueuePairStatus& qp) const {
    const bool is_by_verb = qp.last_error.starts_with("ibv_modify_qp moved it");
    const bool has_id =
        std::ranges::any_of(program_.ids, [&](const CmIdStatus& id) { return id.qpn == qp.qpn; });
    if (!is_by_verb || !has_id) return "";
    return ", as librdmacm does when a connection ends or is not made (rdma_disconnect)";
  }

  std::string end_of_peer(const QueuePairStatus& qp) const {
    if (qp.peer_qpn.empty() || peer_of(qp).qp != nullptr) return "";
    const Departures::Owner owner = owner_of_peer(qp);
    return owner.end.empty() ? "" : "; its peer, " + text_of(owner) + ", " + owner.end;
  }

  Departures::Owner owner_of_peer(const QueuePairStatus& qp) const {
    return around_.owner_of({qp.peer_qpn, qp.peer_address});
  }

  static std::string text_of(const Departures::Owner& owner) {
    return owner.program + "[" + std::to_string(owner.pid) + "]";
  }

  Reason reason_of_sends(const QueuePairStatus& qp, const std::string& name) const {
    Reason reason =
        waits(name + ": " + counted(qp.sends, "request") + is_or_are(qp.sends) + " not complete");
    if (qp.peer_qpn.empty()) return reason;
    const Peer peer = peer_of(qp);
    reason.text += "; the peer is " + name_of(qp, peer);
    if (peer.qp == nullptr) return reason;
    if (tell_state(reason, qp, *peer.qp)) return reason;
    // Messages to an XRC receive queue pair go into the SRQ that each of them names.
    if (peer.qp->type != "XRC_RECV" && peer.qp->receives == 0) {
      reason.weight = Weight::kStuck;
      reason.text += peer.qp->srq.empty() ? ", which has no receive posted"
                                          : ", whose SRQ " + peer.qp->srq + " has no receive";
      reason.text += " (a SEND and a WRITE with immediate need one)";
    }
    return reason;
  }

  Reason reason_of_receives(const QueuePairStatus& qp, const std::string& name) const {
    Reason reason =
        waits(name + ": nothing of its own is outstanding, and " + counted(qp.receives, "receive") +
              (qp.receives == 1 ? " waits" : " wait") + " for messages");
    if (qp.peer_qpn.empty()) return reason;
    const Peer peer = peer_of(qp);
    reason.text += " of " + name_of(qp, peer);
    if (peer.qp == nullptr) return reason;
    if (tell_state(reason, qp, *peer.qp)) return reason;
    if (peer.qp->state == "RTR") {
      reason.weight = Weight::kNotReady;
      reason.text += ", which is in RTR and sends nothing before RTS";
    } else if (peer.qp->sends == 0) {
      reason.text += ", which has sent all that it has posted";
    }
    return reason;
  }

  // A peer that was not found may belong to a program that does not answer.
  std::string name_of(const QueuePairStatus& qp, const Peer& peer) const {
    if (peer.qp == nullptr) return name_of_missing(qp);
    return qp.peer_qpn + " of " + peer.program->name + "[" + std::to_string(peer.program->pid) +
           "]";
  }

  std::string name_of_missing(const QueuePairStatus& qp) const {
    const Departures::Owner owner = owner_of_peer(qp);
    if (!owner.end.empty()) return qp.peer_qpn + " of " + text_of(owner) + ", which " + owner.end;
    const ProgramStatus* const living =
        owner.pid != 0 ? find_program(around_.now, owner.pid) : nullptr;
    if (living != nullptr && living->responds && living->name == owner.program) {
      return qp.peer_qpn + " of " + text_of(owner) + ", which has destroyed it";
    }
    const bool do_all_answer =
        std::ranges::all_of(around_.now, [](const auto& program) { return program->responds; });
    return qp.peer_qpn + " at " + qp.peer_address + ", which no program " +
           (do_all_answer ? "of this emulator has: it has ended, or the number is wrong"
                          : "that answers has");
  }

  // If the peer's state is why it takes and sends nothing, adds that to the reason and returns
  // true.
  static bool tell_state(Reason& reason, const QueuePairStatus& qp, const QueuePairStatus& peer) {
    if (peer.state != "RTR" && peer.state != "RTS") {
      reason.text += ", which is in " + peer.state;
    } else if (!peer.peer_qpn.empty() && peer.peer_qpn != qp.qpn) {
      reason.text += ", which is connected to " + peer.peer_qpn + ", not to this one";
    } else {
      return false;
    }
    reason.weight = Weight::kStuck;
    return true;
  }

  bool has_empty_receive_cq(const QueuePairStatus& qp) const {
    return std::ranges::none_of(program_.cqs, [&](const CompletionQueueStatus& cq) {
      return cq.number == qp.receive_cq && cq.unpolled != 0 &&
             (qp.context == 0 || cq.context == qp.context);
    });
  }

  // Prefers the queue pair that is connected to this one: a number is unique within a device only.
  Peer peer_of(const QueuePairStatus& qp) const {
    Peer found;
    for (const auto& program : around_.now) {
      for (const QueuePairStatus& other : program->qps) {
        if (other.qpn != qp.peer_qpn) continue;
        if (other.peer_qpn == qp.qpn) return {program.get(), &other};
        if (other.device_address == qp.peer_address) found = {program.get(), &other};
      }
    }
    return found;
  }

  bool nothing_comes() const {
    const auto has_nothing = [](const QueuePairStatus& qp) {
      return (qp.state == "RTS" || qp.state == "RTR") && qp.sends == 0 && qp.receives == 0;
    };
    return !program_.qps.empty() && program_.shared_receives == 0 &&
           std::ranges::all_of(program_.qps, has_nothing) &&
           std::ranges::all_of(program_.cqs, [](const auto& cq) { return cq.unpolled == 0; });
  }

  const ProgramStatus& program_;
  const Surroundings& around_;
  std::vector<std::string> said_;
};

// Returns true if a request was posted, or something new has come, since then.
bool has_moved(const QueuePairStatus& now, const QueuePairStatus& earlier) {
  return now.send_psn != earlier.send_psn || now.receive_psn != earlier.receive_psn ||
         (now.type == "UD" && now.received_packets != earlier.received_packets);
}

bool is_at_work(const ProgramStatus& now, const Programs& earlier) {
  const ProgramStatus* const then = find_program(earlier, now.pid);
  if (then == nullptr) return false;
  return std::ranges::any_of(now.qps, [&](const QueuePairStatus& qp) {
    const auto before =
        std::ranges::find(then->qps, std::pair(qp.qpn, qp.device_address),
                          [](const auto& q) { return std::pair(q.qpn, q.device_address); });
    return before != then->qps.end() && has_moved(qp, *before);
  });
}

}  // namespace

std::vector<std::string> reasons_of(const ProgramStatus& program, const Surroundings& around) {
  if (!program.responds) {
    return {"does not answer in time: it is stopped, in a debugger, or has no processor"};
  }
  if (is_at_work(program, around.earlier)) return {"is at work: it sends or receives"};
  return Reasons(program, around).find();
}

}  // namespace verbena::cli
