// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/settings/scenario.hpp"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <cerrno>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "file_text.hpp"

namespace verbena::settings {
namespace {

using control::fail;
using control::Outcome;

// Makes errors that say their line.
class Place {
 public:
  explicit Place(const std::string& origin) : origin_(origin) {}
  Failure<control::Error> fail(const toml::source_region& where, const std::string& text) const {
    return control::fail(EINVAL, origin_ + ":" + std::to_string(where.begin.line) + ": " + text);
  }

 private:
  const std::string& origin_;
};

// Returns a string, number or time as it is written in a rule on one line.
std::optional<std::string> word_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) {
    std::ostringstream text;
    text << number->get();
    return text.str();
  }
  return std::nullopt;
}

// A kind of table, and the key that names its action.
struct Kind {
  std::string_view name;
  std::string_view action;
};
constexpr Kind kRule{"rule", "action"};
constexpr Kind kEvent{"event", "do"};

// Returns the line of a wrong rule. It is that of the first key with which the rule is refused for
// this reason.
const toml::source_region& where_wrong(const std::string& action,
                                       std::span<const fault::RuleWord> conditions,
                                       std::span<const toml::source_region> places,
                                       const std::string& reason) {
  std::size_t taken = 0;
  while (taken < conditions.size()) {
    const auto rule = fault::make_rule(action, conditions.first(taken));
    if (!rule && rule.error() == reason) break;
    ++taken;
  }
  return places[taken];
}

Outcome<fault::Rule> rule_of(const toml::table& table, const Kind& kind, const Place& place) {
  std::string action;
  std::vector<fault::RuleWord> conditions;
  std::vector<toml::source_region> places{table.source()};  // of the action and the conditions
  for (const auto& [key, node] : table) {
    const auto word = word_of(node);
    if (!word)
      return place.fail(key.source(),
                        "\"" + std::string(key.str()) + "\" must be a string or a number");
    if (key.str() == kind.action) {
      action = *word;
      places.front() = key.source();
      continue;
    }
    const bool is_time = key.str() == "at" && kind.action == kEvent.action;
    conditions.push_back({std::string(is_time ? "after" : key.str()), *word});
    places.push_back(key.source());
  }
  if (action.empty()) {
    return place.fail(table.source(), kind.action == kEvent.action
                                          ? "an event wants something to do, as do = \"kill\""
                                          : "a rule wants an action, as action = \"drop\"");
  }
  auto rule = fault::make_rule(action, conditions);
  if (!rule) {
    return place.fail(where_wrong(action, conditions, places, rule.error()), rule.error());
  }
  const bool strikes_packets = !rule->is_event() && !rule->is_of_call();
  if (strikes_packets != (kind.action == kRule.action)) {
    return place.fail(table.source(),
                      strikes_packets ? "what strikes packets is written as [[rule]]"
                                      : "what happens once, or to calls, is written as [[event]]");
  }
  return std::move(*rule);
}

Outcome<control::Done> take_rules(const toml::key& key, const toml::node& node, const Kind& kind,
                                  const Place& place, Scenario& scenario) {
  const std::string name(kind.name);
  const std::string form = name + "s are written as [[" + name + "]]";
  const toml::array* list = node.as_array();
  if (list == nullptr) return place.fail(key.source(), form);
  for (const toml::node& element : *list) {
    const toml::table* table = element.as_table();
    if (table == nullptr) return place.fail(key.source(), form);
    auto rule = rule_of(*table, kind, place);
    if (!rule) return Failure<control::Error>{rule.error()};
    scenario.rules.push_back(std::move(*rule));
  }
  return control::Done{};
}

Outcome<control::Done> take_key(const toml::key& key, const toml::node& node, const Place& place,
                                Scenario& scenario) {
  if (key.str() == "rule") return take_rules(key, node, kRule, place, scenario);
  if (key.str() == "event") return take_rules(key, node, kEvent, place, scenario);
  if (key.str() != "seed") {
    return place.fail(key.source(), "unknown key \"" + std::string(key.str()) +
                                        "\"; known are seed, [[rule]], [[event]]");
  }
  const auto* seed = node.as_integer();
  if (seed == nullptr || seed->get() < 0) {
    return place.fail(key.source(), "seed must be a number from 0 on");
  }
  scenario.seed = static_cast<std::uint64_t>(seed->get());
  return control::Done{};
}

}  // namespace

Outcome<Scenario> parse_scenario(std::string_view text, const std::string& origin) {
  if (const auto checked = check_keys(text, origin); !checked) {
    return Failure<control::Error>{checked.error()};
  }
  const Place place(origin);
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return place.fail(parsed.error().source(), std::string(parsed.error().description()));
  }
  Scenario scenario;
  for (const auto& [key, node] : parsed.table()) {
    const auto taken = take_key(key, node, place, scenario);
    if (!taken) return Failure<control::Error>{taken.error()};
  }
  if (scenario.rules.empty())
    return fail(EINVAL, origin + ": there is no [[rule]] and no [[event]] in it");
  return scenario;
}

Outcome<Scenario> load_scenario(const std::string& path) {
  const auto text = text_of_file(path);
  if (!text) return Failure<control::Error>{text.error()};
  return parse_scenario(*text, path);
}

}  // namespace verbena::settings
