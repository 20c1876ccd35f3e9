// SPDX-License-Identifier: BSD-2-Clause
// verbena port and verbena fault make the network bad on purpose.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "answer.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "fault_options.hpp"
#include "private_emulator.hpp"

namespace verbena::cli {
namespace {

// Sends one request and waits for its Ack.
template <typename Request>
int request(const PrivateOption& chosen, const Request& message) {
  auto emulator = chosen.reach();
  if (!emulator) return complain(emulator.error().text);
  const auto done = emulator->channel.template call<control::Ack>(message);
  return done ? kOk : complain(done.error().text);
}

// Names processes that are stopped, or in a debugger: what they have sent before may still arrive.
void complain_of_silent(const control::FaultChanged& changed) {
  if (changed.silent.count == 0) return;
  complain("set, but " + std::to_string(changed.silent.count) +
           " process(es) have not answered and may send without it until they go on: " +
           control::names_of(changed.silent));
}

void print_as_json(const control::FaultChanged& changed, Context& context) {
  nlohmann::ordered_json named = nlohmann::ordered_json::array();
  for (const control::SilentProcess& process : changed.silent.named) {
    named.push_back({{"pid", process.pid}, {"program", process.comm}});
  }
  nlohmann::ordered_json seed;  // null
  if (changed.has_seed) seed = changed.seed;
  print_answer(context, {{"seed", seed},
                         {"silent", {{"count", changed.silent.count}, {"programs", named}}}});
}

int set_fault(const PrivateOption& chosen, const FaultOptions& o, Context& context) {
  const auto change = o.change();
  if (!change) return complain(change.error().text, kUsage);
  auto emulator = chosen.reach();
  if (!emulator) return complain(emulator.error().text);
  const auto changed = emulator->channel.call<control::FaultChanged>(*change);
  if (!changed) return complain(changed.error().text);
  complain_of_silent(*changed);
  if (context.as_json) {
    print_as_json(*changed, context);
  } else if (changed->has_seed && o.seed.empty()) {
    std::printf("seed %llu; the same packets meet the same faults again with --seed %llu\n",
                static_cast<unsigned long long>(changed->seed),
                static_cast<unsigned long long>(changed->seed));
  }
  return kOk;
}

// Returns what a word of `verbena port` announces; 0: it takes the port up or down.
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
  auto chosen = std::make_shared<PrivateOption>();
  CLI::App* command = app.add_subcommand(
      "port",
      "Take the port of a device down or bring it up, or announce a change to programs without "
      "changing anything.");
  command->add_option("device", *name, "Name of the device")->required();
  command->add_option("state", *state, "up, down, or the change to announce")
      ->required()
      ->check(
          CLI::IsMember({"up", "down", "lid-change", "gid-change", "pkey-change", "sm-change"}));
  chosen->add_to(*command);
  add_json_option(*command, context);
  command->callback([chosen, name, state, &context] {
    const std::uint32_t change = change_of(*state);
    context.exit_code = change != 0 ? request(*chosen, control::Announce{*name, change})
                                    : request(*chosen, control::SetPort{*name, *state == "up"});
    if (context.as_json && context.exit_code == kOk) {
      print_answer(context, {{"device", *name}, {"change", *state}});
    }
  });
}

void add_fault(CLI::App& app, Context& context) {
  auto o = std::make_shared<FaultOptions>();
  auto chosen = std::make_shared<PrivateOption>();
  CLI::App* command = app.add_subcommand("fault",
                                         "Inject faults into the packets that devices send, all "
                                         "or those of one device or queue pair.\n"
                                         "Faults that are not named stay; 0 removes a fault.");
  o->add_target_to(*command);
  o->add_to(*command);
  chosen->add_to(*command);
  add_json_option(*command, context);
  command->callback([chosen, o, &context] { context.exit_code = set_fault(*chosen, *o, context); });
}

}  // namespace verbena::cli
