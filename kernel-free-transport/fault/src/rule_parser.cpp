// SPDX-License-Identifier: BSD-2-Clause
// Makes rules from words. A rule that could never do anything is refused.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "rule_checks.hpp"
#include "rule_words.hpp"
#include "verbena/base/failing_calls.hpp"
#include "verbena/fault/rule.hpp"

namespace verbena::fault {
namespace {

using words::list_of;
using words::value_of;

using Text = std::string;
// What is wrong. Empty: nothing.
using Complaint = std::string;

constexpr std::uint64_t kCountMost = 1'000'000'000'000;
constexpr std::uint64_t kMaxPsn = 0xffffff;

Text quoted(std::string_view text) { return "\"" + Text(text) + "\""; }

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t most = kCountMost) {
  std::uint64_t value = 0;
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, is_hex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

// Parses a decimal number. Returns it with the text behind it.
std::optional<std::pair<double, std::string_view>> parse_decimal(std::string_view text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !(value >= 0)) return std::nullopt;
  return std::pair(value, text.substr(static_cast<std::size_t>(end - text.data())));
}

std::optional<TimeNs> parse_time(std::string_view text) {
  constexpr words::Word<double> kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  constexpr double kMost = 1e6 * 1e9;
  const auto number = parse_decimal(text);
  if (!number) return std::nullopt;
  const auto unit = value_of(kUnits, number->second);
  if (!unit || number->first * *unit > kMost) return std::nullopt;
  return static_cast<TimeNs>(std::llround(number->first * *unit));
}

Complaint take_count(std::string_view key, std::string_view text, std::uint64_t& out) {
  const auto number = parse_number(text);
  if (!number) return Text(key) + "=" + Text(text) + ": a number is wanted, as " + Text(key) + "=3";
  if (*number == 0) return Text(key) + "=0 can never be: counting begins at 1";
  out = *number;
  return {};
}
template <typename T>
Complaint take_count(std::string_view key, std::string_view text, T& out) {
  std::uint64_t number = 0;
  Complaint wrong = take_count(key, text, number);
  if (wrong.empty() && number > ~T{0}) wrong = Text(key) + "=" + Text(text) + " is too large";
  out = static_cast<T>(number);
  return wrong;
}

Complaint take_time(std::string_view key, std::string_view text, TimeNs& out) {
  const auto time = parse_time(text);
  if (!time) {
    return Text(key) + "=" + Text(text) + ": a time is wanted, as " + Text(key) + "=50us or " +
           Text(key) + "=2ms";
  }
  out = *time;
  return {};
}

Complaint take_rate(std::string_view key, std::string_view text, std::uint64_t& out) {
  constexpr double kMost = 1e12;
  const auto number = parse_decimal(text);
  const auto unit = number ? value_of(words::kRates, number->second) : std::nullopt;
  const double bits = unit ? std::round(number->first * *unit) : 0;
  if (bits < 8 || bits > kMost) {
    return Text(key) + "=" + Text(text) + ": a speed is wanted, as " + Text(key) + "=10Mbit or " +
           Text(key) + "=1.5MB";
  }
  out = static_cast<std::uint64_t>(bits) / 8;
  return {};
}

template <typename T, std::size_t N, typename Out>
Complaint take_word(std::string_view key, std::string_view text, const words::Word<T> (&table)[N],
                    Out& out) {
  const auto value = value_of(table, text);
  if (!value) {
    return Text(key) + "=" + Text(text) + ": there is no such; it may be " + list_of(table);
  }
  out = *value;
  return {};
}

Text upper(std::string_view text) {
  Text capitals(text);
  std::ranges::transform(capitals, capitals.begin(), [](char c) {
    return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  });
  return capitals;
}

Complaint take_opcodes(std::string_view text, Rule& rule) {
  Opcodes opcodes;
  const Text all = upper(text);
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find(',', at), all.size());
    const Text name = all.substr(at, end - at);
    if (!words::add_opcodes(name, opcodes)) {
      return "opcode=" + name + ": there is no such packet; there are " +
             Text(words::kOpcodeExamples);
    }
    at = end + 1;
  }
  rule.opcodes = std::move(opcodes);
  return {};
}

