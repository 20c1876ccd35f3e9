// SPDX-License-Identifier: BSD-2-Clause
#include "status_json.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "names.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::daemon {
namespace {

using nlohmann::ordered_json;

const char* type_name(control::GidType type) {
  switch (type) {
    case control::GidType::kInfiniBand:
      return "IB";
    case control::GidType::kRoceV1:
      return "RoCE v1";
    case control::GidType::kRoceV2:
      return "RoCE v2";
  }
  return "";
}

const char* link_name(control::LinkKind link) {
  switch (link) {
    case control::LinkKind::kUdp:
      return "udp";
    case control::LinkKind::kRing:
      return "ring";
    case control::LinkKind::kNone:
      break;
  }
  return "none";
}

ordered_json number_or_null(std::uint32_t number) {
  return number != 0 ? ordered_json(number) : ordered_json(nullptr);
}

ordered_json qp_json(const control::QpStatus& qp) {
  ordered_json peer = nullptr;
  if (!qp.peer_address.is_unspecified()) {
    peer = {{"address", qp.peer_address.to_string()}, {"qpn", hex(qp.peer_qpn, 6)}};
  }
  return {
      {"qpn", hex(qp.qpn, 6)},
      {"type", qp_type_name(qp.type)},
      {"state", qp_state_name(qp.state)},
      {"peer", peer},
      {"link", link_name(qp.link)},
      {"send_cq", number_or_null(qp.send_cq)},
      {"receive_cq", number_or_null(qp.receive_cq)},
      {"srq", qp.srq != 0 ? ordered_json(hex(qp.srq, 6)) : ordered_json(nullptr)},
      {"send_psn", qp.send_psn},
      {"receive_psn", qp.receive_psn},
      {"send_outstanding", qp.send_outstanding},
      {"receive_outstanding", qp.receive_outstanding},
      {"sent_packets", qp.sent_packets},
      {"sent_bytes", qp.sent_bytes},
      {"received_packets", qp.received_packets},
      {"received_bytes", qp.received_bytes},
      {"retransmitted_packets", qp.retransmitted_packets},
      {"last_error", qp.last_error.empty() ? ordered_json(nullptr) : ordered_json(qp.last_error)},
  };
}

const char* armed_name(control::CqArmed armed) {
  switch (armed) {
    case control::CqArmed::kForSolicited:
      return "solicited";
    case control::CqArmed::kForAny:
      return "any";
    case control::CqArmed::kNo:
      break;
  }
  return "no";
}

ordered_json cq_json(const control::CqStatus& cq) {
  return {
      {"cq", cq.number},
      {"capacity", cq.capacity},
      {"unpolled", cq.unpolled},
      {"overrun", cq.has_overrun},
      {"armed", armed_name(cq.armed)},
      {"channel_fd", cq.has_channel ? ordered_json(cq.channel_fd) : ordered_json(nullptr)},
      {"unread_events", cq.unread_events},
      {"unacknowledged_events", cq.unacknowledged_events},
  };
}

// kTypes is in the order of enum ibv_srq_type.
ordered_json srq_json(const control::SrqStatus& srq) {
  constexpr std::array kTypes{"BASIC", "XRC", "TM"};
  return {
      {"srq", hex(srq.number, 6)},
      {"type", srq.type < kTypes.size() ? kTypes[srq.type] : "?"},
      {"receive_outstanding", srq.receive_outstanding},
  };
}

ordered_json destroy_json(const control::WaitingDestroy& destroy) {
  return {
      {"call", destroy.call},
      {"acknowledges", destroy.acknowledges},
      {"number", number_or_null(destroy.number)},
      {"events", destroy.events},
      {"missing", number_or_null(destroy.missing)},
  };
}

ordered_json context_json(const ContextStatus& context) {
  const control::ResourceCounts& n = context.first.counts;
  ordered_json destroys = ordered_json::array();
  for (const control::WaitingDestroy& destroy : context.first.destroys) {
    if (destroys.size() == control::StatusReport::kDestroysMost)
      break;  // a context that tells more is not believed
    destroys.push_back(destroy_json(destroy));
  }
  return {
      {"slot", context.slot},
      {"extra_slots", context.extra_slots},
      {"pid", context.pid},
      {"program", context.comm},
      {"responding", context.responds},
      {"further_engine", n.contexts == 0},
      {"resources", {{"pd", n.pds}, {"cq", n.cqs}, {"qp", n.qps}, {"mr", n.mrs}, {"srq", n.srqs}}},
      {"waiting_destroys", destroys},
  };
}

ordered_json fault_json(const FaultStatus& fault) {
  using control::FaultSpec;
  const control::FaultSpec& f = fault.spec;
  const bool is_general = f.qpn == FaultSpec::kEveryQp;
  ordered_json counted = ordered_json::object();
  for (std::size_t i = 0; i < kFaultCounters; ++i) {
    counted[std::string(kFaultCounterNames[i])] = fault.totals[i];
  }
  return {
      {"qpn", is_general ? ordered_json("all") : ordered_json(hex(f.qpn, 6))},
      {"traffic", f.qpn == FaultSpec::kCm ? "cm" : "data"},
      {"loss_ppm", f.values.loss_ppm},
      {"duplicate_ppm", f.values.duplicate_ppm},
      {"reorder_ppm", f.values.reorder_ppm},
      {"corrupt_ppm", f.values.corrupt_ppm},
      {"delay_ns", f.values.delay_ns},
      {"jitter_ns", f.values.jitter_ns},
      {"rate_bytes_per_second", f.values.rate_bytes_per_second},
      {"seed", f.seed},
      {"ended", fault.ended},
      {"counters", counted},
  };
}

ordered_json rule_json(const RuleStatus& rule) {
  return {
      {"rule", rule.spec.text},
      {"seed", rule.has_seed ? ordered_json(rule.spec.seed) : ordered_json(nullptr)},
      {"matched", rule.totals.matched},
      {"fired", rule.totals.fired},
  };
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json cm_id_json(const CmIdOfProcess& of) {
  const fabric::CmIdStatus& id = of.id;
  return {
      {"id", id.number},
      {"pid", of.pid},
      {"program", of.comm},
      {"state", id.state},
      {"port_space", id.port_space},
      {"source", text_or_null(id.source)},
      {"destination", text_or_null(id.destination)},
      {"device", text_or_null(id.device)},
      {"qpn", id.qpn != 0 ? ordered_json(hex(id.qpn, 6)) : ordered_json(nullptr)},
      {"backlog", id.backlog},
      {"unread_events", id.unread_events},
  };
}

// Returns each GID once.
ordered_json gids_json(const control::DeviceInfo& d) {
  std::vector<std::string> gids;
  for (const control::GidEntry& row : d.gids) {
    const std::string gid = row.gid.to_string();
    if (!row.gid.is_zero() && std::ranges::find(gids, gid) == gids.end()) gids.push_back(gid);
  }
  return ordered_json(gids);
}

// Returns the rows that are in use.
ordered_json gid_table_json(const control::DeviceInfo& d) {
  ordered_json table = ordered_json::array();
  for (std::size_t i = 0; i < d.gids.size(); ++i) {
    const control::GidEntry& row = d.gids[i];
    if (row.gid.is_zero()) continue;
    table.push_back({{"index", i}, {"gid", row.gid.to_string()}, {"type", type_name(row.type)}});
  }
  return table;
}

ordered_json device_json(const control::DeviceInfo& d, const fabric::Totals& totals) {
  const bool is_up = d.port_state == control::PortState::kActive;
  ordered_json counters;
  for (std::size_t i = 0; i < kPortCounters; ++i) {
    counters[std::string(kPortCounterNames[i])] = totals.port[i];
  }
  // Tells only the reasons that have occurred, because the list of all is long.
  ordered_json drops = ordered_json::object();
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    const std::uint64_t n = totals.drops[i];
    if (n != 0) drops[std::string(kDropReasonNames[i])] = n;
  }
  return {
      {"name", d.name},
      {"persona", d.persona == control::Persona::kRoce ? "RoCE" : "InfiniBand"},
      {"address", d.address.to_string()},
      {"interface", d.if_name},
      {"chardev", "uverbs" + std::to_string(d.uverbs_number)},
      {"node_guid", hex(d.node_guid, 16)},
      {"ports",
       {{{"port", control::kPortNumber},
         {"state", is_up ? "ACTIVE" : "DOWN"},
         {"lid", d.lid},
         {"gids", gids_json(d)},
         {"gid_table", gid_table_json(d)},
         {"pkeys", d.pkeys},
         {"active_mtu", 128u << d.active_mtu},
         {"counters", counters},
         {"drops", drops}}}},
  };
}

}  // namespace

std::string json_of(const EmulatorStatus& status) {
  return text_of({
      {"version", status.version},
      {"pid", status.pid},
      {"runtime_dir", status.runtime_dir},
      {"ends_when_idle", status.ends_when_idle},
  });
}

std::string json_of(const control::DeviceInfo& device, const fabric::Totals& totals) {
  return text_of(device_json(device, totals));
}

std::string json_of(const ContextStatus& context) { return text_of(context_json(context)); }
std::string json_of(const FaultStatus& fault) { return text_of(fault_json(fault)); }
std::string json_of(const RuleStatus& rule) { return text_of(rule_json(rule)); }
std::string json_of(const CmIdOfProcess& id) { return text_of(cm_id_json(id)); }
std::string json_of(const control::QpStatus& qp) { return text_of(qp_json(qp)); }
std::string json_of(const control::CqStatus& cq) { return text_of(cq_json(cq)); }
std::string json_of(const control::SrqStatus& srq) { return text_of(srq_json(srq)); }

std::string json_of_context_end(bool is_complete) {
  return text_of(ordered_json{{"complete", is_complete}});
}

}  // namespace verbena::daemon
