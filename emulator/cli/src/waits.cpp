// SPDX-License-Identifier: BSD-2-Clause
#include "waits.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "program_status.hpp"

namespace verbena::cli {
namespace {

using control::StatusPart;
using nlohmann::json;

// Queue pairs, completion queues and rdma_cm IDs of one program that are told one by one.
constexpr std::size_t kToldMost = 4;

std::string counted(std::uint64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string is_or_are(std::uint64_t count) { return count == 1 ? " is" : " are"; }

// The queue pair at the other end, and whose it is.
struct Peer {
  const ProgramStatus* program = nullptr;
  const QueuePairStatus* qp = nullptr;
};

// What one program waits for.
class Reasons {
 public:
  Reasons(const ProgramStatus& program, const std::vector<std::unique_ptr<ProgramStatus>>& all,
          std::vector<Wait>& out)
      : program_(program), all_(all), out_(out) {}

  void find() {
    if (!program_.responds) return say("does not answer: it is stopped, or in a debugger");
    tell_ids();
    tell_each(program_.cqs, &Reasons::reason_of_queue, "completion queue");
    tell_each(program_.qps, &Reasons::reason_of_pair, "queue pair");
    if (nothing_comes()) {
      say("nothing is outstanding and all completions were polled, so no completion will come; a "
          "request without IBV_SEND_SIGNALED leaves none");
    }
  }

 private:
  void say(std::string text) { out_.push_back({program_.pid, program_.name, std::move(text)}); }

  // The first ones that have a reason, and how many more have one.
  template <typename Object>
  void tell_each(const std::vector<Object>& objects,
                 std::optional<std::string> (Reasons::*reason)(const Object&) const,
                 const std::string& name) {
    std::size_t count = 0;
    for (const Object& object : objects) {
      const auto text = (this->*reason)(object);
      if (text && ++count <= kToldMost) say(*text);
    }
    if (count > kToldMost) say("and " + counted(count - kToldMost, "more " + name));
  }

  void tell_ids() {
    std::uint64_t unread = 0;
    for (const CmIdStatus& id : program_.ids) unread = std::max(unread, id.unread_events);
    if (unread != 0) {
      return say(counted(unread, "event") + " of rdma_cm" + is_or_are(unread) +
                 " not read (rdma_get_cm_event)");
    }
    tell_each(program_.ids, &Reasons::reason_of_id, "rdma_cm ID");
  }

  // A UD ID stays CONNECT when it is.
  std::optional<std::string> reason_of_id(const CmIdStatus& id) const {
    const std::string to = id.destination.empty() ? "" : " to " + id.destination;
    if (id.state == "REQUEST") {
      const std::string from = id.destination.empty() ? "" : " from " + id.destination;
      return "a request for a connection" + from + " was neither accepted nor rejected";
    }
    if (id.state == "ADDR_QUERY") return "rdma_resolve_addr" + to + " has no answer yet";
    if (id.state == "CONNECT" && id.port_space != "UDP") {
      return "its connection" + to + " by rdma_cm is not complete";
    }
    if (id.state == "DISCONNECT") return "rdma_disconnect" + to + " has no answer yet";
    if (id.state == "LISTEN" && program_.ids.size() == 1) {
      return "listens at " + id.source + " with rdma_cm, and nobody is connected";
    }
    return std::nullopt;
  }

  std::optional<std::string> reason_of_queue(const CompletionQueueStatus& cq) const {
    const std::string name = "CQ " + std::to_string(cq.number);
    if (cq.has_overrun) {
      return name + " has overrun: there were more than " + std::to_string(cq.capacity) +
             " completions at once";
    }
    const std::string events =
        counted(cq.unread_events, "event") + " of fd " + std::to_string(cq.channel_fd);
    if (cq.has_channel && cq.unread_events != 0) {
      return events + is_or_are(cq.unread_events) + " not read (ibv_get_cq_event, " + name + ")";
    }
    if (cq.unpolled == 0) return std::nullopt;
    const std::string holds = name + " holds " + counted(cq.unpolled, "completion") + " not polled";
    if (!cq.has_channel || cq.armed == "any") return holds;
    const std::string none =
        "they raise no event at fd " + std::to_string(cq.channel_fd) + " (ibv_req_notify_cq";
    if (cq.armed == "solicited") {
      return holds + " and is armed for solicited ones only: " + none +
             " with solicited_only, and IBV_SEND_SOLICITED at the sender)";
    }
    return holds + " and is not armed: " + none + " comes first, then a poll)";
  }

  std::optional<std::string> reason_of_pair(const QueuePairStatus& qp) const {
    const std::string name = qp.type + " QP " + qp.qpn;
    if (!qp.last_error.empty()) return name + " is in " + qp.state + ": " + qp.last_error;
    if (qp.state == "INIT" || qp.state == "RESET") {
      return name + " is in " + qp.state + ": it sends and receives nothing before RTR and RTS";
    }
    if (qp.state == "SQD") return name + " is in SQD: it sends nothing before RTS";
    if (qp.state == "ERR" || qp.state == "SQE") return name + " is in " + qp.state;
    if (qp.sends != 0) return reason_of_sends(qp, name);
    if (qp.receives != 0 && has_empty_receive_cq(qp)) return reason_of_receives(qp, name);
    return std::nullopt;
  }

  std::string reason_of_sends(const QueuePairStatus& qp, const std::string& name) const {
    std::string text =
        name + ": " + counted(qp.sends, "request") + is_or_are(qp.sends) + " not complete";
    if (qp.peer_qpn.empty()) return text;
    const Peer peer = peer_of(qp);
    const bool has_receives = peer.qp != nullptr && peer.qp->receives != 0;
    return text + "; the peer is " + name_of(qp, peer) +
           state_of(qp, peer, has_receives ? "" : ", which has no receive posted");
  }

  std::string reason_of_receives(const QueuePairStatus& qp, const std::string& name) const {
    std::string text = name + ": " + counted(qp.receives, "receive") +
                       (qp.receives == 1 ? " waits" : " wait") + " for messages";
    if (qp.peer_qpn.empty()) return text;
    const Peer peer = peer_of(qp);
    const bool has_sends = peer.qp != nullptr && peer.qp->sends != 0;
    return text + " of " + name_of(qp, peer) +
           state_of(qp, peer, has_sends ? "" : ", which has sent all that it has posted");
  }

  // Of a program that does not answer nothing else is known.
  std::string name_of(const QueuePairStatus& qp, const Peer& peer) const {
    if (peer.qp == nullptr) {
      const bool do_all_answer = std::all_of(all_.begin(), all_.end(),
                                             [](const auto& program) { return program->responds; });
      return qp.peer_qpn + " at " + qp.peer_address + ", which no program " +
             (do_all_answer ? "of this emulator has" : "that answers has");
    }
    return qp.peer_qpn + " of " + peer.program->name + "[" + std::to_string(peer.program->pid) +
           "]";
  }

  // Why the peer takes and sends nothing; `else_so` where its state is no reason.
  static std::string state_of(const QueuePairStatus& qp, const Peer& peer,
                              const std::string& else_so) {
    if (peer.qp == nullptr) return "";
    if (peer.qp->state != "RTR" && peer.qp->state != "RTS")
      return ", which is in " + peer.qp->state;
    if (!peer.qp->peer_qpn.empty() && peer.qp->peer_qpn != qp.qpn) {
      return ", which is connected to " + peer.qp->peer_qpn + ", not to this one";
    }
    return else_so;
  }

  bool has_empty_receive_cq(const QueuePairStatus& qp) const {
    return std::none_of(program_.cqs.begin(), program_.cqs.end(),
                        [&](const CompletionQueueStatus& cq) {
                          return cq.number == qp.receive_cq && cq.unpolled != 0;
                        });
  }

  // Numbers are those of one device; two may have the same.
  Peer peer_of(const QueuePairStatus& qp) const {
    Peer found;
    for (const auto& program : all_) {
      for (const QueuePairStatus& other : program->qps) {
        if (other.qpn != qp.peer_qpn) continue;
        if (other.peer_qpn == qp.qpn) return {program.get(), &other};
        if (other.device_address == qp.peer_address) found = {program.get(), &other};
      }
    }
    return found;
  }

  bool nothing_comes() const {
    return !program_.qps.empty() &&
           std::all_of(program_.qps.begin(), program_.qps.end(),
                       [](const QueuePairStatus& qp) {
                         return (qp.state == "RTS" || qp.state == "RTR") && qp.sends == 0 &&
                                qp.receives == 0;
                       }) &&
           std::all_of(program_.cqs.begin(), program_.cqs.end(),
                       [](const CompletionQueueStatus& cq) { return cq.unpolled == 0; });
  }

  const ProgramStatus& program_;
  const std::vector<std::unique_ptr<ProgramStatus>>& all_;
  std::vector<Wait>& out_;
};

// Its port, and what it has dropped.
std::vector<Wait> waits_of_device(const json& device) {
  std::vector<Wait> waits;
  const std::string name = device["name"];
  const json& port = device["ports"][0];
  if (port["state"] != "ACTIVE") {
    waits.push_back({0, name, "its port is " + port["state"].get<std::string>()});
  }
  std::string drops;
  for (const auto& [reason, count] : port["drops"].items()) {
    drops += (drops.empty() ? "" : ", ") + count.dump() + " " + reason;
  }
  if (!drops.empty()) waits.push_back({0, name, "it has dropped packets: " + drops});
  return waits;
}

}  // namespace

std::string text_of(const Wait& wait) {
  const std::string pid = wait.pid != 0 ? "[" + std::to_string(wait.pid) + "]" : "";
  return wait.program + pid + ": " + wait.text;
}

Waits::Waits() = default;
Waits::~Waits() = default;

ProgramStatus& Waits::program_of(std::uint32_t pid, const std::string& name) {
  for (const auto& program : programs_) {
    if (program->pid == pid) return *program;
  }
  programs_.push_back(std::make_unique<ProgramStatus>());
  programs_.back()->pid = pid;
  programs_.back()->name = name;
  return *programs_.back();
}

void Waits::take(StatusPart part, const std::string& lines) {
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) take_object(part, line);
}

void Waits::take_object(StatusPart part, const std::string& line) {
  const json object = json::parse(line, nullptr, false);
  if (object.is_discarded()) return;
  switch (part) {
    case StatusPart::kCmIds:
      program_of(object["pid"], object["program"]).ids.push_back(read_cm_id(object));
      return;
    case StatusPart::kDevice: {
      device_address_ = object["address"];
      for (Wait& wait : waits_of_device(object)) of_devices_.push_back(std::move(wait));
      return;
    }
    case StatusPart::kContext:
      pid_ = object["pid"];
      if (!object["responding"].get<bool>()) program_of(pid_, object["program"]).responds = false;
      program_of(pid_, object["program"]);
      return;
    case StatusPart::kContextEnd:
      if (!object["complete"].get<bool>()) program_of(pid_, "").responds = false;
      return;
    case StatusPart::kQps: {
      QueuePairStatus qp = read_queue_pair(object);
      qp.device_address = device_address_;
      program_of(pid_, "").qps.push_back(std::move(qp));
      return;
    }
    case StatusPart::kCqs:
      program_of(pid_, "").cqs.push_back(read_completion_queue(object));
      return;
    case StatusPart::kEmulator:
    case StatusPart::kRules:
    case StatusPart::kFaults:
    case StatusPart::kSrqs:
    case StatusPart::kEnd:
      return;
  }
}

std::vector<Wait> Waits::found() const {
  std::vector<Wait> waits;
  for (const auto& program : programs_) Reasons(*program, programs_, waits).find();
  waits.insert(waits.end(), of_devices_.begin(), of_devices_.end());
  return waits;
}

}  // namespace verbena::cli