Complaint take_psn(std::string_view text, Rule& rule) {
  const std::size_t dash = text.find('-');
  const auto from = parse_number(text.substr(0, dash));
  const auto to = dash == text.npos ? from : parse_number(text.substr(dash + 1));
  if (!from || !to) {
    return "psn=" + Text(text) +
           ": a number or two are wanted, as psn=5 or psn=5-9, counted from the queue pair's first "
           "one, which is 0";
  }
  if (*to > kMaxPsn) return "psn=" + Text(text) + " can never be: PSNs have 24 bits";
  if (*from > *to) return "psn=" + Text(text) + " can never be: the first is behind the last";
  rule.psn = PsnRange{*from, *to};
  return {};
}

Complaint take_program(std::string_view key, std::string_view name, Rule& rule) {
  if (name.empty()) return Text(key) + "= wants the name of a program";
  if (!rule.program.empty() && !is_called(rule.program, name)) {
    return "two programs in one rule can never be: " + quoted(rule.program) + " and " +
           quoted(name);
  }
  rule.program = name;
  return {};
}

// Takes PROGRAM:N. Returns nothing if the text has no colon.
std::optional<Complaint> take_place(std::string_view key, std::string_view text, Rule& rule) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  const auto place = parse_number(text.substr(colon + 1), ~std::uint32_t{0});
  if (!place || *place == 0) {
    return Text(key) + "=" + Text(text) +
           ": behind the colon its number among those of the program is wanted, from 1 on";
  }
  rule.place = static_cast<std::uint32_t>(*place);
  return take_program(key, text.substr(0, colon), rule);
}

Complaint take_srq(std::string_view text, Rule& rule) {
  if (rule.place != 0 || rule.qp) return "qp= and srq= can never be together";
  rule.is_of_srq = true;
  const auto taken = take_place("srq", text, rule);
  return taken ? *taken
               : "srq=" + Text(text) + ": a program and the place of its queue, as srq=server:1";
}

Complaint take_qp(std::string_view text, Rule& rule) {
  if (rule.is_of_srq) return "qp= and srq= can never be together";
  if (auto taken = take_place("qp", text, rule)) return *taken;
  const auto number = parse_number(text, kMask24);
  if (!number) {
    return "qp=" + Text(text) +
           ": a number as 0x004001 is wanted, or a program and the place of "
           "its queue pair, as client:1";
  }
  if (*number <= kManagementQpn.value()) {
    return "qp=" + Text(text) +
           ": queue pairs 0 and 1 are the emulator's; cm= and "
           "direction=management are about what it sends";
  }
  rule.qp = Qpn(static_cast<std::uint32_t>(*number));
  return {};
}

