// SPDX-License-Identifier: BSD-2-Clause
// verbena event raises asynchronous events that rarely happen by themselves.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "answer.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "private_emulator.hpp"
#include "text.hpp"
#include "verbena/control/event_messages.hpp"

namespace verbena::cli {
namespace {

using control::RaisedEvent;

// What an event happens to.
enum class Target { kPort, kQueuePair, kSharedReceive };

struct EventWord {
  const char* word;
  RaisedEvent event;
  Target target;
};
constexpr std::array kEvents{
    EventWord{"client-reregister", RaisedEvent::kClientReregister, Target::kPort},
    EventWord{"path-mig-err", RaisedEvent::kPathMigrationError, Target::kQueuePair},
    EventWord{"qp-fatal", RaisedEvent::kQpFatal, Target::kQueuePair},
    EventWord{"srq-err", RaisedEvent::kSrqError, Target::kSharedReceive},
    EventWord{"wq-fatal", RaisedEvent::kWqFatal, Target::kPort},
};

struct EventOptions {
  std::string device;
  std::string event;
  std::string qp;
  std::string srq;
  PrivateOption chosen;
};

// Returns what is wrong with the choice of --qp and --srq; empty: nothing.
std::string wrong_target(const EventOptions& o, Target target) {
  const bool wants_qp = target == Target::kQueuePair;
  const bool wants_srq = target == Target::kSharedReceive;
  if (!o.qp.empty() && !wants_qp) return o.event + " is no event of a queue pair: leave out --qp";
  if (!o.srq.empty() && !wants_srq) {
    return o.event + " is no event of a shared receive queue: leave out --srq";
  }
  if (wants_qp && o.qp.empty()) {
    return o.event + " happens to a queue pair: name it with --qp, as `verbena status` shows it";
  }
  if (wants_srq && o.srq.empty()) {
    return o.event +
           " happens to a shared receive queue: name it with --srq, as `verbena status` shows it";
  }
  return {};
}

int raise(const EventOptions& o, Context& context) {
  control::RaiseEvent message{o.device, {}, 0};
  Target target = Target::kPort;
  for (const EventWord& known : kEvents) {
    if (o.event != known.word) continue;
    message.event = known.event;
    target = known.target;
  }
  if (const std::string wrong = wrong_target(o, target); !wrong.empty()) {
    return complain(wrong, kUsage);
  }
  const std::string& number = target == Target::kQueuePair ? o.qp : o.srq;
  if (!number.empty()) {
    const auto parsed = target == Target::kQueuePair ? parse_qpn(number) : parse_srq(number);
    if (!parsed) return complain(parsed.error().text, kUsage);
    message.number = *parsed;
  }
  auto emulator = o.chosen.reach();
  if (!emulator) return complain(emulator.error().text);
  const auto done = emulator->channel.call<control::Ack>(message);
  if (!done) return complain(done.error().text);
  if (context.as_json) print_answer(context, {{"device", o.device}, {"event", o.event}});
  return kOk;
}

}  // namespace

std::vector<std::string> event_words() {
  std::vector<std::string> words;
  words.reserve(std::size(kEvents));
  for (const EventWord& known : kEvents) words.emplace_back(known.word);
  return words;
}

void add_event(CLI::App& app, Context& context) {
  auto o = std::make_shared<EventOptions>();
  CLI::App* command = app.add_subcommand(
      "event", "Raise an asynchronous event in the programs that have a device open.");
  command->add_option("device", o->device, "Name of the device")->required();
  command->add_option("event", o->event, "The event")
      ->required()
      ->check(CLI::IsMember(event_words()));
  command->add_option("--qp", o->qp, "The queue pair for path-mig-err and qp-fatal, as 0x004001")
      ->type_name("NUMBER");
  command->add_option("--srq", o->srq, "The shared receive queue for srq-err, as 0x80200001")
      ->type_name("NUMBER");
  o->chosen.add_to(*command);
  add_json_option(*command, context);
  command->callback([o, &context] { context.exit_code = raise(*o, context); });
}

}  // namespace verbena::cli
