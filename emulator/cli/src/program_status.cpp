// SPDX-License-Identifier: BSD-2-Clause
#include "program_status.hpp"

#include <nlohmann/json.hpp>

namespace verbena::cli {
namespace {

using nlohmann::json;

std::string text_or_empty(const json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

std::uint32_t number_or_zero(const json& value) {
  return value.is_number_unsigned() ? value.get<std::uint32_t>() : 0;
}

}  // namespace

QueuePairStatus read_queue_pair(const json& object) {
  QueuePairStatus qp;
  qp.qpn = object["qpn"];
  qp.type = object["type"];
  qp.state = object["state"];
  if (const json& peer = object["peer"]; peer.is_object()) {
    qp.peer_address = peer["address"];
    qp.peer_qpn = peer["qpn"];
  }
  qp.receive_cq = number_or_zero(object["receive_cq"]);
  qp.sends = object["send_outstanding"];
  qp.receives = object["receive_outstanding"];
  qp.srq = text_or_empty(object["srq"]);
  qp.send_psn = object["send_psn"];
  qp.receive_psn = object["receive_psn"];
  qp.received_packets = object["received_packets"];
  qp.last_error = text_or_empty(object["last_error"]);
  return qp;
}

CompletionQueueStatus read_completion_queue(const json& object) {
  CompletionQueueStatus cq;
  cq.number = object["cq"];
  cq.capacity = object["capacity"];
  cq.unpolled = object["unpolled"];
  cq.armed = object["armed"];
  cq.has_overrun = object["overrun"];
  cq.has_channel = object["channel_fd"].is_number();
  cq.channel_fd = number_or_zero(object["channel_fd"]);
  cq.unread_events = object["unread_events"];
  cq.unacknowledged_events = object["unacknowledged_events"];
  return cq;
}

CmIdStatus read_cm_id(const json& object) {
  CmIdStatus id;
  id.state = object["state"];
  id.qpn = text_or_empty(object["qpn"]);
  id.port_space = object["port_space"];
  id.source = text_or_empty(object["source"]);
  id.destination = text_or_empty(object["destination"]);
  id.unread_events = object["unread_events"];
  return id;
}

WaitingDestroyStatus read_waiting_destroy(const json& object) {
  WaitingDestroyStatus destroy;
  destroy.call = object["call"];
  destroy.acknowledges = object["acknowledges"];
  destroy.number = number_or_zero(object["number"]);
  destroy.events = object["events"];
  destroy.missing = number_or_zero(object["missing"]);
  return destroy;
}

}  // namespace verbena::cli