Complaint take_percent(std::string_view text, Rule& rule) {
  const auto number = parse_decimal(text);
  if (!number || (!number->second.empty() && number->second != "%")) {
    return "percent=" + Text(text) + ": a share is wanted, as percent=5 or percent=0.1";
  }
  const double ppm = std::round(number->first * 10'000);
  if (ppm < 1) return "percent=" + Text(text) + " can never be: one in a million is the least";
  if (ppm > 1'000'000) return "percent=" + Text(text) + " is more than all";
  rule.ppm = static_cast<std::uint32_t>(ppm);
  return {};
}

Complaint take_completion(std::string_view text, Rule& rule) {
  Text status = upper(text);
  if (status.starts_with("IBV_WC_")) status.erase(0, 7);
  if (status == "WR_FLUSH_ERR") {
    return "complete=WR_FLUSH_ERR can never be: requests are flushed behind one that has failed";
  }
  return take_word("complete", status, words::kCompletions, rule.completion);
}

Complaint take_error(std::string_view text, Rule& rule) {
  const auto error = error_named(upper(text));
  if (!error) return "fail=" + Text(text) + ": the error is none of " + names_of_errors();
  rule.error = error->value;
  return {};
}

// Functions that run before an object with rules exists, or that are answered without such an
// object.
constexpr std::string_view kWithoutRules[] = {"ibv_open_device", "rdma_create_event_channel",
                                              "rdma_destroy_id", "rdma_get_cm_event"};

bool obeys_rules(std::string_view function) {
  return std::ranges::find(kWithoutRules, function) == std::end(kWithoutRules);
}

// Lists the functions of the library that the name seems to belong to.
Text functions_like(std::string_view name) {
  const std::string_view prefix = name.starts_with("rdma_") ? "rdma_" : "ibv_";
  Text names;
  for (const std::string_view function : functions_that_can_fail()) {
    if (!function.starts_with(prefix) || !obeys_rules(function)) continue;
    names += (names.empty() ? "" : ", ") + Text(function);
  }
  return names;
}

Complaint take_call(std::string_view text, Rule& rule) {
  rule.call = function_that_can_fail(text);
  if (rule.call.empty()) {
    return "call=" + Text(text) + ": no function of that name can be made to fail; there are " +
           functions_like(text);
  }
  if (!obeys_rules(rule.call)) {
    return "call=" + Text(text) + ": rules do not reach this one; `verbena run --fail " +
           Text(text) + "=ERROR` does";
  }
  return {};
}

Complaint take_unit(std::string_view text, Rule& rule) {
  if (text != "message" && text != "packet") {
    return "unit=" + Text(text) + ": it may be message or packet, which is the default";
  }
  rule.by_message = text == "message";
  return {};
}

Complaint take_lasting(std::string_view text, Rule& rule) {
  if (Complaint wrong = take_time("for", text, rule.lasts); !wrong.empty()) return wrong;
  return rule.lasts == 0 ? "for=" + Text(text) + " can never be: it is over at once" : Complaint();
}

Complaint take_attempt(std::string_view text, Rule& rule) {
  if (text == "any") {
    rule.attempt = 0;
    return {};
  }
  return take_count("attempt", text, rule.attempt);
}

struct Condition {
  std::string_view key;
  Complaint (*take)(std::string_view value, Rule& rule);
};

const Condition kConditions[] = {
    {"call", take_call},
    {"opcode", take_opcodes},
    {"direction",
     [](std::string_view v, Rule& r) {
       return take_word("direction", v, words::kDirections, r.direction);
     }},
    {"cm", [](std::string_view v,
              Rule& r) { return take_word("cm", upper(v), words::kCmMessages, r.cm); }},
    {"nth",
     [](std::string_view v, Rule& r) {
       r.onwards = v.ends_with('+');
       return take_count("nth", v.substr(0, v.size() - r.onwards), r.nth);
     }},
    {"first", [](std::string_view v, Rule& r) { return take_count("first", v, r.first); }},
    {"every", [](std::string_view v, Rule& r) { return take_count("every", v, r.every); }},
    {"unit", take_unit},
    {"psn", take_psn},
    {"msg", [](std::string_view v, Rule& r) { return take_count("msg", v, r.message); }},
    {"attempt", take_attempt},
    {"qp", take_qp},
    {"srq", take_srq},
    {"program", [](std::string_view v, Rule& r) { return take_program("program", v, r); }},
    {"device",
     [](std::string_view v, Rule& r) {
       r.device = v;
       return v.empty() ? Complaint("device= wants the name of a device") : Complaint();
     }},
    {"percent", take_percent},
    {"burst", [](std::string_view v, Rule& r) { return take_count("burst", v, r.burst); }},
    {"after", [](std::string_view v, Rule& r) { return take_time("after", v, r.after); }},
    {"until", [](std::string_view v, Rule& r) { return take_time("until", v, r.until); }},
    {"for", take_lasting},
    {"order",
     [](std::string_view v, Rule& r) {
       r.keeps_order = v == "keep";
       return v == "keep" ? Complaint() : "order=" + Text(v) + ": it may be keep, or be left out";
     }},
};

Complaint take_condition(const RuleWord& word, Rule& rule) {
  // A value in a file may have blanks, but rules travel as lines, where it would be two words.
  if (word.value.find_first_of(" \t\r\n") != Text::npos) {
    return Text(word.key) + "=" + quoted(word.value) +
           ": there may be no blank in it; VERBENA_ROLE gives a program another name";
  }
  for (const Condition& condition : kConditions) {
    if (condition.key == word.key) return condition.take(word.value, rule);
  }
  Text known;
  for (const Condition& condition : kConditions) {
    known += (known.empty() ? "" : ", ") + Text(condition.key);
  }
  return "nothing is known of " + quoted(word.key) + "; there are the conditions " + known;
}

Complaint take_action(std::string_view text, Rule& rule) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const bool has_value = equals != text.npos;
  const std::string_view value = has_value ? text.substr(equals + 1) : std::string_view();
  const auto action = value_of(words::kActions, name);
  if (!action) {
    return quoted(text) + " is not what a rule can do: it begins with " + list_of(words::kActions);
  }
  rule.action = *action;
  switch (*action) {
    case Action::kDrop:
    case Action::kDuplicate:
    case Action::kCut:
    case Action::kPortDown:
    case Action::kPortUp:
    case Action::kKill:
    case Action::kStop:
    case Action::kCont:
      return has_value ? Text(name) + " stands alone: " + quoted(text) : Complaint();
    case Action::kCorrupt:
      return has_value ? take_word(name, value, words::kFields, rule.field) : Complaint();
    case Action::kDelay:
    case Action::kHold:
      if (Complaint wrong = take_time(name, value, rule.time); !wrong.empty()) return wrong;
      return rule.time == 0 ? Text(text) + " does nothing" : Complaint();
    case Action::kReorder:
      return take_count(name, value, rule.behind);
    case Action::kNak:
      return take_word(name, value, words::kNaks, rule.nak);
    case Action::kComplete:
      return take_completion(value, rule);
    case Action::kRaise:
      return take_word(name, value, words::kRaised, rule.raised);
    case Action::kFail:
      return take_error(value, rule);
    case Action::kRate:
      return take_rate(name, value, rule.bytes_per_second);
  }
  return {};
}

