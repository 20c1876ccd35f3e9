// SPDX-License-Identifier: BSD-2-Clause
// verbena port, verbena fault: making the network bad on purpose.
#include <cstdio>
#include <memory>
#include <optional>

#include "command.hpp"
#include "emulator.hpp"
#include "text.hpp"
#include "verbena/control/runtime_dir.hpp"

namespace verbena::cli {
namespace {

struct FaultOptions {
  std::string device;
  std::string qpn;
  std::string loss;
  std::string duplicate;
  std::string reorder;
  std::string corrupt;
  std::string delay;
  std::string jitter;
  std::string rate;
  std::string seed;
  bool data = false;
  bool cm = false;
  bool clear = false;
};

// Sends one request and waits for its Ack.
template <typename Request>
int request(const Request& message) {
  auto emulator = reach_emulator(control::runtime_dir_path());
  if (!emulator) return complain(emulator.error().text);
  const auto done = emulator->channel.template call<control::Ack>(message);
  return done ? kOk : complain(done.error().text);
}

// Parses `text` into `out` and notes that it was named; false after a complaint.
template <typename T, typename Parse>
bool take(const std::string& text, Parse parse, T& out, std::uint32_t bit, std::uint32_t& named) {
  if (text.empty()) return true;
  const auto value = parse(text);
  if (!value) return complain(value.error().text, kUsage) == kOk;
  out = *value;
  named |= bit;
  return true;
}

// Nothing after a complaint.
std::optional<control::ChangeFault> fault_change_of(const FaultOptions& o) {
  control::ChangeFault change;
  std::uint32_t& named = change.named;
  control::FaultValues& v = change.values;
  std::uint32_t names_qp = 0;
  const bool parsed =
      take(o.qpn, parse_qpn, change.qpn, 1, names_qp) &&
      take(o.loss, parse_share, v.loss_ppm, control::kFaultLoss, named) &&
      take(o.duplicate, parse_share, v.duplicate_ppm, control::kFaultDuplicate, named) &&
      take(o.reorder, parse_share, v.reorder_ppm, control::kFaultReorder, named) &&
      take(o.corrupt, parse_share, v.corrupt_ppm, control::kFaultCorrupt, named) &&
      take(o.delay, parse_duration_ns, v.delay_ns, control::kFaultDelay, named) &&
      take(o.jitter, parse_duration_ns, v.jitter_ns, control::kFaultJitter, named) &&
      take(o.rate, parse_rate, v.rate_bytes_per_second, control::kFaultRate, named) &&
      take(o.seed, parse_seed, change.seed, control::kFaultSeed, named);
  if (!parsed) return std::nullopt;
  const char* wrong = nullptr;
  if (o.clear && named != 0) wrong = "--clear takes no fault beside it";
  if (!o.clear && named == 0) {
    wrong =
        "name a fault (--loss 1%, --delay 1ms, ...) or --clear; `verbena status` shows what is set";
  }
  if (change.qpn != 0 && o.cm) {
    wrong = "--cm is about what the emulator sends for all programs: it goes without --qp";
  }
  if (change.qpn == control::FaultSpec::kCm) {
    wrong = "queue pair 1 is the emulator's: --cm aims at what it sends";
  }
  if (wrong != nullptr) {
    complain(wrong, kUsage);
    return std::nullopt;
  }
  change.device = o.device;
  change.clear = o.clear;
  change.data = o.data || !o.cm;
  change.cm = change.qpn == 0 && (o.cm || !o.data);
  return change;
}

int set_fault(const FaultOptions& o) {
  const auto change = fault_change_of(o);
  if (!change) return kUsage;
  auto emulator = reach_emulator(control::runtime_dir_path());
  if (!emulator) return complain(emulator.error().text);
  const auto changed = emulator->channel.call<control::FaultChanged>(*change);
  if (!changed) return complain(changed.error().text);
  if (changed->has_seed && o.seed.empty()) {
    std::printf("seed %llu; the same packets meet the same faults again with --seed %llu\n",
                static_cast<unsigned long long>(changed->seed),
                static_cast<unsigned long long>(changed->seed));
  }
  return kOk;
}

// What a word of `verbena port` announces; 0: it takes the port up or down.
std::uint32_t change_of(const std::string& word) {
  if (word == "lid-change") return control::kLidChanged;
  if (word == "gid-change") return control::kGidsChanged;
  if (word == "pkey-change") return control::kPkeysChanged;
  if (word == "sm-change") return control::kSmChanged;
  return 0;
}

}  // namespace

void add_port(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  auto state = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "port",
      "Take the port of a device down, or bring it up again, or announce a change of what it reads "
      "(which stays as it was). Programs get the events.");
  command->add_option("device", *name, "Name of the device")->required();
  command->add_option("state", *state, "up, down, or what to announce")
      ->required()
      ->check(
          CLI::IsMember({"up", "down", "lid-change", "gid-change", "pkey-change", "sm-change"}));
  command->callback([name, state, &context] {
    const std::uint32_t change = change_of(*state);
    context.exit_code = change != 0 ? request(control::Announce{*name, change})
                                    : request(control::SetPort{*name, *state == "up"});
  });
}

void add_fault(CLI::App& app, Context& context) {
  auto o = std::make_shared<FaultOptions>();
  CLI::App* command = app.add_subcommand("fault",
                                         "Inject faults into what is sent: by device, by queue "
                                         "pair, or everywhere. What is not named\n"
                                         "stays as it was; 0 takes one fault away.");
  command->add_option("--device", o->device, "Only this device");
  command->add_option("--qp", o->qpn, "Only this queue pair, as 0x004001");
  command->add_option("--loss", o->loss, "Share of packets lost, as 1%");
  command->add_option("--duplicate", o->duplicate, "Share of packets sent twice");
  command->add_option("--reorder", o->reorder, "Share of packets that later ones overtake");
  command->add_option("--corrupt", o->corrupt, "Share of packets with a flipped bit");
  command->add_option("--delay", o->delay, "Delay of each packet, as 50us or 2ms");
  command->add_option("--jitter", o->jitter, "Random delay on top, up to this");
  command->add_option("--rate", o->rate,
                      "Speed of the line, as 100MB or 1Gbit a second; 0: no limit");
  command->add_option("--seed", o->seed,
                      "Decides which packets meet them: the same program meets the same again");
  command->add_flag("--data", o->data, "Only what programs send");
  command->add_flag("--cm", o->cm, "Only what connection management (rdma_cm) sends");
  command->add_flag("--clear", o->clear, "Take the faults away");
  command->callback([o, &context] { context.exit_code = set_fault(*o); });
}

}  // namespace verbena::cli
