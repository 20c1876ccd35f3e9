// SPDX-License-Identifier: BSD-2-Clause
#include "fault_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <initializer_list>

#include "text.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/fault/rule.hpp"
#include "verbena/settings/scenario.hpp"

namespace verbena::cli {
namespace {

using control::ChangeFault;
using control::Error;
using control::Outcome;

// Takes words one after the other, until one is wrong.
class Words {
 public:
  // Parses `text` into `out`, and notes that it was named.
  template <typename T, typename Parse>
  void take(const std::string& text, Parse parse, T& out, std::uint32_t bit, std::uint32_t& named) {
    if (text.empty() || error_.code != 0) return;
    const auto value = parse(text);
    if (!value) {
      error_ = value.error();
      return;
    }
    out = *value;
    named |= bit;
  }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// Returns what is wrong with words of which each alone is right; nullptr: nothing.
const char* contradiction(const FaultOptions& o, const ChangeFault& change) {
  const bool has_rules = !change.rules.empty();
  if (o.clear && change.named != 0) return "--clear takes no fault beside it, but rules";
  if (!o.clear && change.named == 0 && !has_rules) {
    return "name a fault (--loss 1%, --inject 'drop nth=3', ...) or --clear; `verbena status` "
           "shows what is set";
  }
  const bool has_values = (change.named & ~std::uint32_t{control::kFaultSeed}) != 0;
  const bool has_aim = change.qpn != 0 || !o.device.empty() || o.data || o.cm;
  if (has_rules && has_aim && !has_values) {
    return "a rule says itself whom it is about: qp=, device= and direction= within it, instead of "
           "--qp, --device, --data and --cm";
  }
  if (change.qpn == control::FaultSpec::kCm) {
    return "queue pair 1 is the emulator's: --cm aims at what it sends";
  }
  if (change.qpn != 0 && o.cm) {
    return "--cm is about what the emulator sends for all programs: it goes without --qp";
  }
  return nullptr;
}

// Takes the rules of --inject and of the file, in the form that the emulator takes.
Outcome<control::Done> take_rules(const FaultOptions& o, ChangeFault& change) {
  std::vector<fault::Rule> rules;
  for (const std::string& line : o.inject) {
    const auto rule = fault::parse_rule(line);
    if (!rule) return control::fail(EINVAL, "--inject '" + line + "': " + rule.error());
    rules.push_back(*rule);
  }
  if (!o.scenario.empty()) {
    const auto scenario = settings::load_scenario(o.scenario);
    if (!scenario) return Failure<Error>{scenario.error()};
    rules.insert(rules.end(), scenario->rules.begin(), scenario->rules.end());
    if (scenario->seed && !o.clear && (change.named & control::kFaultSeed) == 0) {
      change.seed = *scenario->seed;
      change.named |= control::kFaultSeed;
    }
  }
  if (rules.size() > control::kRulesMost) {
    return control::fail(EINVAL, "there may be " + std::to_string(control::kRulesMost) +
                                     " rules at a time, and these are " +
                                     std::to_string(rules.size()));
  }
  if (const std::string wrong = fault::why_one_never_fires(rules); !o.clear && !wrong.empty()) {
    return control::fail(EINVAL, wrong);
  }
  for (const fault::Rule& rule : rules) change.rules.push_back(fault::to_string(rule));
  return control::Done{};
}

}  // namespace

void FaultOptions::add_to(CLI::App& command) {
  command.add_option("--loss", loss, "Lose this share of the packets, as 1%");
  command.add_option("--duplicate", duplicate, "Send this share of the packets twice");
  command.add_option("--reorder", reorder, "Let later packets overtake this share of the packets");
  command.add_option("--corrupt", corrupt, "Flip a bit in this share of the packets");
  command.add_option("--delay", delay, "Delay each packet, as 50us or 2ms");
  command.add_option("--jitter", jitter, "Add a random delay up to this");
  command.add_option("--rate", rate,
                     "Limit the line's speed, as 100MB or 1Gbit a second; 0: no limit");
  command.add_option("--seed", seed,
                     "Decides which packets meet the faults; the same seed repeats them");
  command
      .add_option("--inject", inject,
                  "Add a rule, as 'drop opcode=SEND nth=3' (man verbena, RULES; repeatable)")
      ->type_name("RULE")
      ->allow_extra_args(false);
  command.add_option("--scenario", scenario, "Add the rules of this TOML file")->type_name("FILE");
  command.add_flag("--data", data, "Only packets that programs send");
  command.add_flag("--cm", cm, "Only packets of connection management (rdma_cm)");
}

void FaultOptions::add_target_to(CLI::App& command) {
  command.add_option("--device", device, "Only this device");
  command.add_option("--qp", qpn, "Only this queue pair, as 0x004001");
  command.add_flag("--clear", clear, "Remove all faults; with rules beside it, only these rules");
}

bool FaultOptions::names_fault() const {
  const auto is_named = [](const std::string* word) { return !word->empty(); };
  const std::initializer_list<const std::string*> words{&loss,  &duplicate, &reorder, &corrupt,
                                                        &delay, &jitter,    &rate,    &scenario};
  return !inject.empty() || std::any_of(words.begin(), words.end(), is_named);
}

Outcome<ChangeFault> FaultOptions::change() const {
  ChangeFault change;
  control::FaultValues& v = change.values;
  std::uint32_t names_qp = 0;
  Words words;
  words.take(qpn, parse_qpn, change.qpn, 1, names_qp);
  words.take(loss, parse_share, v.loss_ppm, control::kFaultLoss, change.named);
  words.take(duplicate, parse_share, v.duplicate_ppm, control::kFaultDuplicate, change.named);
  words.take(reorder, parse_share, v.reorder_ppm, control::kFaultReorder, change.named);
  words.take(corrupt, parse_share, v.corrupt_ppm, control::kFaultCorrupt, change.named);
  words.take(delay, parse_duration_ns, v.delay_ns, control::kFaultDelay, change.named);
  words.take(jitter, parse_duration_ns, v.jitter_ns, control::kFaultJitter, change.named);
  words.take(rate, parse_rate, v.rate_bytes_per_second, control::kFaultRate, change.named);
  words.take(seed, parse_seed, change.seed, control::kFaultSeed, change.named);
  if (words.error().code != 0) return Failure<Error>{words.error()};
  if (const auto taken = take_rules(*this, change); !taken) return Failure<Error>{taken.error()};
  if (const char* wrong = contradiction(*this, change)) return control::fail(EINVAL, wrong);
  change.device = device;
  change.clear = clear;
  change.data = data || !cm;
  change.cm = change.qpn == 0 && (cm || !data);
  return change;
}

}  // namespace verbena::cli
