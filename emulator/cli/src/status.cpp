// SPDX-License-Identifier: BSD-2-Clause
// verbena status shows devices, ports, processes and queue pairs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "answer.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "private_emulator.hpp"
#include "status_parts.hpp"
#include "text.hpp"
#include "verbena/control/printable.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::cli {
namespace {

using control::StatusPart;
using nlohmann::json;

std::string text_of(const json& value) { return control::printable(value.get<std::string>()); }

// Returns the queues that a queue pair uses: ", CQ 1", or both completion queues if they differ,
// and its SRQ.
std::string queues_text(const json& qp) {
  std::string text;
  const auto cq = [&](const char* name, const json& number) {
    if (number.is_number())
      text += ", " + std::string(name) + std::to_string(number.get<unsigned>());
  };
  if (qp["send_cq"] == qp["receive_cq"]) {
    cq("CQ ", qp["send_cq"]);
  } else {
    cq("send CQ ", qp["send_cq"]);
    cq("receive CQ ", qp["receive_cq"]);
  }
  if (qp["srq"].is_string()) text += ", SRQ " + text_of(qp["srq"]);
  return text;
}

void print_qp(const json& qp) {
  std::string peer = "no peer";
  if (qp["peer"].is_object()) {
    peer = "-> " + text_of(qp["peer"]["address"]) + " " + text_of(qp["peer"]["qpn"]) + " by " +
           text_of(qp["link"]);
  }
  std::printf("    QP %s %-4s %-5s %s%s\n", text_of(qp["qpn"]).c_str(), text_of(qp["type"]).c_str(),
              text_of(qp["state"]).c_str(), peer.c_str(), queues_text(qp).c_str());
  std::printf("       sent %llu packets, %s; received %llu, %s; repeated %llu; outstanding %u/%u\n",
              qp["sent_packets"].get<unsigned long long>(),
              bytes_text(qp["sent_bytes"].get<std::uint64_t>()).c_str(),
              qp["received_packets"].get<unsigned long long>(),
              bytes_text(qp["received_bytes"].get<std::uint64_t>()).c_str(),
              qp["retransmitted_packets"].get<unsigned long long>(),
              qp["send_outstanding"].get<unsigned>(), qp["receive_outstanding"].get<unsigned>());
  if (qp["last_error"].is_string()) std::printf("       %s\n", text_of(qp["last_error"]).c_str());
}

void print_cq(const json& cq) {
  std::string line = std::to_string(cq["unpolled"].get<unsigned>()) + " of " +
                     std::to_string(cq["capacity"].get<unsigned>()) + " completions not polled";
  if (cq["overrun"].get<bool>()) line += ", overrun";
  if (const json& fd = cq["channel_fd"]; fd.is_number()) {
    const std::string armed = text_of(cq["armed"]);
    line += armed == "no" ? ", not armed" : armed == "any" ? ", armed" : ", armed for solicited";
    line += "; events at fd " + std::to_string(fd.get<unsigned>()) + ": " +
            std::to_string(cq["unread_events"].get<unsigned>()) + " not read, " +
            std::to_string(cq["unacknowledged_events"].get<unsigned>()) + " not acknowledged";
  }
  std::printf("    CQ %u: %s\n", cq["cq"].get<unsigned>(), line.c_str());
}

void print_srq(const json& srq) {
  std::printf("    SRQ %s %s, %u receives posted\n", text_of(srq["srq"]).c_str(),
              text_of(srq["type"]).c_str(), srq["receive_outstanding"].get<unsigned>());
}

void print_context(const json& context) {
  const json& n = context["resources"];
  std::printf("  pid %u (%s), slot %u", context["pid"].get<unsigned>(),
              text_of(context["program"]).c_str(), context["slot"].get<unsigned>());
  if (!context["responding"].get<bool>()) {
    std::printf(": does not answer (stopped, or in a debugger)\n");
    return;
  }
  if (context["further_engine"].get<bool>()) std::printf(", a further engine");
  std::printf(": %u QP, %u CQ, %u MR, %u PD, %u SRQ\n", n["qp"].get<unsigned>(),
              n["cq"].get<unsigned>(), n["mr"].get<unsigned>(), n["pd"].get<unsigned>(),
              n["srq"].get<unsigned>());
}

std::string whose_packets(const json& fault) {
  if (text_of(fault["traffic"]) == "cm") return "connection management";
  const std::string qpn = text_of(fault["qpn"]);
  return qpn == "all" ? "all queue pairs" : "QP " + qpn;
}

// Returns what became of its packets, as far as anything did.
std::string counted_of(const json& fault) {
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"lost", "lost"},           {"duplicated", "duplicated"},
      {"reordered", "reordered"}, {"corrupted", "corrupted"},
      {"delayed", "delayed"},     {"rate_limited", "held back by the rate"}};
  const json& counters = fault["counters"];
  std::string line;
  for (const auto& [name, word] : kWords) {
    const auto number = counters[name].get<std::uint64_t>();
    if (number == 0) continue;
    line += (line.empty() ? "" : ", ") + std::to_string(number) + " " + word;
    if (std::string_view(name) == "lost" && text_of(fault["traffic"]) == "data") {
      line += " (" + std::to_string(counters["lost_requests"].get<std::uint64_t>()) + " requests)";
    }
  }
  return "of " + std::to_string(counters["packets"].get<std::uint64_t>()) + " packets " +
         (line.empty() ? "none" : line);
}

