// verbena status: devices, ports, processes, queue pairs.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "command.hpp"
#include "emulator.hpp"
#include "text.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace verbena::cli {
namespace {

using nlohmann::json;

control::Outcome<std::string> ask_status(Emulator& emulator, bool resets) {
  auto part = emulator.channel.call<control::StatusText>(control::StatusQuery{resets});
  if (!part) return Failure<control::Error>{part.error()};
  std::string all = std::move(part->part);
  while (!part->last) {
    const auto in = emulator.channel.receive(control::kDefaultTimeoutMs);
    if (!in) return Failure<control::Error>{in.error()};
    part = control::decode<control::StatusText>(in->payload);
    if (!part) return Failure<control::Error>{part.error()};
    all += part->part;
  }
  return all;
}

std::string text_of(const json& value) { return value.get<std::string>(); }

void print_qp(const json& qp) {
  std::string peer = "no peer";
  if (qp["peer"].is_object()) {
    peer = "-> " + text_of(qp["peer"]["address"]) + " " + text_of(qp["peer"]["qpn"]) + " by " +
           text_of(qp["link"]);
  }
  std::printf("    QP %s %-4s %-5s %s\n", text_of(qp["qpn"]).c_str(), text_of(qp["type"]).c_str(),
              text_of(qp["state"]).c_str(), peer.c_str());
  std::printf("       sent %llu packets, %s; received %llu, %s; repeated %llu; outstanding %u/%u\n",
              qp["sent_packets"].get<unsigned long long>(),
              bytes_text(qp["sent_bytes"].get<std::uint64_t>()).c_str(),
              qp["received_packets"].get<unsigned long long>(),
              bytes_text(qp["received_bytes"].get<std::uint64_t>()).c_str(),
              qp["retransmitted_packets"].get<unsigned long long>(),
              qp["send_outstanding"].get<unsigned>(), qp["receive_outstanding"].get<unsigned>());
  if (qp["last_error"].is_string()) std::printf("       %s\n", text_of(qp["last_error"]).c_str());
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
  for (const json& qp : context["qps"]) print_qp(qp);
}

std::string whose_packets(const json& fault) {
  if (text_of(fault["traffic"]) == "cm") return "connection management";
  const std::string qpn = text_of(fault["qpn"]);
  return qpn == "all" ? "all queue pairs" : "QP " + qpn;
}

// What became of its packets, as far as anything did.
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
  if (f["ended"].get<bool>()) line += "; its program has ended";
  std::printf("%s\n    %s\n", line.c_str(), counted_of(f).c_str());
}

void print_device(const json& device) {
  const json& port = device["ports"][0];
  std::printf("%s  %s  %s on %s  ", text_of(device["name"]).c_str(),
              text_of(device["persona"]).c_str(), text_of(device["address"]).c_str(),
              text_of(device["interface"]).c_str());
  if (port["lid"].get<unsigned>() != 0) std::printf("LID %u  ", port["lid"].get<unsigned>());
  std::printf("%s  MTU %u\n", text_of(port["state"]).c_str(), port["active_mtu"].get<unsigned>());
  for (const json& gid : port["gids"]) std::printf("  GID %s\n", text_of(gid).c_str());
  const json& c = port["counters"];
  std::printf("  sent %llu packets, %s; received %llu packets, %s\n",
              c["port_xmit_packets"].get<unsigned long long>(),
              bytes_text(c["port_xmit_bytes"].get<std::uint64_t>()).c_str(),
              c["port_rcv_packets"].get<unsigned long long>(),
              bytes_text(c["port_rcv_bytes"].get<std::uint64_t>()).c_str());
  for (const auto& [reason, count] : port["drops"].items()) {
    std::printf("  dropped %llu: %s\n", count.get<unsigned long long>(), reason.c_str());
  }
  for (const json& fault : device["faults"]) print_fault(fault);
  for (const json& context : device["contexts"]) print_context(context);
}

int status(bool as_json, bool resets) {
  const std::string dir = control::runtime_dir_path();
  auto emulator = reach_emulator(dir);
  if (!emulator) return complain(emulator.error().text);
  const auto text = ask_status(*emulator, resets);
  if (!text) return complain(text.error().text);
  if (as_json) {
    std::printf("%s\n", text->c_str());
    return kOk;
  }
  const json all = json::parse(*text, nullptr, false);
  if (all.is_discarded()) return complain("the emulator's answer is no JSON");
  std::printf("verbena %s, pid %u, in %s%s\n", text_of(all["version"]).c_str(),
              all["pid"].get<unsigned>(), text_of(all["runtime_dir"]).c_str(),
              all["ends_when_idle"].get<bool>() ? ", ends after its last user" : "");
  for (const json& device : all["devices"]) print_device(device);
  return kOk;
}

}  // namespace

void add_status(CLI::App& app, Context& context) {
  auto as_json = std::make_shared<bool>(false);
  auto resets = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "status", "Show devices, ports, processes and every queue pair. 1 if no emulator runs.");
  command->add_flag("--json", *as_json, "As JSON, for programs");
  command->add_flag("--reset", *resets, "Then let the counters of the ports begin anew at zero");
  command->callback([as_json, resets, &context] { context.exit_code = status(*as_json, *resets); });
}

}  // namespace verbena::cli