Result<Rule, std::string> failure(Complaint wrong) { return Failure{std::move(wrong)}; }

}  // namespace

Result<Rule, std::string> make_rule(std::string_view action, std::span<const RuleWord> conditions) {
  Rule rule;
  if (Complaint wrong = take_action(action, rule); !wrong.empty()) return failure(wrong);
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    const RuleWord& word = conditions[i];
    const auto is_same = [&](const RuleWord& other) { return other.key == word.key; };
    if (std::ranges::any_of(conditions.first(i), is_same)) {
      return failure(quoted(word.key) + " is said twice");
    }
    if (Complaint wrong = take_condition(word, rule); !wrong.empty()) return failure(wrong);
  }
  if (Complaint wrong = why_it_never_fires(rule); !wrong.empty()) return failure(wrong);
  if (to_string(rule).size() > Rule::kTextMost) return failure("the rule is too long");
  return rule;
}

Result<Rule, std::string> parse_rule(std::string_view line) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = std::min(line.find_first_not_of(" \t", at), line.size());
    const std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    if (begin != end) parts.push_back(line.substr(begin, end - begin));
    at = end;
  }
  if (parts.empty()) return failure("a rule is empty: it begins with " + list_of(words::kActions));
  std::vector<RuleWord> conditions;
  for (const std::string_view part : std::span(parts).subspan(1)) {
    const std::size_t equals = part.find('=');
    if (equals == part.npos) {
      return failure(quoted(part) + " is not a condition: those are KEY=VALUE");
    }
    conditions.push_back({Text(part.substr(0, equals)), Text(part.substr(equals + 1))});
  }
  return make_rule(parts.front(), conditions);
}

}  // namespace verbena::fault