void print_fault(const json& f) {
  std::string line = "  fault on " + whose_packets(f) + ":";
  for (const char* kind : {"loss", "duplicate", "reorder", "corrupt"}) {
    const auto ppm = f[std::string(kind) + "_ppm"].get<std::uint32_t>();
    if (ppm != 0) line += std::string(" ") + kind + " " + share_text(ppm);
  }
  for (const char* kind : {"delay", "jitter"}) {
    const auto ns = f[std::string(kind) + "_ns"].get<std::uint64_t>();
    if (ns != 0) line += std::string(" ") + kind + " " + duration_text(ns);
  }
  const auto rate = f["rate_bytes_per_second"].get<std::uint64_t>();
  if (rate != 0) line += " rate " + bytes_text(rate) + "/s";
  if (line.back() == ':') line += " none";
  line += ", seed " + std::to_string(f["seed"].get<std::uint64_t>());
  if (f["ended"].get<bool>()) line += "; its queue pair is gone";
  std::printf("%s\n    %s\n", line.c_str(), counted_of(f).c_str());
}

// Returns what a rule acts on.
const char* objects_of_rule(const std::string& text) {
  const std::string action = text.substr(0, text.find(' '));
  if (action.starts_with("fail=")) return "calls";
  if (action.starts_with("port-")) return "ports";
  if (action == "kill" || action == "stop" || action == "cont") return "processes";
  return action.starts_with("raise=") ? "programs" : "packets";
}

void print_rule(const json& rule) {
  const std::string text = text_of(rule["rule"]);
  std::printf("rule %s: matched %llu %s, fired %llu times", text.c_str(),
              rule["matched"].get<unsigned long long>(), objects_of_rule(text),
              rule["fired"].get<unsigned long long>());
  if (rule["seed"].is_number()) {
    std::printf(", seed %llu", rule["seed"].get<unsigned long long>());
  }
  std::printf("\n");
}

