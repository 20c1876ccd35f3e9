// SPDX-License-Identifier: BSD-2-Clause
#include "journal.hpp"

#include "journal_json.hpp"
#include "verbena/control/protocol.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/fault/rule.hpp"

namespace verbena::daemon {
namespace {

// The longest line. An event of a fault with the most rules is shorter, and the line fits into a
// message as a page of its own.
constexpr std::size_t kLineMost = 32 * 1024;
static_assert(control::kRulesMost * (fault::Rule::kTextMost + 3) < kLineMost);
static_assert(kLineMost + 1024 < control::kMaxMessage);

std::string numbered(std::uint64_t number, const std::string& object) {
  return "{\"seq\":" + std::to_string(number) + "," + object.substr(1);
}

}  // namespace

void Journal::add(const std::string& object) {
  if (object.size() > kLineMost) return add(json_of_lost(1, nullptr));
  lines_.push_back(numbered(newest() + 1, object));
  if (lines_.size() <= kKept) return;
  lines_.pop_front();
  ++first_;
}

std::string Journal::read(std::uint64_t& after, std::size_t most) const {
  std::string text;
  if (after >= newest()) return text;
  if (after + 1 < first_) {
    text = numbered(first_ - 1, json_of_lost(first_ - 1 - after, nullptr)) + "\n";
    after = first_ - 1;
  }
  for (; after < newest(); ++after) {
    const std::string& line = lines_[after + 1 - first_];
    if (!text.empty() && text.size() + line.size() + 1 > most) break;
    text += line + "\n";
  }
  return text;
}

}  // namespace verbena::daemon
