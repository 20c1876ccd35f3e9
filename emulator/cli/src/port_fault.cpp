// verbena port, verbena fault: making the network bad on purpose.
#include <cstdio>
#include <memory>

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
  std::uint64_t seed = 0;
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

// Parses `text` into `out` unless it is empty; false after a complaint.
template <typename T, typename Parse>
bool take(const std::string& text, Parse parse, T& out) {
  if (text.empty()) return true;
  const auto value = parse(text);
  if (value) {
    out = *value;
  } else {
    complain(value.error().text);
  }
  return value.ok();
}

int set_fault(const FaultOptions& o) {
  control::FaultSpec fault;
  const bool parsed = take(o.qpn, parse_qpn, fault.qpn) &&
                      take(o.loss, parse_share, fault.loss_ppm) &&
                      take(o.duplicate, parse_share, fault.duplicate_ppm) &&
                      take(o.reorder, parse_share, fault.reorder_ppm) &&
                      take(o.corrupt, parse_share, fault.corrupt_ppm) &&
                      take(o.delay, parse_duration_ns, fault.delay_ns) &&
                      take(o.jitter, parse_duration_ns, fault.jitter_ns) &&
                      take(o.rate, parse_rate, fault.rate_bytes_per_second);
  if (!parsed) return kUsage;
  fault.seed = o.seed;
  control::SetFault message{o.device, {}};
  if (!o.clear && fault.is_none()) {
    return complain(
        "name a fault (--loss 1%, --delay 1ms, ...) or --clear; `verbena status` shows "
        "what is set",
        kUsage);
  }
  if (o.clear && !fault.is_none()) return complain("--clear takes no fault beside it", kUsage);
  // --clear of one queue pair is a fault that does nothing.
  if (!o.clear || fault.qpn != 0) message.faults.push_back(fault);
  return request(message);
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
      ->check(CLI::IsMember({"up", "down", "lid-change", "gid-change", "pkey-change", "sm-change"}));
  command->callback([name, state, &context] {
    const std::uint32_t change = change_of(*state);
    context.exit_code = change != 0 ? request(control::Announce{*name, change})
                                    : request(control::SetPort{*name, *state == "up"});
  });
}

void add_fault(CLI::App& app, Context& context) {
  auto o = std::make_shared<FaultOptions>();
  CLI::App* command = app.add_subcommand(
      "fault", "Inject faults into what is sent: by device, by queue pair, or everywhere.");
  command->add_option("--device", o->device, "Only this device");
  command->add_option("--qp", o->qpn, "Only this queue pair, as 0x004001");
  command->add_option("--loss", o->loss, "Share of packets lost, as 1%");
  command->add_option("--duplicate", o->duplicate, "Share of packets sent twice");
  command->add_option("--reorder", o->reorder, "Share of packets that later ones overtake");
  command->add_option("--corrupt", o->corrupt, "Share of packets with a flipped bit");
  command->add_option("--delay", o->delay, "Delay of each packet, as 50us or 2ms");
  command->add_option("--jitter", o->jitter, "Random delay on top, up to this");
  command->add_option("--rate", o->rate, "Speed of the line, as 100MB or 1Gbit a second");
  command->add_option("--seed", o->seed, "Repeats the same faults");
  command->add_flag("--clear", o->clear, "Take the faults away");
  command->callback([o, &context] { context.exit_code = set_fault(*o); });
}

}  // namespace verbena::cli