void print_cm_id(const json& id) {
  std::string line = text_of(id["state"]) + " " + text_of(id["port_space"]);
  if (id["source"].is_string()) line += " " + text_of(id["source"]);
  if (id["destination"].is_string()) line += " -> " + text_of(id["destination"]);
  if (id["device"].is_string()) line += " on " + text_of(id["device"]);
  if (id["qpn"].is_string()) line += ", QP " + text_of(id["qpn"]);
  if (text_of(id["state"]) == "LISTEN") {
    line += ", backlog " + std::to_string(id["backlog"].get<unsigned>());
  }
  const auto unread = id["unread_events"].get<std::size_t>();
  if (unread != 0) line += "; events of its channel not read: " + std::to_string(unread);
  std::printf("rdma_cm ID of pid %u (%s): %s\n", id["pid"].get<unsigned>(),
              text_of(id["program"]).c_str(), line.c_str());
}

void print_device(const json& device) {
  const json& port = device["ports"][0];
  std::printf("%s  %s  %s on %s  ", text_of(device["name"]).c_str(),
              text_of(device["persona"]).c_str(), text_of(device["address"]).c_str(),
              text_of(device["interface"]).c_str());
  if (port["lid"].get<unsigned>() != 0) std::printf("LID %u  ", port["lid"].get<unsigned>());
  std::printf("%s  MTU %u\n", text_of(port["state"]).c_str(), port["active_mtu"].get<unsigned>());
  for (const json& row : port["gid_table"]) {
    std::printf("  GID %-2u %s  %s\n", row["index"].get<unsigned>(), text_of(row["gid"]).c_str(),
                text_of(row["type"]).c_str());
  }
  const json& c = port["counters"];
  std::printf("  sent %llu packets, %s; received %llu packets, %s\n",
              c["port_xmit_packets"].get<unsigned long long>(),
              bytes_text(c["port_xmit_bytes"].get<std::uint64_t>()).c_str(),
              c["port_rcv_packets"].get<unsigned long long>(),
              bytes_text(c["port_rcv_bytes"].get<std::uint64_t>()).c_str());
  for (const auto& [reason, count] : port["drops"].items()) {
    std::printf("  dropped %llu: %s\n", count.get<unsigned long long>(), reason.c_str());
  }
}

void print_emulator(const json& emulator) {
  std::printf("verbena %s, pid %u, in %s%s\n", text_of(emulator["version"]).c_str(),
              emulator["pid"].get<unsigned>(), text_of(emulator["runtime_dir"]).c_str(),
              emulator["ends_when_idle"].get<bool>() ? ", ends after its last user" : "");
}

// Prints each part as it comes, and keeps none.
class Printer {
 public:
  virtual ~Printer() = default;
  virtual void print(StatusPart part, const std::string& text) = 0;
};

class TextPrinter final : public Printer {
 public:
  void print(StatusPart part, const std::string& text) override {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const json object = json::parse(line, nullptr, false);
      if (!object.is_discarded()) print_object(part, object);
    }
  }

 private:
  void print_object(StatusPart part, const json& object) {
    switch (part) {
      case StatusPart::kEmulator:
        return print_emulator(object);
      case StatusPart::kRules:
        return print_rule(object);
      case StatusPart::kCmIds:
        return print_cm_id(object);
      case StatusPart::kDevice:
        return print_device(object);
      case StatusPart::kFaults:
        return print_fault(object);
      case StatusPart::kContext:
        responds_ = object["responding"].get<bool>();
        return print_context(object);
      case StatusPart::kQps:
        return print_qp(object);
      case StatusPart::kCqs:
        return print_cq(object);
      case StatusPart::kSrqs:
        return print_srq(object);
      case StatusPart::kContextEnd:
        if (responds_ && !object["complete"].get<bool>()) {
          std::printf("    and does not answer any more (stopped, or in a debugger)\n");
        }
        return;
      case StatusPart::kEnd:
        return;
    }
  }

  bool responds_ = false;
};

// Prints one document: what follows an object belongs to it, as a list within.
class JsonPrinter final : public Printer {
 public:
  void print(StatusPart part, const std::string& text) override {
    switch (part) {
      case StatusPart::kEmulator:
        return begin_object(text, "rules");
      case StatusPart::kDevice:
        if (!has_devices_) begin_devices();
        end_device();
        if (has_devices_) std::fputs(",\n", stdout);
        has_devices_ = is_in_device_ = true;
        has_contexts_ = false;
        return begin_object(text, "faults");
      case StatusPart::kContext:
        if (has_contexts_) {
          std::fputs(",\n", stdout);
        } else {
          begin_contexts();
        }
        begin_object(text, "qps");
        lists_begun_ = 1;
        return;
      case StatusPart::kCqs:
        begin_lists(2);
        return print_objects(text);
      case StatusPart::kSrqs:
        begin_lists(3);
        return print_objects(text);
      case StatusPart::kCmIds:
        begin_cm_ids();
        return print_objects(text);
      case StatusPart::kRules:
      case StatusPart::kFaults:
      case StatusPart::kQps:
        return print_objects(text);
      case StatusPart::kContextEnd:
        begin_lists(3);
        std::printf("],\n%s", text.c_str() + 1);
        return;
      case StatusPart::kEnd:
        if (!has_devices_) begin_devices();
        end_device();
        std::fputs("]}\n", stdout);
        return;
    }
  }

 private:
  // Leaves the object open, with a list as its last member.
  void begin_object(const std::string& text, const char* list) {
    std::printf("%.*s,\n\"%s\": [", static_cast<int>(text.size()) - 1, text.c_str(), list);
    is_empty_ = true;
  }
  void begin_cm_ids() {
    if (std::exchange(has_cm_ids_, true)) return;
    std::fputs("],\n\"cm_ids\": [", stdout);
    is_empty_ = true;
  }
  void begin_devices() {
    begin_cm_ids();
    std::fputs("],\n\"devices\": [", stdout);
  }
  void begin_contexts() {
    std::fputs("],\n\"contexts\": [", stdout);
    has_contexts_ = true;
  }
  // Begins the first `count` lists of a context, as far as they have not begun.
  void begin_lists(std::size_t count) {
    constexpr const char* kLists[] = {"qps", "cqs", "srqs"};
    for (; lists_begun_ < count; ++lists_begun_) {
      std::printf("],\n\"%s\": [", kLists[lists_begun_]);
      is_empty_ = true;
    }
  }
  void end_device() {
    if (!is_in_device_) return;
    if (!has_contexts_) begin_contexts();
    std::fputs("]}", stdout);
    is_in_device_ = false;
  }
  void print_objects(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::printf("%s\n%s", is_empty_ ? "" : ",", line.c_str());
      is_empty_ = false;
    }
  }

  bool has_cm_ids_ = false;
  bool has_devices_ = false;
  bool is_in_device_ = false;
  bool has_contexts_ = false;
  std::size_t lists_begun_ = 0;  // lists of this context
  bool is_empty_ = true;         // the list that is being printed has no element yet
};

int status(const PrivateOption& chosen, bool resets, Context& context) {
  auto emulator = chosen.reach();
  if (!emulator) return complain(emulator.error().text);
  TextPrinter text;
  JsonPrinter json_document;
  Printer& printer = context.as_json ? static_cast<Printer&>(json_document) : text;
  const auto done = read_status(*emulator, resets, [&](StatusPart part, const std::string& words) {
    context.has_answered = true;  // an error that comes later has no place in the document
    printer.print(part, words);
  });
  if (!done) return complain(done.error().text);
  return kOk;
}

}  // namespace

void add_status(CLI::App& app, Context& context) {
  auto resets = std::make_shared<bool>(false);
  auto chosen = std::make_shared<PrivateOption>();
  CLI::App* command = app.add_subcommand(
      "status",
      "Show devices, ports, processes and every queue pair. Exits with 1 if no emulator runs.");
  add_json_option(*command, context);
  command->add_flag("--reset", *resets, "Set the counters of the ports to zero afterwards");
  chosen->add_to(*command);
  command->callback(
      [chosen, resets, &context] { context.exit_code = status(*chosen, *resets, context); });
}

}  // namespace verbena::cli
